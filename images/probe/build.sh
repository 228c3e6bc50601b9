#!/bin/sh
# Builds the probe system: a Debian kernel and an initrd of busybox and two scripts, about 10 MB
# that boot in seconds and report what they received. It serves scenarios about protocols, and a
# first look at a rack.
#
#   images/probe/build.sh [--kernel cloud|generic] [--cache DIR] [--force] [--print-directory]
#
# `cloud` knows the network cards of virtual machines, `generic` also the common ones of servers.
# The kernel is the host's own release's. Prints the directory with kernel, initrd and image.json as
# its last line. Needs no root.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
# shellcheck source=images/common.sh
. "$project/images/common.sh"
kernel=cloud
cache=$(images_cache "$project")
force=''
key_only=''

while [ $# -gt 0 ]; do
  case $1 in
    --kernel) kernel=${2:-} && shift ;;
    --cache) cache=${2:-} && shift ;;
    --force) force=1 ;;
    --print-directory) key_only=1 ;;
    *) sed -n '5p' "$0" | cut -c5- >&2 && exit 2 ;;
  esac
  shift
done
case $kernel in
  cloud)
    package=linux-image-cloud-amd64
    modules='virtio_pci virtio_mmio virtio_net virtio_rng af_packet'
    ;;
  generic)
    package=linux-image-amd64
    modules='virtio_pci virtio_mmio virtio_net virtio_rng af_packet'
    modules="$modules e1000 e1000e igb igc ixgbe i40e ice r8169"
    modules="$modules tg3 bnxt_en bnx2x mlx4_en mlx5_core"
    ;;
  *) echo "build.sh: --kernel is cloud or generic" >&2 && exit 2 ;;
esac

need busybox=busybox-static cpio zstd xz=xz-utils
real=$(real_package "$package")
recipe=$(
  cd "$project"
  {
    echo "$kernel $real"
    sha256sum images/common.sh images/probe/*.sh src/ignition/report/muster-report.sh
  } | sha256sum | cut -c1-16
)
out=$cache/probe-$kernel-$recipe
if [ -n "$key_only" ]; then
  echo "$out"
  exit 0
fi
built "$out" "$force"
only_builder "$out" "$force"
scratch probe
started=$(date +%s)
echo "building the probe system from $real: some 10 seconds, 30 to 100 MB to fetch" >&2
fetch_package "$real" "$work"
unpack_kernel "$work"/linux-image-*.deb "$work/kernel"
version=$(basename "$work"/kernel/boot/vmlinuz-* | sed 's/^vmlinuz-//')

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/etc/muster" "$root/proc" "$root/run" "$root/sys"
# shellcheck disable=SC2086 # names, one a word
put_modules "$work/kernel" "$root/modules" $modules
cp "$(command -v busybox)" "$root/bin/busybox"
"$root/bin/busybox" --list | while read -r applet; do
  [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
install -m 755 "$here/init.sh" "$root/init"
install -m 755 "$here/udhcpc.sh" "$root/udhcpc.sh"
install -m 755 "$project/src/ignition/report/muster-report.sh" "$root/etc/muster/muster-report.sh"
archive "$root" | zstd -q -19 -o "$work/initrd"
cp "$work/kernel/boot/vmlinuz-$version" "$work/vmlinuz"

cat >"$work/image.json" <<JSON
{
  "name": "probe",
  "os": "probe",
  "version": "1",
  "arch": "x86_64",
  "recipe": "$recipe",
  "configFormat": "cloud-init",
  "kernelVersion": "$version",
  "kernelArguments": ["console=tty0", "console=ttyS0,115200n8"],
  "kernel": $(describe "$work/vmlinuz" kernel),
  "initrd": $(describe "$work/initrd" initrd)
}
JSON
mkdir -p "$out"
install -m 644 "$work/vmlinuz" "$out/kernel"
install -m 644 "$work/initrd" "$out/initrd"
# This file is written last, because its presence says that the others are complete.
install -m 644 "$work/image.json" "$out/image.json"
# Prints the size of file $1 of the image in KiB.
kib() {
  echo $(($(stat -c %s "$out/$1") / 1024))
}
echo "built in $(($(date +%s) - started)) s: kernel $(kib kernel) KiB, initrd $(kib initrd) KiB" >&2
echo "$out"
