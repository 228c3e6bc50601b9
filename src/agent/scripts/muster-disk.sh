#!/bin/sh
# The disk that a machine keeps its data on, and the disk that it can start from.
#
#     muster-disk.sh look SELECTOR
#         prints the state of the data disk, as lines NAME=VALUE (DataDisk in agent/wire/facts.ts)
#     muster-disk.sh create SELECTOR DEVICE UUID LAYOUT [KEYFILE [TOKENFILE]]
#         makes the data filesystem, if the selector's one disk is DEVICE and blank; with LAYOUT
#         `boot` it makes two partitions, one for the data and one for what the machine starts from.
#         With KEYFILE the filesystem is encrypted (LUKS2), and TOKENFILE goes into its header.
#     muster-disk.sh mount SELECTOR UUID [KEYFILE]
#         mounts the data filesystem; an encrypted one is opened with KEYFILE
#     muster-disk.sh boot-look SELECTOR
#         is `look` for a boot disk (muster-boot.sh)
#     muster-disk.sh etcd-look | etcd-create | etcd-mount SELECTOR ...
#         do the same for a disk that holds etcd's data alone, which is always used as a whole
#     muster-disk.sh boot-create SELECTOR DEVICE
#         makes the boot disk's partition, if the selector's one disk is DEVICE and blank
#
# SELECTOR is path=PATH, serial=TEXT and size=MIN-MAX (MiB, or one of them), joined by spaces;
# a disk must fit all of them. Only whole disks are considered. A disk that holds anything that
# somebody could miss is `foreign` and is never written to. Paths are below MUSTER_ROOT. On failure
# the reason is printed. Needs coreutils, util-linux and mkfs.ext4, for partitions sfdisk, for
# encryption cryptsetup 2.6.
#
# A function that finds out one text sets the variable that has the function's own name; others
# name in their comment what they set.
# shellcheck disable=SC2034,SC2154 # variables that the parts set and read
set -u
LC_ALL=C
export LC_ALL

root=$(readlink -f "${MUSTER_ROOT:-/}")
root=${root%/}
run=$root/run/muster
command=$1
selector=$2
booting=
for_etcd=
own_kind=data
own_label=MUSTER-DATA
mapped_name=muster-data
mount_point=/var/lib/muster
case $command in
  boot-*) booting=yes ;;
  etcd-*)
    for_etcd=yes
    own_kind=etcd
    own_label=MUSTER-ETCD
    mapped_name=muster-etcd
    mount_point=/var/lib/muster-etcd
    ;;
esac

# While a disk is being written, this mark is on it: in the last sector where it gets a filesystem,
# in this sector, the last before the first partition, where it gets partitions. mkfs.ext4 wipes the
# first sectors first, and a partition table is written in several places; the mark shows that a
# disk that was cut off in between is ours.
MARK=MUSTER-DATA-NEW
BEFORE_PARTITIONS=2047

case $0 in
  */*) here=${0%/*} ;;
  *) here=. ;;
esac
# shellcheck source=/dev/null
. "$here/muster-within.sh"
# shellcheck source=/dev/null
. "$here/muster-serial.sh"
# shellcheck source=/dev/null
. "$here/muster-luks.sh"
# shellcheck source=/dev/null
. "$here/muster-format.sh"

# Prints reason $1 and exits.
fail() {
  printf '%s\n' "$1"
  exit 1
}

# Sets first_line to the first line of file $1 without white space at its ends, or to nothing.
first_line() {
  first_line=
  if [ -r "$1" ]; then
    read -r first_line <"$1"
  fi 2>/dev/null
  :
}

# --- which disk it is, and whose

# Sets disk, device, filesystem, encrypted, mounted, partition and detail.
look() {
  disk=unused
  device=''
  filesystem=''
  encrypted=''
  mapped=''
  mounted=''
  partition=''
  detail=''
  unread=''
  [ -n "$selector" ] || return 0
  fitting=
  for block_device in "$root"/sys/block/*; do
    name=${block_device##*/}
    case $name in
      '*' | loop* | ram* | zram* | sr* | fd* | dm-* | md* | mtd* | *'!'*) continue ;;
    esac
    ! fits_selector "$name" || fitting="$fitting $name"
  done
  # shellcheck disable=SC2086 # names, one a word
  set -- $fitting
  case $# in
    0) disk=none detail="no disk fits $selector" ;;
    1) judge "$1" ;;
    *)
      disk=several
      several=$(printf '/dev/%s, ' "$@")
      detail="${several%, } fit $selector; name one by its path below /dev/disk/by-id"
      ;;
  esac
}

