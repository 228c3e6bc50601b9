#!/bin/sh
# Puts the files of a release together around its package: scripts/release-files.sh PACKAGE
# DIRECTORY, of a checkout of the released commit. KEY signs SHA256SUMS (release.sh).
set -eu
umask 022
package=$(readlink -f "$1")
into=$2
mkdir -p "$into"
into=$(readlink -f "$into")
cd "$(dirname "$(dirname "$(readlink -f "$0")")")"
version=$(dpkg-deb --field "$package" Version)

cp "$package" "$into/"
git archive --format=tar --prefix="muster-$version/" HEAD | gzip -9n >"$into/muster-$version.tar.gz"
sed 's#=dist/#=#' packaging/Containerfile >"$into/Containerfile"
dpkg-deb --fsys-tarfile "$package" |
  tar -xO ./usr/share/doc/muster/sbom.cdx.json >"$into/sbom.cdx.json"
node_modules/.bin/node scripts/package-files.ts provenance "$into"
cd "$into"
sha256sum -- * >SHA256SUMS
[ -z "${KEY:-}" ] ||
  openssl pkeyutl -sign -rawin -inkey "$KEY" -in SHA256SUMS -out SHA256SUMS.sig
