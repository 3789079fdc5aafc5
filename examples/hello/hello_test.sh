#!/usr/bin/env bash
# The README shows this program and its output as they are.
set -euo pipefail
hello=$1 source=$2 readme=$3

[[ $("$hello") == "11 22 33" ]] || { echo "wrong sum" >&2; exit 1; }
shown=$(awk '/^```cpp$/ {show = 1; next} /^```$/ {show = 0} show' "$readme")
diff <(echo "$shown") "$source"