# Whether disk $1 fits every term of the selector. Less than 8 MiB is no disk, but an empty card
# reader or a driver's stub.
fits_selector() {
  first_line "$root/sys/block/$1/size"
  case $first_line in
    '' | *[!0-9]*) return 1 ;;
  esac
  mib=$((first_line / 2048))
  [ "$mib" -ge 8 ] || return 1
  for term in $selector; do
    fits_term "$1" "$term" || return 1
  done
}

# Whether disk $1, of $mib MiB, fits term $2.
fits_term() {
  wanted=${2#*=}
  case $2 in
    path=*) [ "$(readlink -f "$root$wanted")" = "$root/dev/$1" ] ;;
    serial=*) has_serial "$1" "$wanted" ;;
    size=*-*)
      smallest=${wanted%-*}
      largest=${wanted#*-}
      [ "$mib" -ge "${smallest:-0}" ] && [ "$mib" -le "${largest:-$mib}" ]
      ;;
    *) return 1 ;;
  esac
}

# Whether disk $1 has serial number $2, or a link of udev that ends in it (world wide names).
has_serial() {
  disk_serial "$1"
  serial_word "$disk_serial"
  [ "$serial_word" != "$2" ] || return 0
  for link in "$root"/dev/disk/by-id/*[_-]"$2"; do
    [ "$(readlink -f "$link")" != "$root/dev/$1" ] || return 0
  done
  return 1
}

# Sets disk to blank, ours or foreign, depending on what is on disk $1. Also sets device,
# filesystem, mounted, partition, detail, node, sys and sectors.
judge() {
  disk=foreign
  device=/dev/$1
  node=$root/dev/$1
  sys=$root/sys/block/$1
  measure
  count_partitions
  is_writable || return 0
  if [ -n "$for_etcd" ] && [ "$boots$datas$others" != 000 ]; then
    detail='has partitions'
    return 0
  fi
  if [ -z "$for_etcd" ] && is_half_divided; then
    disk=blank
    return 0
  fi
  [ -z "$unread" ] || return 0
  case $boots:$datas:$others in
    0:0:0) ;;
    1:[01]:0)
      if [ -n "$booting" ]; then
        disk=ours
        partition=/dev/$boot_part
        return 0
      fi
      choose_data_partition || return 0
      ;;
    *)
      detail='has partitions'
      return 0
      ;;
  esac
  probe || return 0
  if [ -n "$type" ]; then
    judge_known
  else
    judge_unknown
  fi
}

# Whether the disk was cut off while it got its partitions: the mark is there, and nothing but what
# we were making.
is_half_divided() {
  is_marked $BEFORE_PARTITIONS || return 1
  [ "$others" = 0 ] || return 1
  probe || return 1
  case $type in
    '' | gpt | PMBR) ;;
    *) return 1 ;;
  esac
}

# Goes from the disk to its data partition: sets device, node, sys and sectors. Fails, with detail
# set, if it has none that can be used.
choose_data_partition() {
  if [ "$datas" != 1 ]; then
    detail='is a boot disk without a data partition'
    return 1
  fi
  device=/dev/$data_part
  node=$root/dev/$data_part
  sys=$sys/$data_part
  measure
  is_writable
}

# Sets disk for a node on which blkid knows $type. A filesystem of ours with the mark was never
# mounted, so it may be made again.
judge_known() {
  case "$label $type" in
    "$own_label ext4") ;;
    "$own_label crypto_LUKS") encrypted=yes ;;
    *)
      detail="holds $type${label:+ named $label}"
      return 0
      ;;
  esac
  if [ -n "$booting" ]; then
    detail='is a data disk as a whole; both are on one disk only if dataDisk and bootDisk say'
    detail="$detail the same when it is made"
    return 0
  fi
  if is_marked $((sectors - 1)); then
    disk=blank
    return 0
  fi
  [ -z "$unread" ] || return 0
  disk=ours
  [ -z "$encrypted" ] || look_at_header
  first_line "${mapped:-$sys}/dev"
  [ -n "$first_line" ] || return 0
  [ "$(findmnt -nro MAJ:MIN -M "$root$mount_point")" != "$first_line" ] || mounted=yes
}

# Sets disk for a node on which blkid knows nothing: blank only if wipefs knows nothing either, and
# its first and last MiB are zeros.
judge_unknown() {
  if is_marked $((sectors - 1)); then
    disk=blank
    return 0
  fi
  signatures=$(within 20 wipefs --noheadings "$node" 2>&1)
  if [ -n "$signatures" ]; then
    detail="holds $signatures"
  elif is_zero 0 && is_zero $((sectors / 2048 - 1)); then
    disk=blank
  else
    detail='holds data of an unknown kind; if nobody misses them, write zeros over its first and'
    detail="$detail its last MiB"
  fi
}

# Whether nothing else uses $sys, and it can be written to. If not, sets detail. Sets mapped to the
# directory in /sys of the data filesystem that is opened from here.
is_writable() {
  mapped=''
  for holder in "$sys"/holders/*; do
    [ -e "$holder" ] || continue
    first_line "$root/sys/block/${holder##*/}/dm/name"
    if [ "$first_line" = "$mapped_name" ]; then
      mapped=$root/sys/block/${holder##*/}
      continue
    fi
    detail="is part of ${holder##*/}"
    return 1
  done
  first_line "$sys/ro"
  if [ "$first_line" = 1 ]; then
    detail='is read-only'
    return 1
  fi
}

