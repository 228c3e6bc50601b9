#!/bin/sh
# Installs, upgrades and purges packages on a copy of this host's file system, under a systemd in
# new namespaces: deb-guest.sh OLD.deb NEW.deb. Prints the results, from `=== probe` to `END`.
#
# Runs as the first process of new namespaces (see under-systemd.ts). The copy is an overlay in
# memory: the host's files are only read, and the old root is gone before anything is installed.
set -eu
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir /run/layer
mount -t tmpfs tmpfs /run/layer
mkdir /run/layer/upper /run/layer/work /run/layer/root
cp "$1" /run/layer/old.deb
cp "$2" /run/layer/new.deb
root=/run/layer/root
mount -t overlay overlay \
  -o lowerdir=/,upperdir=/run/layer/upper,workdir=/run/layer/work $root
mount -t proc proc $root/proc
mount --rbind /dev $root/dev
mount -o remount,bind,ro $root/dev
mount -t sysfs -o ro sysfs $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
mount -t tmpfs tmpfs $root/run
mount -t tmpfs -o mode=1777 tmpfs $root/tmp
mkdir -p $root/run/lock $root/run/old $root/run/layer
mount --rbind /run/layer $root/run/layer
cd $root
pivot_root . run/old
umount -l /run/old
umount -l /run/layer/root

# Only the package's own units and generator are there, and nothing forbids to start services.
units=/usr/lib/systemd/system
rm -rf $units /etc/systemd/system /usr/lib/systemd/system-generators /usr/sbin/policy-rc.d
mkdir -p $units /etc/systemd/system /usr/lib/systemd/system-generators
for name in sysinit basic sockets paths timers slices shutdown network multi-user; do
  printf '[Unit]\nDefaultDependencies=no\n' >$units/$name.target
done
ip link set lo up
ip link add rack0 type bridge
ip addr add 10.88.0.1/24 dev rack0
ip link set rack0 up
cat >/run/network.yaml <<'Y'
apiVersion: muster/v1
kind: Network
metadata: {name: rack0}
spec: {subnet: 10.88.0.0/24, dhcp: {mode: server}}
Y
cat >/run/profile.yaml <<'Y'
apiVersion: muster/v1
kind: Profile
metadata: {name: kept}
spec: {boot: hold}
Y
cat >$units/probe.service <<'U'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/sh /run/probe.sh
U
cat >/run/probe.sh <<'P'
exec >/run/probe.log 2>&1
export PATH=/usr/sbin:/sbin:/usr/bin:/bin DEBIAN_FRONTEND=noninteractive
say() { echo "$1: $2"; }
# Runs dpkg, and prints what it said if it fails.
package() {
  dpkg --force-unsafe-io --no-triggers "$@" >/run/dpkg.log 2>&1 || {
    echo "dpkg $* failed"
    cat /run/dpkg.log
  }
}
state() { echo "$(systemctl is-active muster) $(systemctl is-enabled muster 2>&1)"; }
pid() { systemctl show -P MainPID muster.service; }
bound() { ss -Hlun | sed -n 's/.*%\(rack0:[0-9]*\) .*/\1/p' | sort | tr '\n' ' '; }
profiles() { muster get profiles -o name 2>&1 | tr '\n' ' '; }

package -i /run/layer/old.deb
say installed "$(state) $(dpkg-query -W -f '${Version}' muster)"
say directories "$(stat -c '%n %a %U:%G' /etc/muster /var/lib/muster | tr '\n' ' ')"
say 'bound at first' "$(bound)"
echo MUSTER_INTERFACE=rack0 >/etc/default/muster
cp /run/network.yaml /etc/muster/
systemctl daemon-reload
systemctl restart muster
say bound "$(bound)"
muster apply -f /run/profile.yaml >/dev/null
before=$(pid)

package -i /run/layer/new.deb
say upgraded "$(state) $(dpkg-query -W -f '${Version}' muster)"
[ "$(pid)" = "$before" ] || say restarted yes
say 'after the upgrade' "$(profiles)$(cat /etc/default/muster) $(bound)"

systemctl disable muster 2>/dev/null
package -i /run/layer/new.deb
say 'disabled by the operator' "$(state)"
systemctl enable muster 2>/dev/null

package -r muster
say removed "$(systemctl is-active muster) $(ls /usr/lib/muster 2>&1 | wc -l) bound:$(bound)"
say 'http when removed' "$(ss -Hltn 'sport = :8080' | wc -l)"
say store "$(ls /var/lib/muster/muster.db)"
package -i /run/layer/new.deb
say 'installed again' "$(state) $(profiles)"

package -P muster
say purged "$(dpkg-query -W -f '${Status}' muster 2>&1)"
# Everything that the package and its service left in the copy of the file system.
left=$(cd /run/layer/upper && find . -path '*muster*' ! -type c ! -path './tmp/*' | sort)
say left "$(echo "$left" | tr '\n' ' ')"

echo END
n=0
while [ $n -lt 40 ] && [ ! -e /run/printed ]; do
  sleep 0.25
  n=$((n + 1))
done
systemctl --force exit 0
P
# A process outside of systemd's units prints the log, because units have no console.
(
  n=0
  while [ $n -lt 900 ] && ! grep -q '^END' /run/probe.log 2>/dev/null; do
    sleep 0.25
    n=$((n + 1))
  done
  echo '=== probe'
  cat /run/probe.log
  touch /run/printed
) &
export container=muster-test
unset MUSTER_INTERFACE MUSTER_HTTP_PORT
exec /lib/systemd/systemd --system --unit=probe.service --log-target=console --show-status=0
