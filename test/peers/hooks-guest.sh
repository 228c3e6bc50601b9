#!/bin/sh
# A systemd in new namespaces with the units of DIRECTORY, as a configuration delivers them, on a
# machine whose plan brings kubelet later: hooks-guest.sh DIRECTORY. Prints `order: ` and the
# units in the order of their starts.
set -eu
from=$1
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/units /run/lock
cp -r "$from"/units/. /run/units/
# Does what `systemctl enable` does.
mkdir -p /run/units/multi-user.target.wants
while read -r unit; do
  ln -s "../$unit" "/run/units/multi-user.target.wants/$unit"
done <"$from/enabled"
for name in sysinit basic shutdown multi-user; do
  printf '[Unit]\nDefaultDependencies=no\n' >"/run/units/$name.target"
done
cat >/run/units/plan.service <<'U'
[Unit]
DefaultDependencies=no
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /run/plan.sh
U
ln -s ../plan.service /run/units/multi-user.target.wants/plan.service
# Does what the agent does with a plan's lines; the first configuration is done by then.
cat >/run/plan.sh <<'P'
cat >/run/units/kubelet.service <<'U'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'echo kubelet >>/run/order'
U
systemctl daemon-reload
systemctl start kubelet.service
# The units that kubelet wants have their jobs by now.
n=0
while [ $n -lt 100 ] && [ "$(wc -l </run/order)" -lt 3 ]; do
  sleep 0.1
  n=$((n + 1))
done
cp /run/order /run/order.done
n=0
while [ $n -lt 40 ] && [ ! -e /run/printed ]; do
  sleep 0.25
  n=$((n + 1))
done
systemctl --force exit 0
P
# A process outside of systemd's units prints it, because units have no console.
(
  n=0
  while [ $n -lt 240 ] && [ ! -e /run/order.done ]; do
    sleep 0.25
    n=$((n + 1))
  done
  echo "order: $(tr '\n' ' ' </run/order.done)"
  touch /run/printed
) &
# shellcheck source=test/peers/systemd-contain.sh
. "$(dirname "$0")/systemd-contain.sh"
export SYSTEMD_UNIT_PATH=/run/units SYSTEMD_GENERATOR_PATH=/run/none container=muster-test
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console --show-status=0
