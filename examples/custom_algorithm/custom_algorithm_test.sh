#!/usr/bin/env bash
# custom_algorithm.cc prints the sums that DirectReduce made, and ends well.
set -euo pipefail

output=$("$1")
diff - <(echo "$output") <<'EXPECTED'
device 0: 1 1 1 1 1 1 -> 15 15 15 15 15 15
device 1: 2 2 2 2 2 2 -> 15 15 15 15 15 15
device 2: 4 4 4 4 4 4 -> 15 15 15 15 15 15
device 3: 8 8 8 8 8 8 -> 15 15 15 15 15 15
EXPECTED
