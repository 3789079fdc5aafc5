#!/usr/bin/env bash
# The suite finds every bug of planted_bugs.cc, and says what is wrong.
set -euo pipefail

suite=$1
failed=0

# Fails unless the suite fails for the implementation $1 with the words $2, in
# its tests $3 if given.
must_find() {
  local output status=0
  output=$("$suite" --implementation="$1" --quick --unproved --gtest_fail_fast \
    --gtest_filter="${3:-*}" 2>&1) || status=$?
  if ((status != 1)) || ! grep --quiet --fixed-strings -- "$2" <<<"$output"; then
    echo "$1: exit status $status, wanted 1 and the words: $2"
    tail -n 20 <<<"$output"
    failed=1
  fi
}

must_find NeverEndsOnError 'ran 0 times'
must_find HidesErrors 'output, byte'
must_find WrongAtOneRank 'rank 1: output, byte'
must_find WritesBesideTheOutput 'bytes beside a buffer were written'
must_find WritesTheInput 'input, byte'
must_find WritesAfterDone 'a buffer was written after'
must_find KeepsTheOutput 'the deleters of 1 wrapped tensors did not run'
must_find DiffersBetweenRanks 'AllRanksGetTheSame'
must_find WaitsInACircle 'deadlock: rank 0'
must_find DependsOnArrival 'differs at byte' '*DeterminismTest*'
must_find DependsOnLayout 'differs at byte' '*DeterminismTest*'
must_find DependsOnUnequalTasks 'differs at byte' '*DeterminismTest*'
must_find LeavesWithoutRankZero 'rank 0 is late' '*BarrierTest*'

# Without a name all implementations are proved, those with bugs, too.
output=$("$suite" --quick \
  --gtest_filter='*ScheduleTest*:*MatrixTest*_2x4_7' \
  2>&1) || true
for words in 'schedules of WaitsInACircle are wrong' \
  'FAILED  ] Ranks/ScheduleTest.KeepsItsPromisesInEveryStandardCase/WaitsIn' \
  'FAILED  ] All/MatrixTest.EveryRankEndsWithTheSpecifiedBits/WrongAtOneRank' \
  'OK ] All/MatrixTest.EveryRankEndsWithTheSpecifiedBits/RingReduce_' \
  'OK ] All/MatrixTest.EveryRankEndsWithTheSpecifiedBits/Disguise_'; do
  if ! grep --quiet --fixed-strings -- "$words" <<<"$output"; then
    echo "all implementations: wanted the words: $words"
    failed=1
  fi
done
if grep --quiet 'MatrixTest.*WaitsInACircle' <<<"$output"; then
  echo "WaitsInACircle ran beside others, though its proof fails"
  failed=1
fi

# What the proof finds is not run.
output=$("$suite" --implementation=WaitsInACircle --quick 2>&1) || true
if ! grep --quiet 'proved only, not run' <<<"$output" ||
  grep --quiet 'MatrixTest' <<<"$output"; then
  echo "WaitsInACircle ran, though its proof fails"
  tail -n 20 <<<"$output"
  failed=1
fi

# What is asked wrongly is neither a crash nor a pass.
status=0
"$suite" --implementation=Nothing &>/dev/null || status=$?
if ((status != 2)); then
  echo "--implementation=Nothing: exit status $status, wanted 2"
  failed=1
fi
exit "$failed"
