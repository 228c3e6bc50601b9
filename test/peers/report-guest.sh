#!/bin/sh
# A systemd in new namespaces with the files and units of DIRECTORY, as a configuration delivers
# them: report-guest.sh DIRECTORY NODE SERVER. Below DIRECTORY: etc/ with the files, units/ with the
# units, enabled with the names of those that are, and notes with the failures that were written
# down. NODE SERVER runs the server that gets the reports; it prints them and ends systemd.
set -eu
from=$1
node=$2
server=$3
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/units /run/etc /run/work /run/lock
cp "$from"/units/* /run/units/
[ ! -f "$from/notes" ] || cp "$from/notes" /run/muster-failed
# The host's /etc with the machine's files over it, in memory.
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work /etc
cp -r "$from/etc/." /etc/
mount -o remount,ro /etc
# Does what `systemctl enable` does.
while read -r unit; do
  places='s/^WantedBy=\(.*\)/\1.wants/p; s/^RequiredBy=\(.*\)/\1.requires/p'
  sed -n "$places" "/run/units/$unit" | while read -r place; do
    mkdir -p "/run/units/$place"
    ln -s "../$unit" "/run/units/$place/$unit"
  done
done <"$from/enabled"
for name in sysinit basic shutdown network-online multi-user; do
  printf '[Unit]\nDefaultDependencies=no\n' >"/run/units/$name.target"
done
# As in any system, basic.target comes before multi-user.target.
printf 'Requires=basic.target\nAfter=basic.target\n' >>/run/units/multi-user.target
echo 'quiet muster.url=http://127.0.0.1:8080/boot/SESSION' >/run/cmdline
mount --bind /run/cmdline /proc/cmdline
ip link set lo up
# The server starts now, because the mounts below hide Node.
"$node" "$server" &
until ss -Hltn | grep -q ':8080 '; do
  sleep 0.1
done
# shellcheck source=test/peers/systemd-contain.sh
. "$(dirname "$0")/systemd-contain.sh"
SYSTEMD_PROC_CMDLINE=$(cat /run/cmdline)
export SYSTEMD_PROC_CMDLINE SYSTEMD_UNIT_PATH=/run/units
export SYSTEMD_GENERATOR_PATH=/run/none container=muster-test
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console --show-status=0
