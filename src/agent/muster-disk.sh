#!/bin/sh
# The disk that a machine keeps its data on, and the one that it starts from by itself.
#
#     muster-disk.sh look SELECTOR                    what it is now, as lines NAME=VALUE (src/agent/facts.ts: DataDisk)
#     muster-disk.sh create SELECTOR DEVICE UUID [boot]
#                                                     makes the filesystem, if the selector's one disk is DEVICE and blank; with `boot`
#                                                     it leaves room for what the machine starts from: a partition for each
#     muster-disk.sh mount SELECTOR UUID              mounts it
#     muster-disk.sh boot-look SELECTOR               as look, for a boot disk (muster-boot.sh)
#     muster-disk.sh boot-create SELECTOR DEVICE      makes its partition, if the selector's one disk is DEVICE and blank
#
# SELECTOR: path=/dev/…, serial=…, size=MIN-MAX (MiB, either may be missing), joined by spaces; a
# disk must fit all of them. Only whole disks are looked at. A disk on which anything is that
# anybody could miss is foreign, and is never written to. Paths are below MUSTER_ROOT. On failure
# the reason is printed. Needs coreutils, util-linux and mkfs.ext4, for partitions sfdisk.
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

# The kernel's own word (virtio, NVMe), or udev's link that ends in the serial number (SATA, SAS,
# USB).
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
  measure
  partitions
  writable || return 0
  if made_half $BEFORE_PARTITIONS && [ "$others" = 0 ] && probe; then
    case $type in '' | gpt | PMBR) disk=blank && return ;; esac
  fi
  case $boots:$datas:$others in
    0:0:0) ;;
    1:[01]:0)
      [ -z "$booting" ] || { disk=ours partition=/dev/$boot_part && return; }
      [ "$datas" = 1 ] || { detail='is a boot disk, with nothing beside it' && return; }
      device=/dev/$data_part node=$root/dev/$data_part sys=$sys/$data_part
      measure
      writable || return 0
      ;;
    *) detail='has partitions' && return ;;
  esac
  probe || return 0
  if [ -n "$type" ]; then
    [ "$label $type" = 'MUSTER-DATA ext4' ] || { detail="holds $type${label:+ named $label}" && return; }
    [ -z "$booting" ] || { detail='is a data disk as a whole; both are on one disk only if dataDisk and bootDisk say the same when it is made' && return; }
    # The mark of one that is being made is taken off last, before it is ever mounted: nothing is
    # lost.
    ! made_half $((sectors - 1)) || { disk=blank && return; }
    disk=ours
    first_line "$sys/dev"
    [ -z "$value" ] || [ "$(findmnt -nro MAJ:MIN -M "$state")" != "$value" ] || mounted=yes
    return
  fi
  ! made_half $((sectors - 1)) || { disk=blank && return; }
  found=$(wipefs --noheadings "$node" 2>&1)
  [ -z "$found" ] || { detail="holds $found" && return; }
  if zeros 0 && zeros $((sectors / 2048 - 1)); then
    disk=blank
  else
    detail='holds data of an unknown kind; if nobody misses them, write zeros over its first and its last MiB'
  fi
}

# Whether nothing else has $sys, and it can be written to; else detail says why.
writable() {
  for holder in "$sys"/holders/*; do
    [ ! -e "$holder" ] || { detail="is part of ${holder##*/}" && return 1; }
  done
  first_line "$sys/ro"
  [ "$value" != 1 ] || { detail='is read-only' && return 1; }
}

# Sets label, type and filesystem to what $node holds, by blkid; empty when it knows nothing there.
# If it cannot tell, detail says why.
probe() {
  label='' type='' filesystem=''
  found=$(blkid -p -o export "$node" 2>&1)
  case $? in
    0) ;;
    2) return 0 ;;
    *) detail="cannot be told: ${found:-blkid failed}" && return 1 ;;
  esac
  while IFS='=' read -r key value; do
    case $key in LABEL) label=$value ;; TYPE | PTTYPE) type=$value ;; UUID) filesystem=$value ;; esac
  done <<FOUND
$found
FOUND
}

# Sets sectors: how many of 512 octets $sys has.
measure() {
  first_line "$sys/size"
  sectors=$value
}

# Sets boots, datas and others: how many partitions $sys has by the names that we give, and besides;
# boot_part and data_part: which.
partitions() {
  boots=0 datas=0 others=0 boot_part='' data_part=''
  for part in "$sys"/*/partition; do
    [ -e "$part" ] || continue
    part=${part%/*}
    case $(sed -n 's/^PARTNAME=//p' "$part/uevent" 2>/dev/null) in
      MUSTER-BOOT) boots=$((boots + 1)) boot_part=${part##*/} ;;
      MUSTER-DATA) datas=$((datas + 1)) data_part=${part##*/} ;;
      *) others=$((others + 1)) ;;
    esac
  done
}

