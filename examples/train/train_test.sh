#!/usr/bin/env bash
# The training program as a user runs it: what it prints and how it ends.
# Arguments: the program, the data set, the README of the data set.
set -euo pipefail

data=$(realpath "$2")
readme=$(realpath "$3")

# The program with its data next to it, as `bazel build` leaves them.
train=$TEST_TMPDIR/train
cp "$1" "$train"
mkdir -p "$train.runfiles/tutti/examples/train/data"
cp "$data" "$train.runfiles/tutti/examples/train/data/"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Runs the program with the arguments after the first, which is the exit status
# that it has to end with; leaves its words in $output and $errors.
run() {
  local status=0
  output=$("$train" "${@:2}" 2>errors) || status=$?
  errors=$(<errors)
  ((status == $1)) || fail "train ${*:2}: status $status, wanted $1: $errors"
}

expect() {
  [[ $1 =~ $2 ]] || fail "no match for \"$2\" in: $1"
}

# Bad usage: status 2 and one line that says why.
expect_usage_error() {
  run 2 "${@:2}"
  expect "$errors" "$1"
  (($(wc -l <errors) == 1)) || fail "more than one line: $errors"
  [[ -z $output ]] || fail "printed before it failed: $output"
}

cd "$TEST_TMPDIR"

[[ $(sha256sum <"$data") == "$(grep -o '[0-9a-f]\{64\}' "$readme" | tail -n 1)  -" ]] ||
  fail "the data set is not the one that its README describes"

# Finds its data from any folder; learns; eight devices learn what one learns.
run 0 --epochs 3
expect "$output" '1500 images to train on, 297 to test'
expect "$output" '8 devices, 8 images each per step'
expect "$output" '1 device, 64 images each per step'
expect "$output" 'The 8 replicas are equal bit for bit'
expect "$output" 'Largest difference .*: [0-9.]+e-0[5-9]'
# Loss and gradient norm, which come through the outfeed, are those of 23 steps of
# all devices: the mean of eight parts is that of the whole.
mapfile -t means < <(grep -o '^ *3  *[0-9.]* *[0-9.]* *8[0-9]\.[0-9]* %' <<<"$output")
((${#means[@]} == 2)) || fail "no two lines for epoch 3 in: $output"
awk '{ if (NR == 1) { loss = $2; norm = $3 }
       if ($2 <= 0 || $3 <= 0 || ($2 - loss) ^ 2 > 1e-8 || ($3 - norm) ^ 2 > 1e-8) exit 1 }' \
  <(printf '%s\n' "${means[@]}") || fail "other means: ${means[*]}"
expect "$output" '%  +[0-9]+ us'

run 0 --epochs 1 --devices 3 --batch 5 --data "$data"
expect "$output" '3 devices, 5 images each per step'

# What each device reports, 8 times 23 steps; the one that it is compared with, 23.
run 0 --epochs 1 --watch
(($(grep -cE '^device [0-7] step [0-9]+ loss [0-9.]+ gradient_norm [0-9.]+$' <<<"$output") == 9 * 23)) ||
  fail "not a line for each report in: $output"
expect "$output" 'device 7 step 23 loss'

run 0 --help
expect "$output" '--devices'

expect_usage_error '--devices' --devices 0
expect_usage_error '--devices' --devices many
expect_usage_error '--epochs' --epochs -1
expect_usage_error '--batch' --batch 0
expect_usage_error 'NoSuchReduce' --algorithm NoSuchReduce
expect_usage_error '--no-such-option' --no-such-option
expect_usage_error '1500 images' --devices 100 --batch 100

run 1 --data /no/such/file
expect "$errors" 'cannot read /no/such/file'
