#!/bin/sh
# Runs one stage of the tests and remembers its counts: scripts/stage.sh NAME COMMAND... The exit
# code is kept for scripts/summary.sh, so that a failing stage does not hide the ones after it.
set -u
name=$1
shift
mkdir -p .cache/results
for file in "" .exit .failures .again .seeds; do
  rm -f ".cache/results/$name$file"
done
started=$(date +%s)
MUSTER_TEST_STAGE=$name "$@"
code=$?
echo "$code" >".cache/results/$name.exit"
echo "== $name: exit $code after $(($(date +%s) - started)) s"
[ "${MUSTER_KEEP_GOING:-}" = 1 ] || exit "$code"
