#!/bin/sh
# Whether it is too late to begin a long part of the tests: scripts/late.sh. scripts/test.sh sets
# until when it is not; without that it never is.
[ "$(date +%s)" -gt "${MUSTER_LONG_UNTIL:-9999999999}" ]
