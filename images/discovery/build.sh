#!/bin/sh
# Builds the discovery system, which machines boot that no document knows: a Debian kernel and an
# initrd of busybox and a few scripts. It reports what the machine is made of and waits to be
# accepted. It writes to a disk only where a wipe is ordered, or where it installs a system
# (wipe.sh, install.sh).
#
#   images/discovery/build.sh [--kernel cloud|generic] [--cache DIR] [--force] [--print-directory]
#
# `generic` (default) knows the network cards and disk controllers of common servers, `cloud` those
# of virtual machines. The kernel is the host's own release's. Prints the directory with kernel,
# initrd and image.json as its last line. Needs no root.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
# shellcheck source=images/common.sh
. "$project/images/common.sh"
# shellcheck source=images/small.sh
. "$project/images/small.sh"
kernel=generic
# The parts of the agent that init.sh reads in.
parts='base within serial inventory'
small_arguments "$project" "$@"
small_kernel "$kernel"
modules="$modules virtio_blk virtio_scsi sd_mod ahci nvme"
if [ "$kernel" = generic ]; then
  modules="$modules ata_piix megaraid_sas mpt3sas mpi3mr hpsa smartpqi aacraid"
fi

need busybox=busybox-static cpio zstd xz=xz-utils
real=$(real_package "$package")
recipe=$(
  cd "$project"
  {
    echo "$kernel $real"
    for part in $parts; do
      sha256sum "src/agent/scripts/muster-$part.sh"
    done
    sha256sum images/*.sh images/discovery/*.sh
  } | sha256sum | cut -c1-16
)
out=$cache/discovery-$kernel-$recipe
if [ -n "$key_only" ]; then
  echo "$out"
  exit 0
fi
built "$out" "$force"
only_builder "$out" "$force"
scratch discovery
started=$(date +%s)
echo "building the discovery system from $real: some 20 seconds, 30 to 100 MB to fetch" >&2
fetch_package "$real" "$work"
unpack_kernel "$work"/linux-image-*.deb "$work/kernel"
version=$(basename "$work"/kernel/boot/vmlinuz-* | sed 's/^vmlinuz-//')

root=$work/root
# shellcheck disable=SC2086 # names, one a word
small_root "$project" "$root" "$work/kernel" $modules
mkdir -p "$root/agent"
for part in $parts; do
  install -m 644 "$project/src/agent/scripts/muster-$part.sh" "$root/agent"
done
install -m 755 "$here/init.sh" "$root/init"
install -m 644 "$here/wipe.sh" "$root/wipe.sh"
install -m 644 "$here/install.sh" "$root/install.sh"
rm -f "$root/bin/lsblk"
install -m 755 "$here/lsblk.sh" "$root/bin/lsblk"
small_files "$root" "$work/kernel" "$version"

# panic: a kernel that stops on unknown hardware starts over, and is counted.
cat >"$work/image.json" <<JSON
{
  "name": "discovery",
  "os": "discovery",
  "version": "1",
  "arch": "x86_64",
  "recipe": "$recipe",
  "configFormat": "none",
  "kernelVersion": "$version",
  "kernelArguments": ["console=ttyS0,115200n8", "console=tty0", "panic=60"],
  "kernel": $(describe "$work/vmlinuz" kernel),
  "initrd": $(describe "$work/initrd" initrd)
}
JSON
small_finish "$started"
