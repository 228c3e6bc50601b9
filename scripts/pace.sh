#!/bin/sh
# Prints how many microseconds this host takes to start a program: scripts/pace.sh. Most tests of
# peers do little else.
set -eu
from=$(date +%s%N)
n=0
while [ "$n" -lt 200 ]; do
  /bin/true
  n=$((n + 1))
done
echo "$((($(date +%s%N) - from) / 200000))"
