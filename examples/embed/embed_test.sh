#!/usr/bin/env bash
# embed.cc prints the sums of all devices once for each, and ends well.
set -euo pipefail

output=$("$1")
diff - <(echo "$output") <<'EXPECTED'
1111 2222
1111 2222
1111 2222
1111 2222
EXPECTED
