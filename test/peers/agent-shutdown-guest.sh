#!/bin/sh
# A systemd and a journald in new namespaces with the agent of DIRECTORY and its unit, and a unit of
# etcd whose database is damaged: agent-shutdown-guest.sh DIRECTORY NODE SERVER ETCD. NODE SERVER
# runs the boot server, which prints the requests and has systemd switch the machine off.
set -eu
from=$1
node=$2
server=$3
etcd=$4
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/units/multi-user.target.wants /run/etc/muster /run/work /run/lock
cp "$from"/muster-*.sh /run/etc/muster
cp "$from/muster-agent.service" /run/units
ln -s ../muster-agent.service /run/units/multi-user.target.wants
for name in sysinit basic shutdown network-online multi-user; do
  printf '[Unit]\nDefaultDependencies=no\n' >"/run/units/$name.target"
done
printf 'Requires=basic.target\nAfter=basic.target\n' >>/run/units/multi-user.target
# As in systemd: the machine is switched off when everything has stopped.
cat >/run/units/poweroff.target <<'U'
[Unit]
DefaultDependencies=no
Requires=off.service
After=off.service
AllowIsolate=yes
U
cat >/run/units/off.service <<'U'
[Unit]
DefaultDependencies=no
Requires=shutdown.target
After=shutdown.target
[Service]
Type=oneshot
ExecStart=/bin/systemctl --force exit 0
U
cat >/run/units/systemd-journald.socket <<'U'
[Unit]
DefaultDependencies=no
IgnoreOnIsolate=yes
[Socket]
ListenDatagram=/run/systemd/journal/socket
ListenStream=/run/systemd/journal/stdout
PassCredentials=yes
PassSecurity=yes
Timestamping=us
U
cat >/run/units/systemd-journald.service <<'U'
[Unit]
DefaultDependencies=no
Requires=systemd-journald.socket
After=systemd-journald.socket
IgnoreOnIsolate=yes
[Service]
Type=notify
ExecStart=/lib/systemd/systemd-journald
RuntimeDirectory=systemd/journal
RuntimeDirectoryPreserve=yes
StandardOutput=null
U
cp "$etcd" /run/etcd-program
mkdir -p /run/etcd-data/member/snap /run/etcd-data/member/wal /run/etc/systemd/system
head -c 131072 /dev/zero | tr '\0' Z >/run/etcd-data/member/snap/db
# As src/cluster/plan/etcd-service.ts has it.
cat >/run/units/muster-etcd.service <<'U'
[Unit]
Wants=systemd-journald.service
After=systemd-journald.service
StartLimitIntervalSec=0
[Service]
Type=exec
ExecStart=/run/etcd-program --data-dir=/run/etcd-data
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
U
cp /run/units/muster-etcd.service /run/etc/systemd/system
ln -s ../muster-etcd.service /run/units/multi-user.target.wants
ip link set lo up
# The server starts now, because the mounts below hide Node.
"$node" "$server" /run/etc/muster &
until [ -e /run/etc/muster/agent.conf ]; do
  sleep 0.1
done
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work /etc
mount -o remount,ro /etc
# shellcheck source=test/peers/systemd-contain.sh
. "$(dirname "$0")/systemd-contain.sh"
export SYSTEMD_UNIT_PATH=/run/units SYSTEMD_GENERATOR_PATH=/run/none container=muster-test
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console --show-status=0
