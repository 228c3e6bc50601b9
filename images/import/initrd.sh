#!/bin/sh
# Makes the initrd of an imported image from its own kernel modules and this host's busybox:
#
#   initrd.sh TREE VERSION zstd|gzip OUTPUT
#
# TREE has the modules and firmware that `muster image import` took out of the image, at their own
# paths below it, and modules.dep and modules.alias that name only these. The same input gives the
# same octets.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

project=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
# shellcheck source=images/common.sh
. "$project/images/common.sh"
# shellcheck source=images/small.sh
. "$project/images/small.sh"
tree=$1
version=$2
compression=$3
output=$4
need busybox=busybox-static cpio zstd xz=xz-utils
scratch import

root=$work/root
busybox_root "$project" "$root"
mkdir -p "$root/etc/muster" "$root/files/etc/cloud/cloud.cfg.d" "$root/lib" "$root/root" \
  "$root/scripts" "$root/tmp"
cp -r "$tree/." "$root/lib/"
find "$root/lib" -name '*.ko.xz' -exec xz -d {} +
find "$root/lib" -name '*.ko.zst' -exec zstd -q -d --rm {} +
find "$root/lib" -name '*.ko.gz' -exec gzip -d {} +
chmod -R u=rwX,go=rX "$root/lib"
install -m 755 "$project/images/import/init.sh" "$root/init"
install -m 644 "$project/images/debian/initramfs/scripts/muster" "$root/scripts/muster"
install -m 755 "$project/images/debian/initramfs/scripts/muster-dhcp" "$root/scripts/muster-dhcp"
install -m 755 "$project/src/ignition/report/muster-report.sh" "$root/etc/muster/muster-report.sh"
# The publisher's disks are not there, and the system would wait for them.
echo '# The root image is in memory (muster image import).' >"$root/files/etc/fstab"
# The last part of that file is about networkd, which not every image has.
sed '/^system_info:/,$d' \
  "$project/images/debian/cloud-init/root/etc/cloud/cloud.cfg.d/20-muster.cfg" \
  >"$root/files/etc/cloud/cloud.cfg.d/20-muster.cfg"
[ -d "$root/lib/modules/$version" ]
case $compression in
  zstd) archive "$root" | zstd -q -12 -T1 -f -o "$output" ;;
  gzip) archive "$root" | gzip -9n >"$output" ;;
esac
