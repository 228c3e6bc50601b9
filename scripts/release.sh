#!/bin/sh
# Makes the files of a release: scripts/release.sh [DIRECTORY], which is dist/release. The commit is
# built twice, each time in a clone of its own with packages of its own; what differs is an error.
#
#   KEY   a private key (PEM, Ed25519), which signs release.json in the package, and SHA256SUMS
#
# docs/install.md says how an operator verifies them.
set -eu
umask 022
cd "$(dirname "$(dirname "$(readlink -f "$0")")")"
into=${1:-dist/release}
key=${KEY:-}

if [ -n "$(git status --porcelain)" ]; then
  echo 'release.sh: commit or remove what has changed: a release is one commit' >&2
  exit 1
fi
if [ -e "$into" ]; then
  echo "release.sh: $into exists; move it away" >&2
  exit 1
fi
[ -z "$key" ] || key=$(readlink -f "$key")
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT INT TERM

# Signs a file with the key, beside the file.
sign() {
  openssl pkeyutl -sign -rawin -inkey "$key" -in "$1" -out "$1.sig"
}

# Builds the package in a clone.
build() {
  git clone --quiet --no-hardlinks . "$staging/$1"
  (
    cd "$staging/$1"
    make --no-print-directory node_modules >&2
    if [ -n "$key" ]; then
      node_modules/.bin/node scripts/package-files.ts release "$staging/signed-$1"
      MUSTER_RELEASE_SIGNATURE=$staging/signed-$1/release.json.sig
      export MUSTER_RELEASE_SIGNATURE
      sign "$staging/signed-$1/release.json"
    fi
    make --no-print-directory deb >&2
  )
}

build first
build second
package=$(cd "$staging/first/dist" && ls muster_*.deb)
if ! cmp "$staging/first/dist/$package" "$staging/second/dist/$package"; then
  echo 'release.sh: two builds of the same commit differ' >&2
  exit 1
fi
cd "$staging/first"
KEY=$key scripts/release-files.sh "dist/$package" "$staging/release"
cd - >/dev/null
mkdir -p "$(dirname "$into")"
mv "$staging/release" "$into"
ls -l "$into"
