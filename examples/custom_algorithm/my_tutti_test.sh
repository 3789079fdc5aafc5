#!/usr/bin/env bash
# The tool proves DirectReduce, and measures it beside the others.
set -euo pipefail

"$1" verify DirectReduce --max-ranks 16 |
  grep -E '^DirectReduce +1\.\.16 +[0-9]+ +0  ok$'

rows=$("$1" perf all_reduce --devices 4 --min-bytes 1K --max-bytes 1K \
  --iterations 2 --check --algorithm RingReduce,DirectReduce)
echo "$rows"
grep -q RingReduce <<<"$rows"
grep -q DirectReduce <<<"$rows"
