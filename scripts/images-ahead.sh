#!/bin/sh
# Builds the images that the rack of these stages needs while the stage before it waits for its
# peers most of the time, with the processors that nobody wants: scripts/images-ahead.sh STAGE...
# The rack takes what is there, waits for what is being built, and builds by itself (and complains
# of) what is not.
mkdir -p .cache/images
exec >.cache/images/ahead.log 2>&1 </dev/null
for stage in "$@"; do
  case $stage in
    lab) chrt --idle 0 images/debian/build.sh ;;
    lab-*)
      chrt --idle 0 images/debian/build.sh
      chrt --idle 0 images/debian/build.sh --ignition
      ;;
  esac
done
