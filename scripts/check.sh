#!/bin/sh
# Lint and format (biome), types (tsc), shell scripts (shellcheck). The import rule is a test
# (test/audit).
set -u
failed=0
npx biome check --error-on-warnings . || failed=1
npx tsc --noEmit -p . || failed=1
npx tsc --noEmit -p src/page || failed=1
# Every shell script that git knows, by its first line.
shebang='^#!(/bin/|/usr/bin/env )(ba)?sh'
# shellcheck disable=SC2016 # awk expands them
scripts=$(git ls-files -co --exclude-standard | while read -r file; do
  [ ! -f "$file" ] || echo "$file"
done | xargs awk -v shebang="$shebang" 'FNR == 1 && $0 ~ shebang { print FILENAME } { nextfile }')
# shellcheck disable=SC2086 # names without spaces, one a word
shellcheck $scripts || failed=1
exit $failed
