#!/bin/sh
# The disk that a machine starts from while the boot server does not answer. It holds what the
# machine booted from the network (kernel, initrds, root image, first configuration), and loaders
# for BIOS (extlinux) and UEFI (systemd-boot).
#
#     muster-boot.sh keep SELECTOR KERNEL SHA256 SIZE [INITRD SHA256 SIZE]...
#         brings the one disk that fits up to date, with files from these URLs, and writes how that
#         ended to /run/muster/bootdisk, as `STATE TEXT`
#
# The agent got the configuration of this boot over TLS and put it into /run/muster/boot/seed
# (muster-kept.sh). Nothing that came without TLS and without a known hash gets onto the disk.
#
# Files on the disk have their hashes as names, and are complete before a loader's configuration
# names them: cut off anywhere, the disk starts what it started before. Paths are below MUSTER_ROOT.
# Needs coreutils, util-linux, curl, cpio, mkfs.vfat, extlinux and systemd-boot-efi.
#
# A function that finds out one text sets the variable that has the function's own name; others
# name in their comment what they set.
set -u
umask 077
LC_ALL=C
export LC_ALL

root=$(readlink -f "${MUSTER_ROOT:-/}")
root=${root%/}
case $0 in
  */*) here=${0%/*} ;;
  *) here=. ;;
esac
# shellcheck source=/dev/null
. "$here/muster-within.sh"
run=$root/run/muster
work=$run/boot
# Where the boot disk is mounted: here, or where the initramfs mounted it, because the root image of
# this boot is a file on it.
mounted=$work/disk
root_disk=$run/disk
# Where the initramfs put the root image, if it is in memory.
image=$run/image/root.squashfs
uefi_loader=$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi
bios_sector=$root/usr/lib/syslinux/mbr/gptmbr.bin

# Unmounts the disk, or makes it read-only again if the root image is on it. Then writes state $1
# and reason $2 to /run/muster/bootdisk, and exits.
finish() {
  if [ "$mounted" = "$root_disk" ]; then
    write_within 600 mount -o remount,ro "$mounted"
  elif mountpoint -q "$mounted"; then
    write_within 600 umount "$mounted"
  fi
  reason=$(printf '%s' "$2" | tr -s '\0-\37\177' ' ' | head -c 300)
  printf '%s %s\n' "$1" "$reason" >"$work/ended" && mv "$work/ended" "$run/bootdisk"
  [ "$1" = kept ]
  exit
}

# Runs a command in a subshell, without the lock. If it fails, finishes with what it printed.
try() {
  try_output=$("$@" 2>&1 9>&-) || finish failed "${try_output:-$1 failed}"
}

# Downloads URL $1 to file $2, of at most $3 octets. A server that names no size is stopped by the
# limit of the process, in blocks of 512 octets.
# shellcheck disable=SC2317 # `try` calls it
download() {
  ulimit -f $(($3 / 512 + 1))
  curl -q --silent --show-error --fail --proto =http,https --noproxy '*' \
    --connect-timeout 10 --max-time 600 --max-filesize "$3" --output "$2" "$1"
}

# Prints the kernel's arguments, one a line.
kernel_arguments() {
  tr -s ' ' '\n' <"$root/proc/cmdline"
}

# Sets argument to the value of kernel argument $1 (a regular expression); if it is given several
# times, the last one counts.
argument() {
  argument=$(kernel_arguments | sed -n "s/^$1=//p" | tail -n 1)
}

# --- the disk

# Finds the one disk that fits selector $1. Sets disk (its state), device, partition and detail.
look_at_disk() {
  disk=none
  device=''
  partition=''
  detail='muster-disk.sh said nothing'
  disk_fields=$(sh "$here/muster-disk.sh" boot-look "$1")
  while IFS='=' read -r field text; do
    case $field in
      disk) disk=$text ;;
      device) device=$text ;;
      partition) partition=$text ;;
      detail) detail=$text ;;
    esac
  done <<FIELDS
$disk_fields
FIELDS
}

# Makes the boot partition on the disk that fits selector $1, if the disk is blank; finishes if the
# disk cannot be used.
prepare_disk() {
  look_at_disk "$1"
  if [ "$disk" = blank ]; then
    try sh "$here/muster-disk.sh" boot-create "$1" "$device"
    look_at_disk "$1"
  fi
  [ "$disk" = ours ] || finish "$disk" "$detail"
}

# Mounts the disk's filesystem. One that was never finished or is broken is made again, because
# everything on it is also elsewhere; the one that has the root of this system is only made
# writable.
mount_disk() {
  if [ "$(findmnt -nro SOURCE -M "$root_disk")" = "$partition" ]; then
    mounted=$root_disk
    try write_within 300 mount -o remount,rw "$mounted"
    return 0
  fi
  mkdir -p "$mounted"
  # A run that was killed left it mounted.
  ! mountpoint -q "$mounted" || try write_within 600 umount "$mounted"
  write_within 600 fsck.vfat -a "$root$partition" >/dev/null 2>&1
  label=$(within 20 blkid -p -o value -s LABEL "$root$partition" 2>/dev/null)
  [ $? != 124 ] || finish failed "blkid did not end on $partition"
  if [ "$label" = MUSTERBOOT ]; then
    write_within 300 mount -t vfat -o umask=077 "$root$partition" "$mounted" 2>/dev/null &&
      return 0
  fi
  try write_within 600 mkfs.vfat -F 32 -n MUSTERBOOT "$root$partition"
  try write_within 300 mount -t vfat -o umask=077 "$root$partition" "$mounted"
}

# Puts file $1 on the disk as $2, whole or not at all.
place() {
  [ "${1##*/}" = new ] || try cp "$1" "$mounted/muster/new"
  try sync "$mounted/muster/new"
  try mv "$mounted/muster/new" "$mounted/$2"
}

