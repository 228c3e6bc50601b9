#!/bin/sh
# Applies this machine's Ignition configuration (ignition.config.url= on the kernel command line, or
# what was kept on the boot disk), then starts the system.
#
# Ignition's own place is an initrd with systemd, which waits for disks on its behalf. Ours has
# none, so its stages run here: systemd is up, and nothing else has been started. What fails is
# printed, reported to the server, and ends in a reboot, as in the initrd.
set -u

ignition=/usr/lib/dracut/modules.d/30ignition/ignition
private=/run/muster/ignition   # what it fetches may be secret
config=$private/config.json
kept=/run/muster/kept/ignition   # from the boot disk, when the boot server did not answer
log=/run/muster/ignition.log
presets=/etc/systemd/system-preset/20-ignition.preset
fetch_patience=15m   # Ignition asks again for so long while the server is away or says 503
reboot_delay=30      # seconds that a person has for reading why

# Into the file that sshd reads, not into one beside it.
export IGNITION_WRITE_AUTHORIZED_KEYS_FRAGMENT=false

# The kernel log reaches all consoles.
say() { echo "<5>muster: $*" >/dev/kmsg; }

fail() {
  echo "<3>muster: cannot configure this machine: $*" >/dev/kmsg
  MUSTER_TRIES=3 MUSTER_PAUSE=2 /bin/sh /etc/muster/muster-report.sh failed "Ignition: $*" "$log"
  echo "<3>muster: rebooting in $reboot_delay s" >/dev/kmsg
  sleep "$reboot_delay"
  systemctl reboot --force
  exit 1
}

stage() {
  PATH=/usr/lib/muster/without-selinux:$PATH IGNITION_CONFIG_FILE=$kept "$ignition" --platform "$platform" --root / --config-cache "$config" \
    --fetch-timeout "$fetch_patience" --log-to-stdout --stage "$1" >>"$log" 2>&1 ||
    fail "$1: $(grep -a '\(CRITICAL\|ERROR\)' "$log" | tail -n 1 | tr -d '\000-\037' | cut -c1-500)"
}

# Whether the configuration has something for machines with disks.
wants_disks() { grep -qE '"(disks|filesystems|raid|luks)":\[' "$config"; }

# Only where disks are wanted: drivers and names of all devices. Started again with all the rest,
# when the configuration's own rules are there.
disks() {
  systemctl start systemd-udevd.service systemd-udev-trigger.service || fail 'disks: udev does not start'
  udevadm settle
  stage disks
  stage mount
}

# As systemd does on the first boot of a system that has no machine-id yet; ours would have it
# enable far more. A line is `enable UNIT`, `disable UNIT`, or `enable TEMPLATE INSTANCE...`.
apply_presets() {
  [ -e "$presets" ] || return 0
  units=$(while read -r _ unit instances; do
    [ -n "$instances" ] || echo "$unit"
    for instance in $instances; do echo "${unit%@*}@$instance.${unit##*.}"; done
  done <"$presets")
  # shellcheck disable=SC2086 # names
  systemctl preset --no-reload $units >>"$log" 2>&1 && return
  # One that does not exist spoils it for all.
  for unit in $units; do systemctl preset --no-reload "$unit" >>"$log" 2>&1 || say "no unit $unit to enable or disable"; done
}

# The system brings its network up by itself, under the names that the configuration gives.
leave_network() {
  [ -e /run/muster/nic ] || return 0
  read -r nic </run/muster/nic
  ip addr flush dev "$nic"
  ip link set dev "$nic" down
}

mkdir -m 700 "$private"
: >"$log"
platform=metal
[ ! -e "$kept" ] || platform='file'
stage fetch
! grep -qE '"should(Not)?Exist":\[' "$config" ||
  fail 'kernelArguments of an Ignition configuration have no effect on a system in memory; they belong into the Image or Profile'
if wants_disks; then disks; fi
stage files
apply_presets
# Later its session may be over: this system is up before its agent asks.
if [ -e /etc/muster/muster-boot.sh ] && [ ! -e "$kept" ]; then sh /etc/muster/muster-boot.sh seed >>"$log" 2>&1; fi
: >/run/muster/ignition-done
[ ! -s /etc/hostname ] || cat /etc/hostname >/proc/sys/kernel/hostname
leave_network
if wants_disks; then
  systemctl stop systemd-udev-trigger.service systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket
fi
rm -rf "$private" "$kept"
say 'configured by Ignition; starting the system'
systemctl daemon-reload
systemctl start --no-block "$(systemctl get-default)"
