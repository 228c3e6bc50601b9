#!/bin/sh
# Does what the kernel does when a disk's partition table was written: its partitions appear in /sys
# and /dev, here below ROOT, as loop devices over parts of the file behind the disk. Partitions that
# the table no longer has disappear.
#
#     agent-partitions.sh ROOT NAME
set -eu
root=$1
name=$2
sys=$root/sys/block/$name
for part in "$sys/$name"[0-9]*; do
  [ -e "$part/loop" ] || continue
  losetup --detach "$(cat "$part/loop")"
  rm -f "$root/dev/${part##*/}"
  rm -rf "$part"
done
[ -e "$sys/backing" ] || exit 0
file=$(cat "$sys/backing")
number=0
row='.*start= *\([0-9]*\), size= *\([0-9]*\),.*name="\([^"]*\)".*'
sfdisk --dump "$file" 2>/dev/null | sed -n "s/$row/\\1 \\2 \\3/p" |
  while read -r start size label; do
    number=$((number + 1))
    part=$sys/$name$number
    mkdir -p "$part/holders"
    tries=50
    place="--offset $((start * 512)) --sizelimit $((size * 512))"
    # shellcheck disable=SC2086 # words
    until loop=$(losetup --find --show $place "$file"); do
      tries=$((tries - 1))
      [ "$tries" -gt 0 ] || exit 1
      sleep 0.1
    done
    echo "$loop" >"$part/loop"
    echo "$number" >"$part/partition"
    echo "$size" >"$part/size"
    echo 0 >"$part/ro"
    echo "7:${loop##*loop}" >"$part/dev"
    printf 'DEVTYPE=partition\nPARTN=%s\nPARTNAME=%s\n' "$number" "$label" >"$part/uevent"
    mknod "$root/dev/$name$number" b 7 "${loop##*loop}"
  done
