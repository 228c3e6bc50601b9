#!/bin/sh
# A systemd in new namespaces with the installed server: systemd-guest.sh DESTDIR. Prints the
# results of the probe, from `=== probe` to `END`.
#
# Runs as the first process of new namespaces (see under-systemd.ts). systemd sees no units but
# those below /run.
set -eu
dest=$1
export PATH=/usr/sbin:/sbin:/usr/bin:/bin
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/units /run/sys/etc /run/config /run/lock /run/inst

# The user that the package's sysusers file makes.
cp /etc/passwd /etc/group /run/sys/etc/
systemd-sysusers --root=/run/sys "$dest/usr/lib/sysusers.d/muster.conf"
mount --bind /run/sys/etc/passwd /etc/passwd
mount --bind /run/sys/etc/group /etc/group
mount --bind "$dest" /run/inst

# shellcheck source=test/peers/systemd-contain.sh
. "$(dirname "$0")/systemd-contain.sh"

ip link set lo up
for n in 0 1; do
  ip link add rack$n type bridge
  ip addr add 10.88.$n.1/24 dev rack$n
  ip link set rack$n up
done
cat >/run/config/networks.yaml <<'Y'
apiVersion: muster/v1
kind: Network
metadata: {name: rack0}
spec: {subnet: 10.88.0.0/24, dhcp: {mode: server}}
Y
echo MUSTER_INTERFACE=rack0 >/run/defaults

# Empty units in place of those that ours depend on; ours with the paths of this test.
for name in sysinit basic sockets paths timers slices shutdown network multi-user; do
  printf '[Unit]\nDefaultDependencies=no\n' >/run/units/$name.target
done
paths='s#/usr/bin/muster#/run/inst/usr/bin/muster#; s#=/etc/muster#=/run/config#'
sed "$paths; /^ConfigurationDirectory/d" \
  /run/inst/usr/lib/systemd/system/muster.service >/run/units/muster.service
sed 's#/usr/lib/muster/#/run/inst/usr/lib/muster/#g' \
  '/run/inst/usr/lib/systemd/system/muster-judge@.service' >'/run/units/muster-judge@.service'
sed 's#/usr/lib/muster/#/run/inst/usr/lib/muster/#g; s#/etc/default/muster#/run/defaults#' \
  '/run/inst/usr/lib/systemd/system/muster-address@.service' >'/run/units/muster-address@.service'
cp /run/inst/usr/lib/systemd/system/muster-judge.socket \
  /run/inst/usr/lib/systemd/system/muster-address.socket \
  /run/inst/usr/lib/systemd/system/muster-signer.socket \
  /run/inst/usr/lib/systemd/system/muster-signer-operator.socket /run/units/
sed 's#/usr/lib/muster/#/run/inst/usr/lib/muster/#g; s#--config /etc/muster#--config /run/config#' \
  /run/inst/usr/lib/systemd/system/muster-signer.service >/run/units/muster-signer.service
cat >/run/ask.ts <<'T'
import { runByUnit } from '/run/inst/usr/lib/muster/src/cluster/judge/unit.socket.ts';
const script = 'read -r text </etc/given; echo "$text"; echo /*';
const within = AbortSignal.timeout(20_000);
const files = new Map([['/etc/given', 'given']]);
const { did, output, why } = await runByUnit()('/elsewhere/sh', ['-c', script], files, within);
console.log(did, (output ?? why).replace(/\n/g, ' '));
T
cat >/run/units/probe.service <<'U'
[Unit]
DefaultDependencies=no
Wants=muster.service sockets.target
After=muster.service sockets.target
[Service]
Type=oneshot
ExecStart=/bin/sh /run/probe.sh
U
cat >/run/probe.sh <<'P'
exec >/run/probe.log 2>&1
muster=/run/inst/usr/bin/muster
say() { echo "$1: $2"; }
get() { curl -sS -m 10 -o /dev/null -w '%{http_code}' "http://10.88.0.1:8080/boot.ipxe"; }
of_process() { sed -n "s/^$1:\t//p" /proc/"$pid"/status; }
say state "$(systemctl is-active muster.service)"
say status "$(systemctl show -P StatusText muster.service)"
pid=$(systemctl show -P MainPID muster.service)
say uid "$(stat -c %U /proc/"$pid")"
say capabilities "$(of_process CapEff) $(of_process CapBnd)"
say seccomp "$(of_process Seccomp)"
bound='s/.*0.0.0.0%\(rack[0-9]\):\([0-9]*\) .*/\1:\2/p'
say bound "$(ss -Hlun | sed -n "$bound" | sort | tr '\n' ' ')"
say socket "$(stat -c '%a %U %G' /run/muster/muster.sock)"
say muster "$($muster status | tr '\n' ' ')"
say http "$(get)"
systemctl reload muster.service
say reload $?
echo 'kind: Nonsense' >/run/config/bad.yaml
systemctl reload muster.service
say 'reload of nonsense' $?
rm /run/config/bad.yaml
systemctl stop muster.service 2>/dev/null
say stopped "$(systemctl is-active muster.service) $(systemctl show -P Result muster.service)"
answer=$(get)
# The start ends when operators are served as well: this waits for it.
systemctl start muster.service
say 'http starts it' "$answer $(systemctl is-active muster.service)"
install -D -m 0755 /bin/dash /var/lib/muster/judged/sh
node=/run/inst/usr/lib/muster/node/bin/node
say judged "$(setpriv --reuid muster --regid muster --init-groups $node /run/ask.ts 2>&1)"
say 'judged by strangers' "$(setpriv --reuid 12345 --clear-groups $node /run/ask.ts 2>&1)"
echo MUSTER_INTERFACE=rack0,rack1 >/run/defaults
# The unit takes its address from the settings, and none from the server.
echo MUSTER_BOOT_ADDRESS=rack0=10.88.0.2/24 >>/run/defaults
mkdir -p /run/units/muster.service.d
echo '[Service]
Environment=MUSTER_BOOT_ADDRESS=rack0=10.88.0.2/24,rack1=10.88.1.2/24' \
  >/run/units/muster.service.d/address.conf
