#!/bin/sh
# Functions for the first program of a small system of busybox: its file systems, modules, network
# card and lease. images/probe/init.sh and images/discovery/init.sh source this file as /early.sh.

# early_mounts: mounts what programs expect.
early_mounts() {
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t devtmpfs devtmpfs /dev
  mount -t tmpfs tmpfs /run
}

# argument NAME: prints the value of a kernel argument; of several the last, as the kernel does.
argument() {
  value=
  # shellcheck disable=SC2013 # words are wanted
  for word in $(cat /proc/cmdline); do
    case $word in
      "$1"=*) value=${word#*=} ;;
    esac
  done
  printf '%s' "$value"
}

# early_clock: sets the clock forward to the boot host's.
early_clock() {
  now=$(argument muster.time)
  if [ -n "$now" ] && [ "$(date +%s)" -lt "$now" ]; then
    date -u -s "@$now" >/dev/null
  fi
}

# early_modules: inserts all modules of the image. A module without its hardware is not an error.
early_modules() {
  while read -r module; do
    insmod "/modules/$module" 2>/dev/null
  done </modules/order
}

# boot_card: sets mac to the address that BOOTIF names, and nic to the network card that has it;
# without BOOTIF, to the first card. Waits half a minute for it. Leaves nic empty if there is none.
boot_card() {
  mac=$(argument BOOTIF | tr 'A-Z-' 'a-z:')
  mac=${mac#01:}
  nic=
  tries=0
  while [ -z "$nic" ] && [ "$tries" -lt 30 ]; do
    for path in /sys/class/net/*; do
      [ -e "$path/device" ] || continue
      if [ -z "$mac" ] || [ "$(cat "$path/address")" = "$mac" ]; then
        nic=${path##*/}
        break
      fi
    done
    tries=$((tries + 1))
    [ -n "$nic" ] || sleep 1
  done
}

# take_lease CARD WORD...: gets an address for the card, by udhcpc with further options. Fails after
# some minutes without an answer.
take_lease() {
  lease_card=$1
  shift
  ip link set lo up
  tries=0
  until udhcpc -i "$lease_card" -n -t 4 -T 3 -A 1 -O 42 -O 26 -s /udhcpc.sh "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt 6 ] || return 1
  done
}
