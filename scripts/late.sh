#!/bin/sh
# Whether a long part of the tests must not begin: scripts/late.sh. scripts/test.sh says until when
# it may, and whether this host is slow.
[ -n "${MUSTER_SLOW:-}" ] || [ "$(date +%s)" -gt "${MUSTER_LONG_UNTIL:-9999999999}" ]
