#!/bin/sh
# Mounts file systems of a disk image read-only and runs a command on them:
#
#   mounted.sh TREE FILE [START SIZE TYPE OPTIONS PATH]... -- COMMAND...
#
# Each file system begins at octet START of FILE and is mounted at PATH below the directory TREE,
# where the command starts. `muster image import` runs this as root in namespaces of its own, so the
# mounts end with it; the command itself is run without privileges. Exits 90 when a file system
# cannot be mounted.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

tree=$1
file=$2
shift 2
devices=''

# device START SIZE: sets device to the loop device of that part of the file. One part gets one
# device, because btrfs refuses to mount the same file system from two.
device() {
  for known in $devices; do
    [ "${known%%=*}" != "$1" ] || device=${known#*=}
    [ "${known%%=*}" != "$1" ] || return 0
  done
  device=$(losetup --find --show --read-only --offset "$1" --sizelimit "$2" "$file") || exit 90
  devices="$devices $1=$device"
}

# release: lets the kernel remove each loop device with its last mount.
release() {
  for known in $devices; do
    losetup --detach "${known#*=}" 2>/dev/null || true
  done
}
trap release EXIT

while [ "$1" != -- ]; do
  place=$tree$5
  # A link in the image must not lead the mount to another place.
  if [ "$(realpath "$place")" != "$(realpath "$tree")${5%/}" ]; then
    echo "$5 is behind a link" >&2
    exit 90
  fi
  device "$1" "$2"
  mount -t "$3" -o "ro,nosuid,nodev,noexec$4" "$device" "$place" >&2 || exit 90
  shift 5
done
shift
release
trap - EXIT
cd "$tree"
exec "$@"
