#!/bin/sh
# Part of muster-disk.sh, which reads it in: writes to a disk that was found to be blank.
# shellcheck disable=SC2034,SC2154 # variables that the other parts set and read

# How long programs may take. mkfs.ext4 first discards all blocks, which takes some disks minutes,
# and writes a journal of at most 1 GiB; the rest is written later by the kernel. sfdisk waits for
# the kernel to read the partitions again.
MKFS_SECONDS=1800
SFDISK_SECONDS=120
SYNC_SECONDS=600

# Overwrites sector $2 of the node with text $1 and zeros: sets the mark, or removes it.
write_sector() {
  mkdir -p "$run" || return 1
  {
    printf '%s' "$1"
    head -c $((512 - ${#1})) /dev/zero
  } >"$run/sector" || return 1
  write_within 60 dd if="$run/sector" of="$node" bs=512 seek="$2" conv=notrunc,fsync status=none
}

# Sets the mark and gives the disk a partition table: a boot partition of $1 MiB, which UEFI takes
# for its system partition and BIOS for the active one, and what $2 says.
divide() {
  write_sector "$MARK" "$BEFORE_PARTITIONS" || return 1
  boot_line="start=1MiB, size=$1MiB, type=U, name=MUSTER-BOOT, attrs=LegacyBIOSBootable"
  printf 'label: gpt\n%s\n%s' "$boot_line" "$2" >"$run/partitions" || return 1
  # shellcheck disable=SC2016 # the inner shell expands them
  write_within $SFDISK_SECONDS sh -c \
    'exec sfdisk --quiet --wipe always --wipe-partitions always "$0" <"$1"' \
    "$node" "$run/partitions"
}

# Makes an ext4 filesystem with UUID $1 on node $2; $3 limits its size to so many KiB. With
# key_file it is encrypted.
make_filesystem() {
  filesystem_node=$2
  filesystem_kib=${3:-}
  if [ -n "$key_file" ]; then
    encrypt "$1" "$2" || return 1
    filesystem_node=$mapped_node
    [ -z "$filesystem_kib" ] || filesystem_kib=$((filesystem_kib - HEADER_SECTORS / 2))
  fi
  write_within $MKFS_SECONDS mkfs.ext4 -q -F -L "$own_label" -U "$1" "$filesystem_node" \
    ${filesystem_kib:+"${filesystem_kib}k"} || return 1
  write_within $SYNC_SECONDS sync "$filesystem_node"
}

# Does `create DEVICE UUID LAYOUT`. A disk that was begun as two partitions is finished as two.
create() {
  look
  [ "$disk $filesystem" != "ours $2" ] || return 0
  [ "$disk $device" = "blank $1" ] || refuse "$1" "$own_kind"
  close_left_over 2>&1 || fail "what is opened as $mapped_name cannot be closed"
  if becomes_two "$3"; then
    create_both "$2"
  else
    create_whole "$2" 2>&1
  fi || fail "the filesystem was not made on $1"
}

# Whether the disk gets two partitions: it is not for etcd, the device is not itself one of two, and
# either $1 asks for two or an earlier run began to make two.
becomes_two() {
  [ -z "$for_etcd" ] || return 1
  [ "${device##*/}" != "$data_part" ] || return 1
  [ -z "$1" ] || return 0
  is_marked "$BEFORE_PARTITIONS"
}

# Fails because device $1, which look examined, cannot become the $2 disk.
refuse() {
  fail "$1 is not made the $2 disk: ${device:-it} is $disk${detail:+, $detail}"
}

# Makes the data filesystem with UUID $1 on the whole node. It ends a MiB before the node does; the
# mark is in the last sector meanwhile.
create_whole() {
  write_sector "$MARK" $((sectors - 1)) || return 1
  make_filesystem "$1" "$node" $((sectors / 2 - 1024)) || return 1
  write_sector '' $((sectors - 1))
}

# Makes a boot partition and a data partition with filesystem $1. The first gets an eighth of the
# disk, 640 MiB to 4 GiB: enough for two root images at once.
create_both() {
  mib=$((sectors / 2048))
  boot_mib=$((mib / 8))
  [ "$boot_mib" -ge 640 ] || boot_mib=640
  [ "$boot_mib" -le 4096 ] || boot_mib=4096
  if [ $((mib - boot_mib)) -lt 128 ]; then
    reason="$device has $mib MiB, too little for the data and what the machine starts from"
    fail "$reason: at least $((boot_mib + 128))"
  fi
  divide "$boot_mib" 'type=L, name=MUSTER-DATA' 2>&1 || return 1
  count_partitions
  if [ "$boots:$datas:$others" != 1:1:0 ]; then
    fail "the kernel does not see the new partitions of $device"
  fi
  make_filesystem "$1" "$root/dev/$data_part" 2>&1 || return 1
  write_sector '' "$BEFORE_PARTITIONS" 2>&1
}

# Does `boot-create DEVICE`. The partition need not be larger than 4 GiB. muster-boot.sh makes its
# filesystem.
create_boot() {
  look
  [ "$disk $device" != "ours $1" ] || return 0
  [ "$disk $device" = "blank $1" ] || refuse "$1" boot
  boot_mib=$((sectors / 2048 - 2))
  [ "$boot_mib" -le 4096 ] || boot_mib=4096
  divide "$boot_mib" '' 2>&1 || fail "the boot disk was not made on $1"
  write_sector '' "$BEFORE_PARTITIONS" 2>&1 || fail "the boot disk was not made on $1"
}
