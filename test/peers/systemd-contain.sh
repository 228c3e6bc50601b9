#!/bin/sh
# Sourced by the first process of new namespaces, before it becomes systemd. Makes the host's file
# system read-only and checks that, because a systemd that can write would clean /tmp and more. Only
# /run, /tmp and /var can be written, and they are new.
mount -o remount,bind,ro /
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs tmpfs /var
mkdir -p /var/lib /var/cache /var/log /var/tmp
mount -o remount,bind,ro /dev
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t sysfs -o ro sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for place in / /dev /etc /home /opt /root /usr /usr/lib /srv; do
  [ -d $place ] || continue
  [ -w $place ] || continue
  touch $place/.muster-probe 2>/dev/null || continue
  echo "${0##*/}: $place is writable; nothing is started" >&2
  exit 1
done
