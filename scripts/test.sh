#!/bin/sh
# Runs stages of the tests one after the other and adds up their counts: scripts/test.sh STAGE...
# `peers=PART,PART` is a stage whose parts run concurrently. A failing stage does not keep the later
# ones from running; its failures are named at the end. With MUSTER_LONG_MINUTES no long part begins
# after so many minutes, and none at all on a slow host, and two parts run concurrently. The
# summary names those that were left out: such a host would not end before its CI gives up, and
# would have shown nothing.
set -u
if [ -n "${MUSTER_LONG_MINUTES:-}" ]; then
  # A usual host takes 1 ms to start a program, some take 5.
  pace=$(scripts/pace.sh)
  echo "This host takes $pace us to start a program."
  if [ "$pace" -gt 2500 ]; then
    MUSTER_SLOW=1
    export MUSTER_SLOW
  fi
  MUSTER_LONG_UNTIL=$(($(date +%s) + MUSTER_LONG_MINUTES * 60))
  export MUSTER_LONG_UNTIL
fi
if [ "$(id -u)" != 0 ]; then
  echo 'The stage peers makes network namespaces of its own, which takes root; it is run by sudo.'
  if ! [ -t 0 ] || ! command -v sudo >/dev/null 2>&1; then
    echo 'make test: nobody can type a password here: run sudo make test.' >&2
    echo 'Without root: make check, make unit, make fuzz.' >&2
    exit 1
  fi
  sudo -v || exit 1
fi
results=
mkdir -p .cache/results
rm -f .cache/results/left-out
for stage in "$@"; do
  name=${stage%%=*}
  case $name in
    peers*)
      # The images of the rack are built while the peers wait for each other.
      scripts/images-ahead.sh "$@" &
      ;;
  esac
  if [ "$name" = lab-all ] && scripts/late.sh 10; then
    echo "lab-long" >>.cache/results/left-out
    name=lab
    stage=lab
  fi
  results="$results $(echo "${stage#*=}" | tr , ' ')"
  MUSTER_KEEP_GOING=1 make --no-print-directory "$name"
done
# shellcheck disable=SC2086 # one stage a word
scripts/summary.sh $results
