#!/usr/bin/env bash
# outfeed.cc prints the last loss of each device and how many samples it sent.
set -euo pipefail

output=$("$1")
diff - <(echo "$output") <<'EXPECTED'
0.2 5
0.2 5
EXPECTED
