#!/bin/sh
# Builds the images of the rack while the stage before it waits for its peers most of the time, with
# the processors that nobody wants. The rack takes what is there, waits for what is being built, and
# builds by itself (and complains of) what is not.
mkdir -p .cache/images
exec >.cache/images/ahead.log 2>&1 </dev/null
for words in '' --ignition '--suite bookworm'; do
  # shellcheck disable=SC2086 # words
  chrt --idle 0 images/debian/build.sh $words
done