# Whether MiB $1 of the node can be read and is zero.
zeros() {
  [ "$(dd if="$node" bs=1048576 skip="$1" count=1 2>/dev/null | tr -d '\001-\377' | wc -c)" -eq 1048576 ]
}

# Where the mark stands on a disk that is being divided: between its table and its first partition.
BEFORE_PARTITIONS=2047

# Text $1 in sector $2. It tells what we were making from somebody's data: mkfs.ext4 wipes the first
# sectors first, and a table is written in several places.
mark() {
  { printf '%s' "$1" && head -c $((512 - ${#1})) /dev/zero; } |
    dd of="$node" bs=512 seek="$2" iflag=fullblock conv=notrunc,fsync status=none
}

# Whether the mark stands in sector $1.
made_half() {
  [ "$(dd if="$node" bs=512 skip="$1" count=1 2>/dev/null | head -c 15 | tr -d '\0')" = MUSTER-DATA-NEW ]
}

# A table of partitions: one of $1 MiB that UEFI takes for its system's and BIOS for the active one,
# and of the rest what $2 says.
divide() {
  mark MUSTER-DATA-NEW $BEFORE_PARTITIONS && printf 'label: gpt\nstart=1MiB, size=%sMiB, type=U, name=MUSTER-BOOT, attrs=LegacyBIOSBootable\n%s' "$1" "$2" |
    sfdisk --quiet --wipe always --wipe-partitions always "$node"
}

create() {
  look
  [ "$disk $filesystem" != "ours $2" ] || return 0
  [ "$disk $device" = "blank $1" ] || fail "$1 is not made the data disk: ${device:-it} is $disk${detail:+, $detail}"
  # What was begun as two partitions is made so to its end.
  if [ "${device##*/}" != "$data_part" ] && { [ -n "$3" ] || made_half $BEFORE_PARTITIONS; }; then
    create_both "$2"
  else
    # The filesystem ends a MiB before the disk; the mark is in the last sector.
    { mark MUSTER-DATA-NEW $((sectors - 1)) && mkfs.ext4 -q -F -L MUSTER-DATA -U "$2" "$node" $((sectors / 2 - 1024))k && sync "$node" && mark '' $((sectors - 1)); } 2>&1
  fi || fail "the filesystem was not made on $1"
}

# A partition to start from, and one with filesystem $1. Of the first an eighth is enough, for two
# root images beside each other.
create_both() {
  mib=$((sectors / 2048)) room=$((sectors / 2048 / 8))
  [ "$room" -ge 640 ] || room=640
  [ "$room" -le 4096 ] || room=4096
  [ $((mib - room)) -ge 128 ] || fail "$device has $mib MiB, too little for the data and what the machine starts from: at least $((room + 128))"
  divide "$room" 'type=L, name=MUSTER-DATA' 2>&1 || return 1
  partitions
  [ "$boots:$datas:$others" = 1:1:0 ] || fail "the kernel does not see the new partitions of $device"
  mkfs.ext4 -q -F -L MUSTER-DATA -U "$1" "$root/dev/$data_part" 2>&1 && sync "$root/dev/$data_part" && mark '' $BEFORE_PARTITIONS 2>&1
}

# Larger than 4 GiB it need not be.
create_boot() {
  look
  [ "$disk $device" != "ours $1" ] || return 0
  [ "$disk $device" = "blank $1" ] || fail "$1 is not made the boot disk: ${device:-it} is $disk${detail:+, $detail}"
  room=$((sectors / 2048 - 2))
  [ "$room" -le 4096 ] || room=4096
  { divide "$room" '' && mark '' $BEFORE_PARTITIONS; } 2>&1 || fail "the boot disk was not made on $1"
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
  create) create "$3" "$4" "${5:-}" ;;
  mount) mount_it "$3" ;;
  boot-look) look && printf 'disk=%s\ndevice=%s\npartition=%s\ndetail=%s\n' "$disk" "$device" "$partition" "$(printf '%s' "$detail" | tr '\n' ' ')" ;;
  boot-create) create_boot "$3" ;;
  *) fail 'usage: muster-disk.sh look SELECTOR | create SELECTOR DEVICE UUID [boot] | mount SELECTOR UUID | boot-look SELECTOR | boot-create SELECTOR DEVICE' ;;
esac
