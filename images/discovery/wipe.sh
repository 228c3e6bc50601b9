#!/bin/sh
# Part of the discovery system, which reads it in: wipes the disks of a machine as the boot host
# ordered, proves it by reading, and reports. It trusts no exit code alone: sectors that were
# written before have to be gone afterwards, read past every cache.
# shellcheck disable=SC2154 # root, disk_serial: set by those who read this in

# The canaries of a disk, and the octets of one step of writing.
wipe_canaries=64
wipe_step=4194304
# What is wiped at both ends of a disk and of each partition: a LUKS header is the largest.
wipe_end=16777216

# wipe_field NAME LINE: prints the value of a field of a line of lsblk --pairs.
wipe_field() {
  printf '%s\n' "$2" | sed -n "s/.*$1=\"\([^\"]*\)\".*/\1/p"
}

# wipe_number FILE: prints the number in a file, or 0.
wipe_number() {
  number=$(cat "$1" 2>/dev/null)
  echo "${number:-0}"
}

# wipe_random N: prints N random numbers below 2^48, one a line, as the shell reads them.
wipe_random() {
  head -c $(($1 * 6)) /dev/urandom | od -An -v -tx1 | tr -d ' \n' | sed 's/............/0x&\n/g'
}

# wipe_region OFFSET LENGTH SIZE: prints the part of a region that is on the disk.
wipe_region() {
  [ "$1" -lt "$3" ] || return 0
  length=$2
  [ $(($1 + length)) -le "$3" ] || length=$(($3 - $1))
  echo "$1 $length"
}

# wipe_ends START LENGTH SIZE: prints the regions that have metadata in a part of a disk: both ends,
# and where Btrfs keeps copies of its superblock.
wipe_ends() {
  wipe_region "$1" "$wipe_end" "$3"
  end=$(($1 + $2 - wipe_end))
  [ "$end" -le "$1" ] || wipe_region "$end" "$wipe_end" "$3"
  for copy in 67108864 274877906944; do
    [ $((copy + 65536)) -gt "$2" ] || wipe_region $(($1 + copy)) 65536 "$3"
  done
}

