#!/usr/bin/env bash
# The C++ that the guide shows is in the files that are compiled and proved.
set -euo pipefail
guide=$1 sources=("${@:2}")

awk '/^```cpp$/ {show = 1; next} /^```$/ {show = 0} show' "$guide" |
  while IFS= read -r line; do
    [[ -z $line ]] || grep --fixed-strings --line-regexp --quiet -- "$line" \
      "${sources[@]}" || {
      echo "not in ${sources[*]}: $line" >&2
      exit 1
    }
  done
