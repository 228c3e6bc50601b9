#!/bin/sh
# Whether a long part of the tests must not begin: scripts/late.sh [MINUTES]. scripts/test.sh says
# until when it may, and whether this host is slow; MINUTES are added to that.
until=$((${MUSTER_LONG_UNTIL:-9999999999} + ${1:-0} * 60))
[ -n "${MUSTER_SLOW:-}" ] || [ "$(date +%s)" -gt "$until" ]
