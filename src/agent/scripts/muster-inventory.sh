#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): what the machine is made of. Nothing here changes
# the machine. The lines that it writes are described in src/machines/inventory.ts of Muster.
# shellcheck disable=SC2154 # variables that other parts set and read

# Prints a line for each file $2 ... that says something: $1, the file's name, its first line.
inventory_files() {
  inventory_kind=$1
  shift
  for inventory_file in "$@"; do
    first_line "$inventory_file"
    [ -z "$first_line" ] || echo "$inventory_kind ${inventory_file##*/} $first_line"
  done
}

# Prints a line for each network card: name, address, carrier (1 or 0), Mbit/s, driver.
inventory_cards() {
  for inventory_card in "$root"/sys/class/net/*; do
    [ -e "$inventory_card/device" ] || continue
    first_line "$inventory_card/address"
    inventory_mac=$first_line
    first_line "$inventory_card/carrier"
    inventory_link=${first_line:-0}
    first_line "$inventory_card/speed"
    inventory_link="$inventory_link ${first_line:-0}"
    inventory_driver=$(readlink "$inventory_card/device/driver")
    echo "nic ${inventory_card##*/} $inventory_mac $inventory_link ${inventory_driver##*/}"
  done
}

# Sets asked to what program $3 ... prints, which asks the hardware for part $1 of the inventory. If
# it has not ended after $2 seconds, prints the line that says what the inventory lacks, and fails.
inventory_ask() {
  inventory_part=$1
  shift
  asked=$(within "$@" 2>/dev/null)
  [ $? = 124 ] || return 0
  echo "missing $inventory_part $2 did not end within $1 seconds"
  return 1
}

# Prints a line for each disk.
inventory_disks() {
  inventory_ask disks 20 lsblk --nodeps --noheadings --bytes --pairs --exclude 1,2,7,11 \
    --output NAME,SIZE,ROTA,TRAN,WWN,MODEL || return 0
  printf '%s\n' "$asked" | while read -r inventory_disk; do
    inventory_name=${inventory_disk#NAME=\"}
    disk_serial "${inventory_name%%\"*}"
    echo "disk $inventory_disk SERIAL=\"$disk_serial\""
  done
}

# Prints the address of the BMC, where the kernel has a driver for it and there is a program to ask.
inventory_bmc() {
  [ -e "$root/dev/ipmi0" ] && command -v ipmitool >/dev/null || return 0
  inventory_ask bmc 10 ipmitool lan print || return 0
  printf '%s\n' "$asked" | sed -n 's/^IP Address  *: */bmc /p'
}

# Prints what systemd-networkd heard by LLDP. Older versions cannot print it as JSON.
inventory_neighbours() {
  inventory_ask neighbours 5 networkctl --json=short lldp || return 0
  case $asked in
    '{'*) echo "lldp $asked" ;;
  esac
}

# Prints the whole inventory.
inventory_lines() {
  grep -c '^processor' "$root/proc/cpuinfo" | sed 's/^/cpu threads /'
  sed -n 's/^model name[^:]*: */cpu model /p' "$root/proc/cpuinfo" | head -n 1
  sed -n 's/^MemTotal: *\([0-9]*\) kB/memory \1/p' "$root/proc/meminfo"
  inventory_files dmi "$root"/sys/class/dmi/id/bios_vendor "$root"/sys/class/dmi/id/bios_version \
    "$root"/sys/class/dmi/id/bios_date "$root"/sys/class/dmi/id/sys_vendor \
    "$root"/sys/class/dmi/id/product_name "$root"/sys/class/dmi/id/product_serial
  inventory_disks
  inventory_cards
  inventory_bmc
  inventory_neighbours
}

# Writes the inventory to $run/inventory.new, when the server has none of the last hour: links come
# up, and disks are replaced.
take_inventory() {
  if [ -n "$(find "$run/inventory" -mmin -60 2>/dev/null)" ]; then
    return 0
  fi
  inventory_lines 2>/dev/null | head -c 32768 >"$run/inventory.new"
}

# Notes that the server has the inventory.
inventory_arrived() {
  [ ! -e "$run/inventory.new" ] || mv "$run/inventory.new" "$run/inventory"
}
