#!/bin/sh
# The disk that a machine keeps its data on, and the one that it starts from by itself.
#
#     muster-disk.sh look SELECTOR                    what it is now, as lines NAME=VALUE (src/agent/facts.ts: DataDisk)
#     muster-disk.sh create SELECTOR DEVICE UUID      makes the filesystem, if the selector's one disk is DEVICE and blank
#     muster-disk.sh mount SELECTOR UUID              mounts it
#     muster-disk.sh boot-look SELECTOR               as look, for a boot disk (muster-boot.sh)
#     muster-disk.sh boot-create SELECTOR DEVICE      makes its partition, if the selector's one disk is DEVICE and blank
#
# SELECTOR: path=/dev/…, serial=…, size=MIN-MAX (MiB, either may be missing), joined by spaces; a disk must fit all of them. Only
# whole disks are looked at. A disk on which anything is that anybody could miss is foreign, and is never written to. Paths are
# below MUSTER_ROOT. On failure the reason is printed. Needs coreutils, util-linux and mkfs.ext4.
set -u
LC_ALL=C
export LC_ALL

root=$(readlink -f "${MUSTER_ROOT:-/}")
root=${root%/}
state=$root/var/lib/muster
selector=$2
case $1 in boot-*) booting=yes ;; *) booting= ;; esac

fail() {
  printf '%s\n' "$1"
  exit 1
}

# The first line of file $1 as `value`, without white space at its ends; empty when there is none.
first_line() {
  value=
  { [ -r "$1" ] && read -r value <"$1"; } 2>/dev/null
  :
}

# Sets disk, device, filesystem, mounted, partition and detail.
look() {
  disk=unused device='' filesystem='' mounted='' partition='' detail=''
  [ -n "$selector" ] || return 0
  fitting=
  for entry in "$root"/sys/block/*; do
    name=${entry##*/}
    case $name in '*' | loop* | ram* | zram* | sr* | fd* | dm-* | md* | mtd* | *'!'*) continue ;; esac
    fits "$name" && fitting="$fitting $name"
  done
  # shellcheck disable=SC2086 # names, one a word
  set -- $fitting
  case $# in
    0) disk=none detail="no disk fits $selector" ;;
    1) judge "$1" ;;
    *) disk=several detail="$* fit $selector" ;;
  esac
}

fits() {
  first_line "$root/sys/block/$1/size"
  case $value in '' | *[!0-9]*) return 1 ;; esac
  mib=$((value / 2048))
  # Less than this is no disk: an empty card reader, a driver's own stub.
  [ "$mib" -ge 8 ] || return 1
  for term in $selector; do
    want=${term#*=}
    case $term in
      path=*) [ "$(readlink -f "$root$want")" = "$root/dev/$1" ] || return 1 ;;
      serial=*) has_serial "$1" "$want" || return 1 ;;
      size=*-*)
        from=${want%-*} to=${want#*-}
        [ "$mib" -ge "${from:-0}" ] && [ "$mib" -le "${to:-$mib}" ] || return 1
        ;;
      *) return 1 ;;
    esac
  done
}

# The kernel's own word (virtio, NVMe), or udev's link that ends in the serial number (SATA, SAS, USB).
has_serial() {
  for file in serial device/serial; do
    first_line "$root/sys/block/$1/$file"
    [ "$value" != "$2" ] || return 0
  done
  for link in "$root"/dev/disk/by-id/*[_-]"$2"; do
    [ "$(readlink -f "$link")" != "$root/dev/$1" ] || return 0
  done
  return 1
}

# Whose disk $1 is.
judge() {
  device=/dev/$1 node=$root/dev/$1 sys=$root/sys/block/$1 disk=foreign
  first_line "$sys/size"
  sectors=$value
  for part in "$sys"/*/partition; do
    [ ! -e "$part" ] || { { [ -n "$booting" ] && is_boot; } || detail='has partitions'; return; }
  done
  for holder in "$sys"/holders/*; do
    [ ! -e "$holder" ] || { detail="is part of ${holder##*/}" && return; }
  done
  first_line "$sys/ro"
  [ "$value" != 1 ] || { detail='is read-only' && return; }
  label='' type=''
  found=$(blkid -p -o export "$node" 2>&1)
  probed=$?
  while IFS='=' read -r key value; do
    case $key in LABEL) label=$value ;; TYPE | PTTYPE) type=$value ;; UUID) filesystem=$value ;; esac
  done <<FOUND