# Downloads URL $1, with SHA-256 $2 and size $3, to muster/$4 on the disk, unless it is there. The
# file is padded, because a kernel finds the next initrd only at a multiple of four octets.
fetch() {
  [ ! -e "$mounted/muster/$4" ] || return 0
  try download "$1" "$mounted/muster/new" "$3"
  sha256=$(sha256sum <"$mounted/muster/new")
  [ "${sha256%% *}" = "$2" ] || finish failed "$1 does not have the SHA-256 $2"
  try truncate -s %512 "$mounted/muster/new"
  place "$mounted/muster/new" "muster/$4"
}

# Packs the files $3 ... of directory $2 as an initrd, muster/$1 on the disk, unless it is there.
pack() {
  packed=$1
  cd "$2" || finish failed "there is no $2"
  shift 2
  if [ ! -e "$mounted/muster/$packed" ]; then
    printf '%s\n' "$@" | cpio --quiet -o -L -H newc >"$mounted/muster/new" ||
      finish failed "no room for $packed on the boot disk"
    place "$mounted/muster/new" "muster/$packed"
  fi
  cd /
}

# Writes text $1 as file $2 of the disk, unless the file has this text already.
configure() {
  printf '%s\n' "$1" >"$work/text"
  mkdir -p "$mounted/${2%/*}"
  cmp -s "$work/text" "$mounted/$2" || place "$work/text" "$2"
}

# Finishes unless this image has everything that is needed.
check_image() {
  for file in "$uefi_loader" "$bios_sector"; do
    [ -r "$file" ] || finish failed "this image lacks ${file#"$root"}"
  done
  for program in extlinux cpio sfdisk mkfs.vfat; do
    command -v "$program" >/dev/null || finish failed "this image lacks $program"
  done
}

# Puts both loaders on the disk, where they are not there.
write_loaders() {
  efi=$mounted/EFI/BOOT/BOOTX64.EFI
  if ! head -c 440 "$root$device" | cmp -s - "$bios_sector"; then
    try dd if="$bios_sector" of="$root$device" bs=440 count=1 conv=notrunc,fsync status=none
  fi
  [ -e "$mounted/syslinux/ldlinux.sys" ] ||
    try write_within 120 extlinux --install "$mounted/syslinux"
  cmp -s "$uefi_loader" "$efi" || try cp "$uefi_loader" "$efi"
}

