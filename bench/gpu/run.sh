#!/bin/sh
# Checks and measures Tutti on the GPUs of this machine.
#
# usage: run.sh [FOLDER]
#
# Writes results.txt and results.json into FOLDER [default: ./results]. Exit
# status: 0 if all passed, whether or not aims were missed; 1 if something
# failed; 3 if there is no GPU.
set -u

# A GPU has 8 queues for streams unless it is told otherwise. Each device here has
# 8 streams and NCCL's: those that share a queue may wait for each other.
export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-32}"

here=$(cd "$(dirname "$0")" && pwd) || exit 1
results=${1:-results}
mkdir -p "$results" || exit 1
rm -f "$results"/checks.json "$results"/bench.json "$results"/status

no_gpu=3

processor() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; }

system() { sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null; }

driver() {
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1
  elif [ -r /proc/driver/nvidia/version ]; then
    head -n 1 /proc/driver/nvidia/version
  else
    echo "none found"
  fi
}

# Path of NVIDIA's tool that watches kernels, or nothing.
find_sanitizer() {
  command -v compute-sanitizer && return
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    if [ -n "$folder" ] && [ -x "$folder/bin/compute-sanitizer" ]; then
      echo "$folder/bin/compute-sanitizer"
      return
    fi
  done
}

# The text "$1" as JSON.
quoted() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

# The object in the file "$1", or null.
object() { if [ -s "$1" ]; then cat "$1"; else echo null; fi; }

# A short check under the sanitizer's tool "$1". Some checks want errors that
# calls return.
sanitize() {
  echo "=== compute-sanitizer --tool $1"
  if [ -z "$sanitizer" ]; then
    echo "LEFT OUT: there is no compute-sanitizer on the PATH, in CUDA_HOME or" \
      "in /usr/local/cuda"
    outcome=absent
  elif "$sanitizer" --tool "$1" --report-api-errors no --error-exitcode 9 \
    "$here/gpu_checks" --short; then
    outcome=passed
  else
    outcome=failed
    all_passed=false
  fi
}

run() {
  date=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  machine="$(uname -n): $(processor), $(nproc) processors, $(system)"
  driver=$(driver)
  version=$(cat "$here/version.txt" 2>/dev/null || echo unknown)
  sanitizer=$(find_sanitizer)
  all_passed=true
  echo "Tutti $version on $machine; driver $driver; $date"

  echo "=== gpu_checks"
  "$here/gpu_checks" --gtest_output="json:$results/checks.json"
  status=$?
  if [ "$status" -eq "$no_gpu" ]; then return "$no_gpu"; fi
  [ "$status" -eq 0 ] || all_passed=false
  echo "=== gpu_bench"
  "$here/gpu_bench" --benchmark_out="$results/bench.json" \
    --benchmark_out_format=json || all_passed=false
  sanitize memcheck
  memcheck=$outcome
  sanitize racecheck
  racecheck=$outcome

  {
    printf '{"version": %s,\n' "$(quoted "$version")"
    printf '"machine": %s,\n' "$(quoted "$machine")"
    printf '"driver": %s,\n' "$(quoted "$driver")"
    printf '"date": "%s",\n' "$date"
    printf '"passed": %s,\n' "$all_passed"
    printf '"sanitizer": {"memcheck": "%s", "racecheck": "%s"},\n' \
      "$memcheck" "$racecheck"
    printf '"checks": '
    object "$results/checks.json"
    printf ',\n"bench": '
    object "$results/bench.json"
    echo '}'
  } >"$results/results.json"
  if [ "$all_passed" = true ]; then echo "ALL PASSED"; else echo "FAILED"; fi
  [ "$all_passed" = true ]
}

{
  run
  echo "$?" >"$results/status"
} 2>&1 | tee "$results/results.txt"
status=$(cat "$results/status")
rm -f "$results"/checks.json "$results"/bench.json "$results"/status
exit "$status"
