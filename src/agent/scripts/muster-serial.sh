#!/bin/sh
# Part of the agent's scripts, which read it in: what the serial number of a disk is. The inventory
# reports it, documents name disks by it, and muster-disk.sh finds them again.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Sets disk_serial to the serial number of disk $1, as `lsblk -o SERIAL` shows it, with single
# blanks: from what udev found out, in the order of lsblk's lsblk-properties.c, else from the
# kernel. The serial number of a SAS disk or of a logical drive is on its page 80h; what udev calls
# the short serial of such a disk is its world wide name.
disk_serial() {
  serial_device=$root/sys/block/$1
  udev_serial "$serial_device"
  for serial_file in "$serial_device/serial" "$serial_device/device/serial"; do
    [ -z "$disk_serial" ] || break
    first_line "$serial_file"
    disk_serial=$first_line
  done
  # The page begins with four octets of its own (SPC).
  if [ -z "$disk_serial" ] && [ -r "$serial_device/device/vpd_pg80" ]; then
    disk_serial=$(tail -c +5 "$serial_device/device/vpd_pg80" 2>/dev/null | tr -d '\000')
  fi
  case $disk_serial in
    *[!\ !#-~]*) disk_serial=$(printf '%s' "$disk_serial" | tr '\t' ' ' | tr -d '"\000-\037\177') ;;
  esac
  set -f
  # shellcheck disable=SC2086 # blanks at the ends are left out
  set -- $disk_serial
  set +f
  disk_serial=$*
}

# Sets disk_serial to the serial number that udev found for the disk in directory $1, or to nothing.
udev_serial() {
  identified=''
  of_page=''
  short=''
  long=''
  first_line "$1/dev"
  if [ -n "$first_line" ] && [ -r "$root/run/udev/data/b$first_line" ]; then
    while read -r property; do
      case $property in
        E:SCSI_IDENT_SERIAL=*) identified=${property#*=} ;;
        E:ID_SCSI_SERIAL=*) of_page=${property#*=} ;;
        E:ID_SERIAL_SHORT=*) short=${property#*=} ;;
        E:ID_SERIAL=*) long=${property#*=} ;;
      esac
    done <"$root/run/udev/data/b$first_line"
  fi
  disk_serial=${identified:-${of_page:-${short:-$long}}}
}

# Sets serial_word to serial number $1 in the form that a selector has: udev and selectors cannot
# write every character, and write _ instead (serialWord in src/resources/disk-spec.ts).
serial_word() {
  serial_word=$1
  case $1 in
    *[!A-Za-z0-9._:@+-]*) serial_word=$(printf '%s' "$1" | tr -c 'A-Za-z0-9._:@+-' _) ;;
  esac
}
