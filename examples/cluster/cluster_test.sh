#!/usr/bin/env bash
# Both tasks of a cluster print the sum.
set -euo pipefail

# Ports that were free a moment ago.
ports=$(python3 -c '
import socket
held = [socket.socket() for _ in range(2)]
for s in held: s.bind(("127.0.0.1", 0))
print(",".join("127.0.0.1:%d" % s.getsockname()[1] for s in held))')

"$1" "$ports" 1 >"$TEST_TMPDIR/1" &
first=$("$1" "$ports" 0)
wait $!
for printed in "$first" "$(<"$TEST_TMPDIR/1")"; do
  [[ $printed == "3 30 300" ]] || {
    echo "printed \"$printed\""
    exit 1
  }
done
