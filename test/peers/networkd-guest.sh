#!/bin/sh
# A systemd-networkd of its own: networkd-guest.sh DIRECTORY. It starts with the files of
# DIRECTORY/boot; then those of DIRECTORY/final are added and networkd reloads, as the user-data of
# cloud-init does it. Prints what networkd logged, and what the kernel has when SETTLED is true.
#
# Needs new namespaces for network and mounts. The read-only /sys tells networkd that there is no
# udev. SETTLED is a shell command.
set -eu
from=$1
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
mount -t sysfs -o ro sysfs /sys
ip link set lo up
for n in 1 2; do
  ip link add "eno$n" type veth peer name "port$n"
  ip link set "port$n" up
done
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases \
  /run/systemd/netif/lldp /run/dbus
chown -R systemd-network:systemd-network /run/systemd/netif
cp "$from"/boot/* /run/systemd/network/
dbus-daemon --system --fork --nopidfile
networkd=/usr/lib/systemd/systemd-networkd
[ -x "$networkd" ] || networkd=/lib/systemd/systemd-networkd
SYSTEMD_LOG_LEVEL=info "$networkd" >/run/log 2>&1 &
for _ in $(seq 150); do
  networkctl >/dev/null 2>&1 && break
  sleep 0.1
done
cp "$from"/final/* /run/systemd/network/
networkctl reload
for _ in $(seq 150); do
  sh -c "${SETTLED:-true}" >/dev/null 2>&1 && break
  sleep 0.1
done
echo '=== log'
cat /run/log
echo '=== addresses'
ip -j -d addr
echo '=== routes'
ip -j route show table all
echo '=== routes6'
ip -j -6 route show table all
echo '=== rules'
ip -j rule
echo '=== end'
