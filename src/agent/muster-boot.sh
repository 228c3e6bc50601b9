#!/bin/sh
# The disk that a machine starts from while the boot server does not answer. It holds what the
# machine booted from the network: kernel, initrd, root image and first configuration, and loaders
# for BIOS (extlinux) and UEFI (systemd-boot).
#
#     muster-boot.sh seed
#         fetches the configuration of this boot, while its session is there to be asked
#     muster-boot.sh keep SELECTOR KERNEL SHA256 [INITRD SHA256]…
#         brings the one disk that fits up to date, with files from these URLs; how that ended stands in /run/muster/bootdisk, as `STATE TEXT`
#
# Files have their hashes as names and are there before a loader's configuration names them, so cut
# off anywhere the disk starts what it started before. Paths are below MUSTER_ROOT. Needs coreutils,
# util-linux, curl, cpio, mkfs.vfat, extlinux, systemd-boot-efi.
set -u
umask 077
LC_ALL=C
export LC_ALL

root=$(readlink -f "${MUSTER_ROOT:-/}")
root=${root%/}
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
run=$root/run/muster
work=$run/boot
at=$work/disk
# Where the initramfs put it.
image=$root/run/muster/image/root.squashfs
uefi=$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi
mbr=$root/usr/lib/syslinux/mbr/gptmbr.bin

# The end: state $1, for reason $2.
end() {
  ! mountpoint -q "$at" || umount "$at"
  printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr -s '\0-\37\177' ' ' | head -c 300)" >"$work/ended" && mv "$work/ended" "$run/bootdisk"
  [ "$1" = kept ]
  exit
}

# Runs the rest; if it fails, that is the end.
try() {
  said=$("$@" 2>&1 9>&-) || end failed "${said:-$1 failed}"
}

pull() {
  curl -q --silent --show-error --fail --proto =http,https --noproxy '*' --connect-timeout 10 --max-time 600 --output "$2" "$1"
}

# The kernel's arguments, one a line.
words() {
  tr -s ' ' '\n' <"$root/proc/cmdline"
}

# The value of kernel argument $1.
argument() {
  value=$(words | sed -n "s/^$1=//p" | tail -n 1)
}

# Ignition's document, or cloud-init's. Those that a server need not have are left out when it has
# not.
seed() {
  [ ! -e "$work/seed" ] || return 0
  argument 'ignition\.config\.url'
  url=${value%ignition} names=ignition
  if [ -z "$value" ]; then
    argument ds
    url=${value#*;s=} names='user-data meta-data vendor-data network-config'
    case $value in 'nocloud;s='* | 'nocloud-net;s='*) ;; *) return 1 ;; esac
  fi
  rm -rf "$work/seed.new"
  mkdir -p "$work/seed.new/kept/seed" || return 1
  for name in $names; do
    pull "$url$name" "$work/seed.new/kept/seed/$name" && continue
    case $?$name in 22vendor-data | 22network-config) rm -f "$work/seed.new/kept/seed/$name" ;; *) return 1 ;; esac
  done
  mv "$work/seed.new" "$work/seed"
}

# What the one disk that fits selector $1 is: sets disk, device, partition, detail.
look() {
  disk=none device='' partition='' detail='muster-disk.sh said nothing'
  found=$(sh "$here/muster-disk.sh" boot-look "$1")
  while IFS='=' read -r name value; do
    case $name in disk) disk=$value ;; device) device=$value ;; partition) partition=$value ;; detail) detail=$value ;; esac
  done <<FOUND
$found
FOUND
}

# Mounts the disk's filesystem; one that was never finished, or is broken, is made anew: nothing is
# on it that is not elsewhere.
mount_disk() {
  mkdir -p "$at"
  # One that was killed left it mounted.
  ! mountpoint -q "$at" || try umount "$at"
  fsck.vfat -a "$root$partition" >/dev/null 2>&1
  [ "$(blkid -p -o value -s LABEL "$root$partition")" = MUSTERBOOT ] && mount -t vfat -o umask=077 "$root$partition" "$at" 2>/dev/null && return 0
  try mkfs.vfat -F 32 -n MUSTERBOOT "$root$partition"
  try mount -t vfat -o umask=077 "$root$partition" "$at"
}

# File $1 stands as $2 on the disk.
place() {
  [ "${1##*/}" = new ] || try cp "$1" "$at/muster/new"
  try sync "$at/muster/new"
  try mv "$at/muster/new" "$at/$2"
}

# What URL $1 serves, with SHA-256 $2, as muster/$3. A kernel finds the next initrd only at a
# multiple of four octets.
fetch() {
  [ ! -e "$at/muster/$3" ] || return 0
  try pull "$1" "$at/muster/new"
  found=$(sha256sum <"$at/muster/new")
  [ "${found%% *}" = "$2" ] || end failed "$1 does not have the SHA-256 $2"
  try truncate -s %512 "$at/muster/new"
  place "$at/muster/new" "muster/$3"
}

