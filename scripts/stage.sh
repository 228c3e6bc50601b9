#!/bin/sh
# Runs one stage of the tests and remembers its counts and its time: scripts/stage.sh NAME
# COMMAND... The exit code is kept for scripts/summary.sh, so that a failing stage does not hide the
# ones after it.
set -u
name=$1
shift
mkdir -p .cache/results
for file in "" .exit .failures .again .seeds .files; do
  rm -f ".cache/results/$name$file"
done
case $name in
  # The racks of etcd have limits in seconds, which a slow host exceeds where nothing is wrong.
  long-* | peers-etcd)
    if scripts/late.sh; then
      echo "$name" >>.cache/results/left-out
      echo "== $name: left out"
      exit 0
    fi
    ;;
esac
started=$(date +%s)
MUSTER_TEST_STAGE=$name "$@"
code=$?
seconds=$(($(date +%s) - started))
echo "$code $seconds" >".cache/results/$name.exit"
echo "== $name: exit $code after $seconds s"
[ "${MUSTER_KEEP_GOING:-}" = 1 ] || exit "$code"