$found
FOUND
  begun=$(dd if="$node" bs=512 skip=$((sectors - 1)) count=1 2>/dev/null | head -c 15 | tr -d '\0')
  case $probed in
    0)
      [ "$label $type" = 'MUSTER-DATA ext4' ] || { detail="holds $type${label:+ named $label}" && return; }
      # The mark of one that is being made is taken off last, before it is ever mounted: nothing is lost.
      [ "$begun" != MUSTER-DATA-NEW ] || { disk=blank && return; }
      disk=ours
      first_line "$sys/dev"
      [ -z "$value" ] || [ "$(findmnt -nro MAJ:MIN -M "$state")" != "$value" ] || mounted=yes
      return
      ;;
    2) ;;
    *) detail="cannot be told: ${found:-blkid ended with $probed}" && return ;;
  esac
  [ "$begun" != MUSTER-DATA-NEW ] || { disk=blank && return; }
  found=$(wipefs --noheadings "$node" 2>&1)
  [ -z "$found" ] || { detail="holds $found" && return; }
  if zeros 0 && zeros $((sectors / 2048 - 1)); then
    disk=blank
  else
    detail='holds data of an unknown kind; if nobody misses them, write zeros over its first and its last MiB'
  fi
}

# Whether the disk has one partition, by the name that we give it.
is_boot() {
  set -- "$sys"/*/partition
  [ $# = 1 ] && grep -qx 'PARTNAME=MUSTER-BOOT' "${1%/*}/uevent" 2>/dev/null || return 1
  part=${1%/*}
  disk=ours partition=/dev/${part##*/}
}

# Whether MiB $1 of the node can be read and is zero.
zeros() {
  [ "$(dd if="$node" bs=1048576 skip="$1" count=1 2>/dev/null | tr -d '\001-\377' | wc -c)" -eq 1048576 ]
}

# Text $1 in the last sector, which lies behind the filesystem (mkfs.ext4 wipes the first ones): it tells a filesystem whose making
# was cut off from somebody's data.
mark() {
  { printf '%s' "$1" && head -c $((512 - ${#1})) /dev/zero; } |
    dd of="$node" bs=512 seek=$((sectors - 1)) iflag=fullblock conv=notrunc,fsync status=none
}

create() {
  look
  [ "$disk $filesystem" != "ours $2" ] || return 0
  [ "$disk $device" = "blank $1" ] || fail "$1 is not made the data disk: ${device:-it} is $disk${detail:+, $detail}"
  { mark MUSTER-DATA-NEW && mkfs.ext4 -q -F -L MUSTER-DATA -U "$2" "$node" $((sectors / 2 - 1024))k && sync "$node" && mark ''; } 2>&1 ||
    fail "the filesystem was not made on $1"
}

# One partition that UEFI takes for its system's, and BIOS for the active one. Larger than 4 GiB it need not be.
create_boot() {
  look
  [ "$disk $device" != "ours $1" ] || return 0
  [ "$disk $device" = "blank $1" ] || fail "$1 is not made the boot disk: ${device:-it} is $disk${detail:+, $detail}"
  room=$((sectors - 4096))
  [ "$room" -le 8388608 ] || room=8388608
  printf 'label: gpt\nstart=2048, size=%s, type=U, name=MUSTER-BOOT, attrs=LegacyBIOSBootable\n' "$room" | sfdisk --quiet "$node" 2>&1 ||
    fail "the boot disk was not made on $1"
}

mount_it() {
  look
  [ "$disk $filesystem" = "ours $1" ] || fail "filesystem $1 is not here: ${device:-the disk} is $disk${detail:+, $detail}${filesystem:+, with $filesystem}"
  [ -z "$mounted" ] || return 0
  [ -z "$(findmnt -nro SOURCE -M "$state")" ] || fail "something else is mounted at /var/lib/muster: $(findmnt -nro SOURCE -M "$state")"
  mkdir -p "$state" && mount -t ext4 -o noatime "$node" "$state" 2>&1
}

case $1 in
  look) look && printf 'disk=%s\ndevice=%s\nfilesystem=%s\nmounted=%s\ndetail=%s\n' "$disk" "$device" "$filesystem" "$mounted" "$(printf '%s' "$detail" | tr '\n' ' ')" ;;
  create) create "$3" "$4" ;;
  mount) mount_it "$3" ;;
  boot-look) look && printf 'disk=%s\ndevice=%s\npartition=%s\ndetail=%s\n' "$disk" "$device" "$partition" "$(printf '%s' "$detail" | tr '\n' ' ')" ;;
  boot-create) create_boot "$3" ;;
  *) fail 'usage: muster-disk.sh look SELECTOR | create SELECTOR DEVICE UUID | mount SELECTOR UUID | boot-look SELECTOR | boot-create SELECTOR DEVICE' ;;
esac