# The files $3 … of directory $2 as an initrd, muster/$1.
pack() {
  name=$1
  cd "$2" || end failed "there is no $2"
  shift 2
  [ -e "$at/muster/$name" ] || printf '%s\n' "$@" | cpio --quiet -o -L -H newc >"$at/muster/new" || end failed "no room for $name on the boot disk"
  [ -e "$at/muster/$name" ] || place "$at/muster/new" "muster/$name"
  cd /
}

# Text $1 as file $2, if it is another.
configure() {
  printf '%s\n' "$1" >"$work/text"
  mkdir -p "$at/${2%/*}"
  cmp -s "$work/text" "$at/$2" || place "$work/text" "$2"
}

# What this boot was told, but for what holds for it alone.
arguments() {
  words | grep -Ev '^(vmlinuz$|(initrd|BOOT_IMAGE|ds|ignition\.config\.url|muster\.(url|root|time))=)' | tr '\n' ' '
  [ -e "$work/seed/kept/seed/ignition" ] || printf 'ds=nocloud '
  printf 'muster.kept=%s' "$(date +%s)"
}

keep() {
  for file in "$uefi" "$mbr"; do [ -r "$file" ] || end failed "this image lacks ${file#"$root"}"; done
  for name in extlinux cpio sfdisk mkfs.vfat; do command -v "$name" >/dev/null || end failed "this image lacks $name"; done
  look "$1"
  if [ "$disk" = blank ]; then
    try sh "$here/muster-disk.sh" boot-create "$1" "$device"
    look "$1"
  fi
  [ "$disk" = ours ] || end "$disk" "$detail"
  [ -e "$image" ] || end failed 'the root image of this boot is not in /run/muster/image: it is none that Muster builds'
  seed || end failed "the configuration of this boot cannot be fetched again: $url"
  mount_disk
  try mkdir -p "$at/muster" "$at/syslinux" "$at/EFI/BOOT" "$at/loader/entries"
  rm -f "$at/muster/new"
  head -c 440 "$root$device" | cmp -s - "$mbr" || try dd if="$mbr" of="$root$device" bs=440 count=1 conv=notrunc,fsync status=none
  [ -e "$at/syslinux/ldlinux.sys" ] || try extlinux --install "$at/syslinux"
  cmp -s "$uefi" "$at/EFI/BOOT/BOOTX64.EFI" || try cp "$uefi" "$at/EFI/BOOT/BOOTX64.EFI"
  kernel=k-$(printf '%.16s' "$3")
  fetch "$2" "$3" "$kernel"
  initrds=
  shift 3
  while [ $# -gt 0 ]; do
    name=i-$(printf '%.16s' "$2")
    fetch "$1" "$2" "$name"
    initrds="$initrds $name"
    shift 2
  done
  argument 'muster\.root\.sha256'
  name=r-$(printf '%.16s' "$value")
  rm -rf "$work/root"
  mkdir -p "$work/root/kept" && ln -s "$image" "$work/root/kept/root.squashfs"
  pack "$name" "$work/root" kept kept/root.squashfs
  initrds="$initrds $name"
  cd "$work/seed" || end failed "there is no $work/seed"
  name=s-$(cat kept/seed/* | sha256sum | head -c 16)
  # shellcheck disable=SC2046 # names, one a word
  pack "$name" "$work/seed" kept kept/seed $(ls -d kept/seed/*)
  initrds="$initrds $name"
  told=$(arguments)
  [ ${#told} -lt 2000 ] || end failed 'the kernel arguments are too long'
  for name in $initrds; do list="${list:+$list,}/muster/$name" lines="$lines
initrd /muster/$name"; done
  configure "DEFAULT muster
LABEL muster
LINUX /muster/$kernel
INITRD $list
APPEND $told" syslinux/syslinux.cfg
  configure "title Muster
linux /muster/$kernel$lines
options $told" loader/entries/muster.conf
  configure 'timeout 0
default muster.conf
editor no' loader/loader.conf
  try sync -f "$at"
  for file in "$at"/muster/*; do
    case " $kernel $initrds " in *" ${file##*/} "*) ;; *) rm -f "$file" ;; esac
  done
  try sync -f "$at"
  end kept "$device holds what this boot used"
}

mkdir -p "$work"
exec 9>"$work/lock"
flock -n 9 || exit 0
list='' lines='' url=''
case ${1:-} in
  seed) seed ;;
  keep) shift && keep "$@" ;;
  *) echo 'usage: muster-boot.sh seed | keep SELECTOR KERNEL SHA256 [INITRD SHA256]...' >&2 && exit 2 ;;
esac
