#!/bin/sh
# Builds the probe system: a Debian kernel and an initrd of busybox and two scripts, some 10 MB that boot in seconds and report
# what they received. For scenarios about protocols, and for a first look at a rack.
#
#   images/probe/build.sh [--kernel cloud|generic] [--cache DIR] [--force] [--print-directory]
#
# `cloud` knows the network cards of virtual machines, `generic` also the common ones of servers. The kernel is the host's own
# release's. Prints the directory with kernel, initrd and image.json as its last line. Needs no root.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
kernel=cloud cache=$project/.cache/images force='' key_only=''

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
    modules='virtio_pci virtio_mmio virtio_net virtio_rng af_packet e1000 e1000e igb igc ixgbe i40e ice r8169 tg3 bnxt_en bnx2x mlx4_en mlx5_core'
    ;;
  *) echo "build.sh: --kernel is cloud or generic" >&2 && exit 2 ;;
esac

for tool in busybox cpio zstd xz; do
  command -v "$tool" >/dev/null 2>&1 || missing="${missing:-} $tool"
done
if [ -n "${missing:-}" ]; then
  echo "build.sh: missing:$missing; install with: scripts/packages.sh install" >&2
  exit 1
fi
# linux-image-cloud-amd64 depends on the real package of today.
real=$(apt-cache depends --important "$package" 2>/dev/null | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
if [ -z "$real" ]; then
  echo "build.sh: apt knows no $package; run: apt-get update" >&2
  exit 1
fi
recipe=$(
  cd "$project"
  {
    echo "$kernel $real"
    sha256sum images/probe/*.sh src/ignition/report/muster-report.sh
  } | sha256sum | cut -c1-16
)
out=$cache/probe-$kernel-$recipe
if [ -n "$key_only" ] || { [ -z "$force" ] && [ -f "$out/image.json" ]; }; then
  echo "$out"
  exit 0
fi

# Whoever comes second waits and takes what the first has built.
mkdir -p "$cache"
exec 9>"$out.lock"
flock 9
if [ -z "$force" ] && [ -f "$out/image.json" ]; then
  echo "$out"
  exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-probe.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
started=$(date +%s)
echo "building the probe system from $real: some 10 seconds, 30 to 100 MB to fetch" >&2
# apt as root fetches as the user _apt, who may not look into a private directory.
chmod 755 "$work"
(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$real" >&2)
mkdir "$work/kernel"
dpkg-deb -x "$work"/linux-image-*.deb "$work/kernel"
version=$(basename "$work"/kernel/boot/vmlinuz-* | sed 's/^vmlinuz-//')
# busybox inserts them as they are
find "$work/kernel" -name '*.ko.xz' -exec xz -d {} +

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/etc/muster" "$root/modules" "$root/proc" "$root/run" "$root/sys"
# In the order in which they must be inserted (a module's .modinfo section says what it needs): what a module depends on comes first. One that is built in has no file.
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
"$root/bin/busybox" --list | while read -r applet; do
  [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
install -m 755 "$here/init.sh" "$root/init"
install -m 755 "$here/udhcpc.sh" "$root/udhcpc.sh"
install -m 755 "$project/src/ignition/report/muster-report.sh" "$root/etc/muster/muster-report.sh"
# Same input, same octets: fixed times, order, owners and inode numbers.
find "$root" -exec touch -h -d @0 {} +
(cd "$root" && find . -print0 | LC_ALL=C sort -z | cpio --null --quiet --create --format=newc --owner=0:0 --reproducible) |
  zstd -q -19 -o "$work/initrd"
cp "$work/kernel/boot/vmlinuz-$version" "$work/vmlinuz"

describe() { printf '{"name": "%s", "sha256": "%s", "size": %s}' "$1" "$(sha256sum "$work/$2" | cut -d' ' -f1)" "$(stat -c %s "$work/$2")"; }
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
  "kernel": $(describe kernel vmlinuz),
  "initrd": $(describe initrd initrd)
}
JSON
mkdir -p "$out"
install -m 644 "$work/vmlinuz" "$out/kernel"
install -m 644 "$work/initrd" "$out/initrd"
# Last: its presence says that the others are complete.
install -m 644 "$work/image.json" "$out/image.json"
echo "built in $(($(date +%s) - started)) s: kernel $(($(stat -c %s "$out/kernel") / 1024)) KiB, initrd $(($(stat -c %s "$out/initrd") / 1024)) KiB" >&2
echo "$out"
