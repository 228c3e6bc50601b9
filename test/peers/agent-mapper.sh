#!/bin/sh
# cryptsetup where the kernel has no dm-crypt: everything is the real one's, but for what the kernel
# does when a device is opened. The real one opens header and key slot with the key. Then a loop
# device shows the octets after the header as they are, where the kernel would decrypt them.
#
#     agent-mapper.sh ARGUMENTS-OF-CRYPTSETUP
set -eu
root=$MUSTER_ROOT
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mapper=$root/dev/mapper
dm=$root/sys/block/dm-0

# Shows node $1 as the opened device $2.
show() {
  tries=50
  until loop=$(losetup --find --show --offset 16777216 "$1"); do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 0.1
  done
  number=${loop##*loop}
  name=${1##*/}
  holders=$root/sys/block/$name/holders
  [ ! -d "$root/sys/block/${name%[0-9]}/$name" ] ||
    holders=$root/sys/block/${name%[0-9]}/$name/holders
  mkdir -p "$mapper" "$dm/dm" "$holders"
  echo "$2" >"$dm/dm/name"
  echo "7:$number" >"$dm/dev"
  : >"$holders/dm-0"
  echo "$holders" >"$dm/below"
  mknod "$mapper/$2" b 7 "$number"
}

case $1 in
  open)
    # open --type luks2 --key-file FILE NODE NAME
    cryptsetup open --test-passphrase --type luks2 --key-file "$5" "$6"
    show "$6" "$7"
    ;;
  close)
    losetup --detach "/dev/loop$(sed s/7:// "$dm/dev")"
    rm -f "$(cat "$dm/below")/dm-0" "$mapper/$2"
    rm -rf "$dm"
    ;;
  *) exec cryptsetup "$@" ;;
esac
