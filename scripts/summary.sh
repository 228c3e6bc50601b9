#!/bin/sh
# Adds up the stages named on the command line; the last line is `N passed, N failed, N skipped`,
# the exit code 1 unless all stages ended well. What failed, what passed only at its second try, and
# the seeds of properties that failed are named just before (test/README.md). A stage that ended
# badly without a failed test (tsc, a crash) counts as one failure.
set -u
passed=0
failed=0
skipped=0
left=.cache/results/left-out
for stage in "$@"; do
  ! grep -qx "$stage" "$left" 2>/dev/null || continue
  p=0 f=0 s=0
  [ -f ".cache/results/$stage" ] && read -r p f s <".cache/results/$stage"
  code=missing seconds='?'
  [ -f ".cache/results/$stage.exit" ] && read -r code seconds <".cache/results/$stage.exit"
  if [ "$code" != 0 ] && [ "$f" = 0 ]; then
    f=1
  fi
  echo "$stage: $p passed, $f failed, $s skipped (exit $code, $seconds s)"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
if [ -s "$left" ]; then
  echo "LEFT OUT, because this host is slow: $(sort "$left" | xargs). Run make test-all elsewhere."
fi
for stage in "$@"; do
  again=.cache/results/$stage.again
  [ -s "$again" ] && sed "s/^/AGAIN $stage: /" "$again"
done
for stage in "$@"; do
  failures=.cache/results/$stage.failures
  [ -s "$failures" ] && sed "s/^/FAILED $stage: /" "$failures"
done
for stage in "$@"; do
  seeds=.cache/results/$stage.seeds
  [ -s "$seeds" ] && sed "s/^/SEED $stage: /" "$seeds"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