# wipe_regions DISK LEVEL SIZE: prints offset and length of what is wiped, in octets.
wipe_regions() {
  if [ "$2" = overwrite ]; then
    echo "0 $3"
    return 0
  fi
  wipe_ends 0 "$3" "$3"
  for part in "$root/sys/block/$1"/*/start; do
    [ -e "$part" ] || continue
    start=$(($(wipe_number "$part") * 512))
    wipe_ends "$start" $(($(wipe_number "${part%/start}/size") * 512)) "$3"
  done
}

# wipe_read DEVICE OFFSET SECTOR FILE: reads one sector past the caches.
wipe_read() {
  dd if="$1" of="$4" iflag=direct,skip_bytes bs="$3" skip="$2" count=1 2>/dev/null
}

# wipe_zero DEVICE OFFSET LENGTH SECTOR: writes zeros, and has the drive write out its cache.
wipe_zero() {
  at=$2
  left=$3
  said=0
  while [ "$left" -ge "$4" ]; do
    # A gibibyte at a time, so that the boot host hears of it.
    if [ "$left" -ge "$wipe_step" ]; then
      block=$wipe_step
      count=$((left / block))
      [ "$count" -le 256 ] || count=256
    else
      block=$4
      count=$((left / block))
    fi
    dd if=/dev/zero of="$1" oflag=direct,seek_bytes conv=notrunc,fsync bs="$block" seek="$at" \
      count="$count" 2>/dev/null || return 1
    at=$((at + block * count))
    left=$((left - block * count))
    if [ $((at - said)) -ge 1073741824 ]; then
      said=$at
      (wipe_said "$1: $((at / 1073741824)) GiB") >&2
    fi
  done
}

# wipe_busy DISK: whether something of this system uses the disk.
wipe_busy() {
  for holder in "$root/sys/block/$1/holders"/* "$root/sys/block/$1"/*/holders/*; do
    [ ! -e "$holder" ] || return 0
  done
  grep -q "^$root/dev/$1[p0-9 ]" /proc/mounts /proc/swaps
}

# wipe_plant: writes a canary to random sectors of the regions, and reads each back. Returns with 1
# and the failure in wiped.
wipe_plant() {
  : >"$wipe_work/planted"
  planted=
  hash=$(head -c 24 /dev/urandom | sha256sum | cut -c 1-60)
  wipe_random "$wipe_canaries" >"$wipe_work/random"
  n=0
  while [ "$n" -lt "$wipe_canaries" ]; do
    while read -r at length && [ "$n" -lt "$wipe_canaries" ]; do
      n=$((n + 1))
      read -r random <&4 || return 1
      at=$(((at + random % length) / sector * sector))
      # Two canaries may fall on one sector, which then has one.
      case $planted in *" $at "*) continue ;; esac
      planted="$planted $at "
      yes "$hash $n" | head -c "$sector" >"$wipe_work/canary.$n"
      wiped=write-error
      dd if="$wipe_work/canary.$n" of="$device" oflag=direct,seek_bytes conv=notrunc \
        bs="$sector" seek="$at" count=1 2>/dev/null || return 1
      echo "$at $n" >>"$wipe_work/planted"
    done <"$wipe_work/regions"
  done 4<"$wipe_work/random"
  while read -r at n; do
    wiped=read-error
    wipe_read "$device" "$at" "$sector" "$wipe_work/read" || return 1
    wiped=canary-not-written
    cmp -s "$wipe_work/canary.$n" "$wipe_work/read" || return 1
  done <"$wipe_work/planted"
}

# wipe_written: writes zeros to the regions.
wipe_written() {
  wiped=write-error
  while read -r at length; do
    wipe_zero "$device" "$at" "$length" "$sector" || return 1
  done <"$wipe_work/regions"
  sync
}

# wipe_look: reads the canaries again. Sets canaries, left and zeros, and wiped to done if all are
# gone and read as zeros, or to what failed. A drive that erased itself may show something else than
# zeros: with another key, what it had reads as noise.
wipe_look() {
  wiped=read-error
  head -c "$sector" /dev/zero >"$wipe_work/zeros"
  while read -r at n; do
    wipe_read "$device" "$at" "$sector" "$wipe_work/read" || return 0
    canaries=$((canaries + 1))
    ! cmp -s "$wipe_work/canary.$n" "$wipe_work/read" || left=$((left + 1))
    ! cmp -s "$wipe_work/zeros" "$wipe_work/read" || zeros=$((zeros + 1))
  done <"$wipe_work/planted"
  wiped=canary-left
  [ "$left" = 0 ] || return 0
  wiped=not-overwritten
  case $method in
    '' | luks-header) [ "$zeros" = "$canaries" ] || return 0 ;;
  esac
  wiped="done"
}

# wipe_disk DISK LEVEL: wipes one disk. Sets wiped to done, or to what failed, canaries, left and
# zeros to what was read afterwards, and at the level crypto method and evidence.
wipe_disk() {
  device=$root/dev/$1
  size=$(($(wipe_number "$root/sys/block/$1/size") * 512))
  sector=$(wipe_number "$root/sys/block/$1/queue/logical_block_size")
  [ "$sector" -ge 512 ] || sector=512
  wiped=read-only
  [ "$(wipe_number "$root/sys/block/$1/ro")" = 0 ] || return 0
  wiped=in-use
  ! wipe_busy "$1" || return 0
  wiped=no-size
  [ "$size" -ge "$sector" ] || return 0
  if [ "$2" = crypto ]; then
    erase_choose "$1" || return 0
  else
    wipe_regions "$1" "$2" "$size" >"$wipe_work/regions"
  fi
  wipe_plant || return 0
  if [ "$2" = crypto ]; then
    erase_disk "$1" || return 0
  else
    wipe_written || return 0
  fi
  # wipe_zero counts in left what it has still to write.
  left=0
  wipe_look
}

# wipe_why LINE SERIAL: prints why a disk is left alone, or nothing. Disks that other machines may
# share, and sticks, are wiped only if the order names them.
wipe_why() {
  if grep -q '^disk ' "$wipe_plan"; then
    wwn=$(wipe_field WWN "$1")
    for name in "$2" "$wwn"; do
      [ -z "$name" ] || ! grep -qxF "disk $name" "$wipe_plan" || return 0
    done
    echo not-named
    return 0
  fi
  case $(wipe_field TRAN "$1") in
    fc | iscsi) echo shared ;;
    usb) echo usb ;;
  esac
}

# order_fits PLAN: whether an order is for this machine.
order_fits() {
  wanted=$(sed -n 's/^serial //p' "$1")
  [ -z "$wanted" ] || [ "$wanted" = "$(cat "$root/sys/class/dmi/id/product_serial" 2>/dev/null)" ]
}

# wipe_machine PLAN REPORT: carries out the order in file PLAN, and writes what was done to REPORT:
# a line for each disk, and `end`. Calls wipe_said with what it does, in a shell of
# its own, whose variables are not these.
wipe_machine() {
  wipe_plan=$1
  wipe_work=$2.work
  mkdir -p "$wipe_work"
  level=$(sed -n 's/^wipe [^ ]* //p' "$wipe_plan")
  : >"$2"
  if ! order_fits "$wipe_plan"; then
    printf 'refused\tother-machine\nend\n' >>"$2"
    return 0
  fi
  case $level in
    tables | overwrite | crypto) ;;
    *)
      printf 'refused\tlevel-unknown\nend\n' >>"$2"
      return 0
      ;;
  esac
  wipe_disks "$level" >>"$2"
  echo end >>"$2"
}

# wipe_disks LEVEL: wipes what is to be wiped at this level, and prints a line for each disk.
wipe_disks() {
  lsblk --pairs >"$wipe_work/disks"
  while read -r line <&3; do
    name=$(wipe_field NAME "$line")
    disk_serial "$name"
    serial=$disk_serial
    canaries=0
    left=0
    zeros=0
    method=
    evidence=
    wiped=$(wipe_why "$line" "$serial")
    if [ -n "$wiped" ]; then
      result=left
    else
      (wipe_said "$name: begins") >&2
      wipe_disk "$name" "$1"
      result=failed
      [ "$wiped" != "done" ] || result='done'
    fi
    printf 'disk\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$result" \
      "$wiped" "$(wipe_field SIZE "$line")" "$canaries" "$left" "$zeros" "$serial" \
      "$(wipe_field WWN "$line")" "$(wipe_field MODEL "$line")" "$method" "$evidence"
  done 3<"$wipe_work/disks"
}
