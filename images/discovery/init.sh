#!/bin/sh
# The discovery system, for a machine that no document knows: reports what the machine is made of,
# shows on every console who it is, and waits. It mounts no disk. It writes to disks only where the
# boot host orders a wipe. Where it orders a rescue, an operator can log in (rescue.sh). When the
# boot host says so, it reboots or switches the machine off.
# For a machine whose profile has `home: disk` and an image of a disk, it installs that
# (install.sh).
# shellcheck disable=SC3028 # busybox's shell has RANDOM
export PATH=/bin

# shellcheck source=images/early.sh
. /early.sh
# shellcheck source=src/agent/scripts/muster-base.sh
. /agent/muster-base.sh
# shellcheck source=src/agent/scripts/muster-within.sh
. /agent/muster-within.sh
# shellcheck source=src/agent/scripts/muster-serial.sh
. /agent/muster-serial.sh
# shellcheck source=src/agent/scripts/muster-inventory.sh
. /agent/muster-inventory.sh
# shellcheck source=images/discovery/wipe.sh
. /wipe.sh
# shellcheck source=images/discovery/erase.sh
. /erase.sh
# shellcheck source=images/discovery/burn-in.sh
. /burn-in.sh
# shellcheck source=images/discovery/install.sh
. /install.sh
# shellcheck source=images/discovery/rescue.sh
. /rescue.sh
early_mounts
exec </dev/console >/dev/console 2>&1
# The kernel's messages would push this system's own lines off the screen.
echo 1 >/proc/sys/kernel/printk
# What the agent's parts read, and the lsblk of this system.
export root=
run=/run

# Prints standard input on every console.
on_consoles() {
  text=$(cat)
  # shellcheck disable=SC2013 # words are wanted
  for console in $(cat /sys/class/tty/console/active); do
    printf '%s\n' "$text" | sed 's/$/\r/' >"/dev/$console"
  done
}

# Prints the addresses of all network cards, one a line, with their link.
cards() {
  inventory_cards | while read -r _ name address link speed _; do
    state='no link'
    [ "$link" != 1 ] || state='link'
    [ "$speed" -le 0 ] || state="$state at $speed Mbit/s"
    mark=
    [ "$name" != "$nic" ] || mark=', boots from here'
    echo "  $address  $name, $state$mark"
  done 2>/dev/null
}

# Prints who the machine is, with $1 as the last line.
screen() {
  first_line /sys/class/dmi/id/sys_vendor
  vendor=$first_line
  first_line /sys/class/dmi/id/product_name
  product=$first_line
  first_line /sys/class/dmi/id/product_serial
  {
    echo
    echo "Muster: this machine is ${known_as:-not known yet}"
    echo "  ${vendor:-unknown vendor}, ${product:-unknown product}, serial ${first_line:-unknown}"
    cards
    echo "  address $(sed -n 's/^ip=//p' /run/lease 2>/dev/null)"
    echo "Muster: $1"
  } | on_consoles
}

# Sends what a machine is made of.
send_inventory() {
  [ -s /run/inventory.new ] || inventory_lines 2>/dev/null | head -c 32768 >/run/inventory.new
  timeout 15 wget -q -O /dev/null --post-file /run/inventory.new "$url/inventory" 2>/dev/null
}

# Reboots after a pause of up to $1 seconds, because thousands of machines may do the same.
start_over() {
  sleep $((RANDOM % ($1 + 1)))
  reboot -f
}

# Asks the boot host what to do, and sets answer to its first word and known_as to its second.
# answer is empty when there was none, and `gone` when the boot session is over.
ask() {
  answer=
  if timeout 15 wget -q -O /run/answer "$url/wait" 2>/run/wget; then
    read -r answer name </run/answer
    [ -z "$name" ] || known_as=$name
  else
    case $(cat /run/wget) in
      *404*) answer=gone ;;
    esac
  fi
}

# Shows $1 unless the consoles show it already, and again after ten minutes, for a late reader.
show() {
  now="$known_as $1"
  if [ "$now" != "$shown" ] || [ $(($(date +%s) - shown_at)) -ge 600 ]; then
    screen "$1"
    shown=$now
    shown_at=$(date +%s)
  fi
}

# Keeps the boot session alive while a wipe or a test takes hours, and shows how far it is.
wipe_said() {
  ask
  show "$doing: $1"
}

# ordered_work ORDER REPORT TEXT PROGRAM END: carries out the order that the boot host has at path
# ORDER, once, with PROGRAM, and sends its report to path REPORT until the boot host has it. TEXT
# says what it does, END that the boot host has the report.
ordered_work() {
  doing=$3
  timeout 15 wget -q -O /run/order "$url/$1" 2>/dev/null || return 0
  if ! cmp -s /run/order /run/order.done; then
    show "$doing"
    "$4" /run/order /run/report
    cp /run/order /run/order.done
  fi
  timeout 60 wget -q -O /dev/null --post-file /run/report "$url/$2" 2>/dev/null || return 0
  screen "$5"
}

echo 'muster: discovery system'
early_clock
early_modules
url=$(argument muster.url)
known_as=
shown=
shown_at=0
boot_card
# Without this, no other card says whether it has a link.
for path in /sys/class/net/*; do
  [ ! -e "$path/device" ] || ip link set "${path##*/}" up
done
if [ -z "$nic" ] || ! take_lease "$nic" -b; then
  screen "no address by DHCP on ${nic:-a card with the address $mac}; it starts over in a minute"
  sleep 30
  start_over 60
fi

while :; do
  ask
  case $answer in
    report)
      send_inventory
      show 'it is reported and waits to be accepted: muster machine accept NAME'
      ;;
    wait)
      show 'it is reported and waits to be accepted: muster machine accept NAME'
      ;;
    install)
      if install_once; then
        screen 'its system is installed; it reboots'
        start_over 2
      fi
      case $answer in
        gone) screen 'its boot session is over; it starts over' && start_over 60 ;;
        wait) show "it does not install yet: $answer_rest" ;;
        *) show 'its installation begins again' ;;
      esac
      ;;
    reboot)
      screen 'it is accepted and reboots'
      start_over 2
      ;;
    wipe)
      ordered_work wipe wiped 'its disks are being wiped' wipe_machine 'the wipe is reported'
      ;;
    test) ordered_work test tested 'it is being tested' burn_in 'the test is reported' ;;
    rescue)
      if rescue_now; then
        show 'an operator may look at it by SSH'
      else
        screen 'its rescue is over; it reboots'
        start_over 2
      fi
      ;;
    off)
      screen 'it is out of use and switches itself off'
      sleep 2
      poweroff -f
      ;;
    gone)
      screen 'its boot session is over; it starts over'
      start_over 60
      ;;
    *)
      if [ -n "$rescue_ends" ] && ! rescue_now; then
        start_over 2
      fi
      show 'the boot host does not answer; it asks on'
      ;;
  esac
  sleep $((5 + RANDOM % 11))
done
