#!/bin/busybox sh
# shellcheck shell=dash
# First process of the boot host that is power-cut: mounts the disk and runs the load on the store
# that lies on it. Kernel argument torture.synchronous=OFF breaks the store on purpose, to see that
# the test notices.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod "/modules/$module"
done </modules/order

tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 100 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
mkdir -p /state /tmp
if ! mount -t ext4 -o noatime /dev/vda /state; then
  echo "dead the disk does not mount"
  sleep 3600
fi
echo mounted
if grep -q torture.synchronous=OFF /proc/cmdline; then
  sed -i 's/synchronous = FULL/synchronous = OFF/' /muster/src/store/sqlite-format.ts
fi
/bin/node /muster/torture/guest-load.ts /state/store.sqlite
echo "dead the load ended with $?"
sleep 3600
