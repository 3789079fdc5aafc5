#!/usr/bin/env bash
# flow_graph.cc runs the ring's steps, 2 x 3 for each of 4 devices, and the
# opaque all-reduce, to the same bits.
set -euo pipefail

output=$("$1")
diff - <(echo "$output") <<'EXPECTED'
ran 24 steps
same bits
EXPECTED
