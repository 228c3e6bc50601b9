#!/bin/sh
# The first program in the initrd of an imported image (images/import/initrd.sh): loads the drivers
# of the machine's devices, mounts the root image as every image of Muster does
# (images/debian/initramfs/scripts/muster), and starts the system in it.
export PATH=/bin

# shellcheck source=images/early.sh
. /early.sh
# shellcheck source=images/debian/initramfs/scripts/muster
. /scripts/muster

# Loads the drivers of all devices that the kernel has found. A bus brings further devices, so it
# looks again until there are no new ones.
load_drivers() {
  known=''
  rounds=0
  while [ "$rounds" -lt 5 ]; do
    found=$(find /sys/devices -name modalias -exec cat {} + 2>/dev/null | sort -u)
    [ "$found" != "$known" ] || return 0
    known=$found
    printf '%s\n' "$found" | while read -r alias; do
      modprobe -q "$alias" 2>/dev/null
    done
    rounds=$((rounds + 1))
    sleep 1
  done
}

# scripts/muster calls this before it tries all network cards.
udevadm() {
  load_drivers
}

early_mounts
exec </dev/console >/dev/console 2>&1
modprobe -a af_packet virtio_pci virtio_mmio usbhid hid_generic xhci_pci atkbd 2>/dev/null
load_drivers
export rootmnt=/root
mountroot
# What `muster image import` said that it changes.
cp -a /files/. "$rootmnt/"
for place in dev proc sys run; do
  mount -o move "/$place" "$rootmnt/$place"
done
exec switch_root "$rootmnt" /sbin/init