# Puts kernel $1 with SHA-256 $2 and size $3, initrds $4 ... with theirs, on the disk. Sets kernel
# and initrds to their names there.
fetch_boot_files() {
  kernel=k-$(printf '%.16s' "$2")
  fetch "$1" "$2" "$3" "$kernel"
  shift 3
  initrds=
  while [ $# -gt 0 ]; do
    initrd=i-$(printf '%.16s' "$2")
    fetch "$1" "$2" "$3" "$initrd"
    initrds="$initrds $initrd"
    shift 3
  done
}

# Puts the root image and the configuration on the disk as two more initrds, whose files the
# initramfs finds in /kept. Adds their names to initrds. A root image that this boot reads from the
# disk stays the file that it is: this initramfs has shown that it can mount that.
pack_image_and_seed() {
  if [ -n "$root_on_disk" ]; then
    image_initrd=
  else
    image_initrd=r-$image_name
    rm -rf "$work/root"
    mkdir -p "$work/root/kept" && ln -s "$image" "$work/root/kept/root.squashfs"
    pack "$image_initrd" "$work/root" kept kept/root.squashfs
  fi
  cd "$work/seed" || finish failed "there is no $work/seed"
  seed_initrd=s-$(cat kept/seed/* | sha256sum | head -c 16)
  # shellcheck disable=SC2046 # names, one a word
  pack "$seed_initrd" "$work/seed" kept kept/seed $(ls -d kept/seed/*)
  initrds="$initrds${image_initrd:+ $image_initrd} $seed_initrd"
}

# Prints the kernel arguments for a start from the disk: those of this boot, without the ones that
# are valid for this boot only.
disk_arguments() {
  once='vmlinuz$|(initrd|BOOT_IMAGE|ds|ignition\.config\.url|muster\.(url|root|time))='
  kernel_arguments | grep -Ev "^($once)" | tr '\n' ' '
  [ -e "$work/seed/kept/seed/ignition" ] || printf 'ds=nocloud '
  printf 'muster.kept=%s' "$(date +%s)"
}

# Makes both loaders start $kernel with $initrds.
write_configurations() {
  arguments=$(disk_arguments)
  [ ${#arguments} -lt 2000 ] || finish failed 'the kernel arguments are too long'
  initrd_list=''
  initrd_lines=''
  for initrd in $initrds; do
    initrd_list="${initrd_list:+$initrd_list,}/muster/$initrd"
    initrd_lines="$initrd_lines
initrd /muster/$initrd"
  done
  configure "DEFAULT muster
LABEL muster
LINUX /muster/$kernel
INITRD $initrd_list
APPEND $arguments" syslinux/syslinux.cfg
  configure "title Muster
linux /muster/$kernel$initrd_lines
options $arguments" loader/entries/muster.conf
  configure 'timeout 0
default muster.conf
editor no' loader/loader.conf
}

# Removes the files of earlier boots, which no configuration names any more.
remove_old_files() {
  for file in "$mounted"/muster/*; do
    case " $kernel $initrds ${root_on_disk:+v-$image_name} " in
      *" ${file##*/} "*) ;;
      *) rm -f "$file" ;;
    esac
  done
}

# Says where the root image of this boot is, for people.
where_root_is() {
  if [ -n "$root_on_disk" ]; then
    echo 'its root image is read from there'
    return
  fi
  read -r _ why <"$run/root"
  echo "its root image is in memory${why:+: $why}"
} 2>/dev/null

# Does `keep`: brings the boot disk up to date. The order matters: a file is complete on the disk
# before a configuration names it, and removed only after none does.
keep() {
  check_image
  prepare_disk "$1"
  shift
  argument 'muster\.root\.sha256'
  image_name=$(printf '%.16s' "$argument")
  [ -e "$image" ] || image=$root_disk/muster/v-$image_name
  if [ ! -e "$image" ]; then
    missing='the root image of this boot is not in /run/muster/image'
    finish failed "$missing: it is none that Muster builds"
  fi
  [ -e "$work/seed" ] || finish failed 'the boot server did not give the configuration of this boot'
  root_on_disk=
  mount_disk
  [ "$mounted/muster/v-$image_name" != "$image" ] || root_on_disk=yes
  try mkdir -p "$mounted/muster" "$mounted/syslinux" "$mounted/EFI/BOOT" \
    "$mounted/loader/entries"
  rm -f "$mounted/muster/new"
  write_loaders
  fetch_boot_files "$@"
  pack_image_and_seed
  write_configurations
  try write_within 600 sync -f "$mounted"
  remove_old_files
  try write_within 600 sync -f "$mounted"
  finish kept "$device holds what this boot used; $(where_root_is)"
}

mkdir -p "$work"
exec 9>"$work/lock"
flock -n 9 || exit 0
case ${1:-} in
  keep)
    shift
    keep "$@"
    ;;
  *)
    echo 'usage: muster-boot.sh keep SELECTOR KERNEL SHA256 SIZE [INITRD SHA256 SIZE]...' >&2
    exit 2
    ;;
esac