# Sets label, type and filesystem to what blkid finds on $node; all are empty if it finds nothing.
# Fails, with detail set, if blkid cannot tell.
probe() {
  label=''
  type=''
  filesystem=''
  blkid_output=$(within 20 blkid -p -o export "$node" 2>&1)
  case $? in
    0) ;;
    2) return 0 ;;
    *)
      detail="cannot be identified: ${blkid_output:-no reason}"
      return 1
      ;;
  esac
  while IFS='=' read -r tag text; do
    case $tag in
      LABEL) label=$text ;;
      TYPE | PTTYPE) type=$text ;;
      UUID) filesystem=$text ;;
    esac
  done <<TAGS
$blkid_output
TAGS
}

# Sets sectors to the size of $sys in sectors of 512 octets.
measure() {
  first_line "$sys/size"
  sectors=$first_line
}

# Sets boots, datas and others to the number of partitions of $sys with either of our names and with
# neither, and boot_part and data_part to ours.
count_partitions() {
  boots=0
  datas=0
  others=0
  boot_part=''
  data_part=''
  for partition_file in "$sys"/*/partition; do
    [ -e "$partition_file" ] || continue
    part=${partition_file%/partition}
    case $(sed -n 's/^PARTNAME=//p' "$part/uevent" 2>/dev/null) in
      MUSTER-BOOT)
        boots=$((boots + 1))
        boot_part=${part##*/}
        ;;
      MUSTER-DATA)
        datas=$((datas + 1))
        data_part=${part##*/}
        ;;
      *)
        others=$((others + 1))
        ;;
    esac
  done
}

# Whether MiB $1 of the node can be read and is all zeros.
is_zero() {
  zeros=$(
    within 20 dd if="$node" bs=1048576 skip="$1" count=1 2>/dev/null |
      tr -d '\001-\377' |
      wc -c
  )
  [ "$zeros" -eq 1048576 ]
}

# Whether the mark is in sector $1 of the node. Sets unread if the sector cannot be read: nobody
# knows then whether what is there was finished.
is_marked() {
  unread=
  [ -d "$run" ] || mkdir -p "$run"
  if ! within 20 dd if="$node" bs=512 skip="$1" count=1 >"$run/sector" 2>/dev/null; then
    unread=yes
    detail="cannot be read at sector $1"
    return 1
  fi
  found_mark=$(head -c 15 "$run/sector" | tr -d '\0')
  [ "$found_mark" = $MARK ]
}

# --- what the command does

# Does `mount UUID`: mounts the filesystem at $mount_point.
mount_data() {
  look
  if [ "$disk $filesystem" != "ours $1" ]; then
    reason="filesystem $1 is not here: ${device:-the disk} is $disk${detail:+, $detail}"
    fail "$reason${filesystem:+, with $filesystem}"
  fi
  [ -z "$mounted" ] || return 0
  other_source=$(findmnt -nro SOURCE -M "$root$mount_point")
  if [ -n "$other_source" ]; then
    fail "something else is mounted at $mount_point: $other_source"
  fi
  mkdir -p "$root$mount_point" || return 1
  if [ -n "$encrypted" ]; then
    open_data || return 1
    node=$mapped_node
  fi
  # A journal of 1 GiB is replayed within minutes, also by a slow disk.
  write_within 900 mount -t ext4 -o noatime "$node" "$root$mount_point" 2>&1
}

# Prints what look found.
print_look() {
  printf 'disk=%s\ndevice=%s\n' "$disk" "$device"
  if [ -n "$booting" ]; then
    printf 'partition=%s\n' "$partition"
  else
    printf 'filesystem=%s\nmounted=%s\n' "$filesystem" "$mounted"
    printf 'encrypted=%s\n' "$encrypted"
  fi
  printf 'detail=%s\n' "$(printf '%s' "$detail" | tr '\n' ' ')"
}

case $command in
  look | boot-look | etcd-look)
    look
    print_look
    ;;
  create | etcd-create)
    key_file=${6:-}
    token_file=${7:-}
    create "$3" "$4" "${5:-}"
    ;;
  mount | etcd-mount)
    key_file=${4:-}
    mount_data "$3"
    ;;
  boot-create) create_boot "$3" ;;
  *) fail 'usage: muster-disk.sh [boot-|etcd-]look|create|mount SELECTOR [ARGUMENT]...' ;;
esac