# Prints the boot addresses that interfaces have.
boot_addresses() {
  ip -4 -o addr show | grep -o '10\.88\.[01]\.2/24' | tr '\n' ' '
}
systemctl daemon-reload
systemctl restart muster.service
say 'with another interface' "$? $(ss -Hlun | grep -c '%rack1:')"
say 'boot addresses' "$(boot_addresses)"
say 'served by it' "$(curl -sS -m 10 http://10.88.0.2:8080/boot.ipxe | grep -c 10.88.0.2:8080)"
say 'address check' "$($muster status | grep -c 'boot address: rack1=10.88.1.2/24 is not')"

# The key of the vault goes to the signer, and the server asks there from now on.
systemctl stop muster.service 2>/dev/null
say 'addresses afterwards' "none $(boot_addresses)"
install -d -o muster-signer -g muster-signer -m 0700 /var/lib/muster-signer
install -o muster-signer -g muster-signer -m 0600 /var/lib/muster/vault.key /var/lib/muster-signer/
rm /var/lib/muster/vault.key
echo '[Service]
Environment=MUSTER_SIGNER=/run/muster-signer/server.sock' >/run/units/muster.service.d/signer.conf
systemctl daemon-reload
systemctl start muster-signer.socket muster-signer-operator.socket
systemctl start muster.service
say 'with the signer' "$? $(systemctl is-active muster.service muster-signer.service | tr '\n' ' ')"
pid=$(systemctl show -P MainPID muster-signer.service)
say 'signer runs as' "$(stat -c %U /proc/"$pid") $(of_process CapBnd) $(of_process Seccomp)"
same='not the'
[ "$(readlink /proc/"$pid"/ns/net)" != "$(readlink /proc/self/ns/net)" ] || same=the
say 'signer has' "$same host's network"
say 'sockets of the signer' "$(stat -c '%a %U %G' /run/muster-signer/*.sock | tr '\n' ' ')"
say 'signer says' "$($muster signer status 2>&1 | tr '\n' ' ')"
say 'server orders' "$(setpriv --reuid muster --regid muster --init-groups \
  $muster signer allow export 2>&1 | tr '\n' ' ')"
say 'server looks' "$(setpriv --reuid muster --regid muster --init-groups \
  ls /var/lib/muster-signer /proc/"$pid"/environ 2>&1 | tr '\n' ' ')"
say 'key in the server' "$(find /var/lib/muster -name vault.key | wc -l)"

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
  while [ $n -lt 600 ] && ! grep -q '^END' /run/probe.log 2>/dev/null; do
    sleep 0.25
    n=$((n + 1))
  done
  echo '=== probe'
  cat /run/probe.log
  touch /run/printed
) &
export SYSTEMD_UNIT_PATH=/run/units:/run/systemd/generator
export SYSTEMD_GENERATOR_PATH=/run/inst/usr/lib/systemd/system-generators
export MUSTER_DEFAULTS=/run/defaults container=muster-test
exec /lib/systemd/systemd --system --unit=probe.service --log-target=console --show-status=0
