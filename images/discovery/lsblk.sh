#!/bin/sh
# Stands in for lsblk in the discovery system, which has neither util-linux nor udev: prints the
# disks as `lsblk --pairs` does for muster-inventory.sh, from /sys, whatever its arguments say.
# Values are those that lsblk shows for the same disk in a running system. Only reads.
# shellcheck disable=SC2154 # root: set by who calls, empty on a machine

# Prints the first line of file $1 without blanks at its ends and without quotes.
line() {
  [ -r "$1" ] || return 0
  head -n 1 "$1" 2>/dev/null | tr -d '"\000-\010\013-\037' | sed 's/^[ \t]*//; s/[ \t]*$//'
}

# Prints the $3 octets from $2 on of the page that an ATA disk gave with its identity (SPC, page
# 89h), in which the letters of each pair are exchanged.
identity() {
  dd if="$1/vpd_pg89" bs=1 skip="$2" count="$3" 2>/dev/null | dd conv=swab 2>/dev/null |
    tr -d '"\000-\037' | sed 's/^ *//; s/ *$//'
}

# Prints the model of the disk in directory $1. SCSI has only 16 characters for it.
model() {
  text=
  [ ! -r "$1/device/vpd_pg89" ] || text=$(identity "$1/device" 114 40)
  [ -n "$text" ] || text=$(line "$1/device/model")
  printf '%s' "$text"
}

# Prints the world wide name of the disk in directory $1.
wwn() {
  text=$(line "$1/wwid")
  [ -n "$text" ] || text=$(line "$1/device/wwid")
  case $text in
    naa.*) printf '0x%s' "${text#naa.}" ;;
    eui.* | nvme.* | uuid.*) printf '%s' "$text" ;;
  esac
}

# Prints how the disk in directory $1 is connected.
transport() {
  case $(readlink -f "$1") in
    */nvme*) echo nvme ;;
    */usb[0-9]*) echo usb ;;
    */ata[0-9]*) echo sata ;;
    */end_device-*) echo sas ;;
    */rport-*) echo fc ;;
    */session[0-9]*) echo iscsi ;;
    */block/vd*) echo virtio ;;
  esac
}

for disk in "$root"/sys/block/*; do
  case $(line "$disk/dev") in
    '' | 1:* | 2:* | 7:* | 11:*) continue ;;
  esac
  printf 'NAME="%s" SIZE="%s" ROTA="%s"' "${disk##*/}" "$(($(line "$disk/size") * 512))" \
    "$(line "$disk/queue/rotational")"
  printf ' TRAN="%s" WWN="%s" MODEL="%s"\n' "$(transport "$disk")" "$(wwn "$disk")" \
    "$(model "$disk")"
done
