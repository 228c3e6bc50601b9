#!/bin/sh
# Applies this machine's Ignition configuration (ignition.config.url= on the kernel command line, or
# the copy on the boot disk), then starts the system.
#
# Ignition normally runs in an initrd with systemd, which waits for disks on its behalf. Our initrd
# has no systemd, so its stages run here: systemd is up, and nothing else has been started. A
# failure is printed, reported to the server, and ends in a reboot, as in the initrd.
set -u

ignition=/usr/lib/dracut/modules.d/30ignition/ignition
# What Ignition fetches may be secret, so this directory is for root alone.
private=/run/muster/ignition
config=$private/config.json
# The configuration from the boot disk, if the boot server did not answer.
kept=/run/muster/kept/ignition
log=/run/muster/ignition.log
presets=/etc/systemd/system-preset/20-ignition.preset
# Ignition asks again for so long while the server is away or answers 503.
fetch_patience=15m
# Seconds in which a person can read why.
reboot_delay=30

# sshd reads the keys' file itself, not a directory beside it.
export IGNITION_WRITE_AUTHORIZED_KEYS_FRAGMENT=false

# Prints a message to the kernel log, which reaches all consoles.
say() {
  echo "<5>muster: $*" >/dev/kmsg
}

# Reports the failure $* to the server and reboots.
fail() {
  echo "<3>muster: cannot configure this machine: $*" >/dev/kmsg
  MUSTER_TRIES=3 MUSTER_PAUSE=2 \
    /bin/sh /etc/muster/muster-report.sh failed "Ignition: $*" "$log"
  echo "<3>muster: rebooting in $reboot_delay s" >/dev/kmsg
  sleep "$reboot_delay"
  systemctl reboot --force
  exit 1
}

# Prints the last error in Ignition's log.
last_error() {
  grep -a '\(CRITICAL\|ERROR\)' "$log" | tail -n 1 | tr -d '\000-\037' | cut -c1-500
}

# Runs stage $1 of Ignition, which changes the system as the configuration says.
stage() {
  PATH=/usr/lib/muster/without-selinux:$PATH IGNITION_CONFIG_FILE=$kept \
    "$ignition" --platform "$platform" --root / --config-cache "$config" \
    --fetch-timeout "$fetch_patience" --log-to-stdout --stage "$1" >>"$log" 2>&1 ||
    fail "$1: $(last_error)"
}

# Whether the configuration says anything about disks.
wants_disks() {
  grep -qE '"(disks|filesystems|raid|luks)":\[' "$config"
}

# Loads drivers for all devices, and prepares and mounts disks. udev is started again with the rest
# of the system, when the configuration's own rules are there.
prepare_disks() {
  systemctl start systemd-udevd.service systemd-udev-trigger.service ||
    fail 'disks: udev does not start'
  udevadm settle
  stage disks
  stage mount
}

# Prints the units that the presets name. A line is `enable UNIT`, `disable UNIT`, or `enable
# TEMPLATE INSTANCE...`.
preset_units() {
  while read -r _ unit instances; do
    [ -n "$instances" ] || echo "$unit"
    for instance in $instances; do
      echo "${unit%@*}@$instance.${unit##*.}"
    done
  done <"$presets"
}

# Enables and disables units as the configuration's presets say. systemd does that itself on the
# first boot of a system without machine-id, but would enable far more here. If one unit does not
# exist, none is changed, so they are then done one by one.
apply_presets() {
  [ -e "$presets" ] || return 0
  units=$(preset_units)
  # shellcheck disable=SC2086 # names
  systemctl preset --no-reload $units >>"$log" 2>&1 && return
  for unit in $units; do
    systemctl preset --no-reload "$unit" >>"$log" 2>&1 ||
      say "no unit $unit to enable or disable"
  done
}

# Takes down the interface of the initrd. The system brings its network up itself, with the names
# that the configuration gives.
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
if grep -qE '"should(Not)?Exist":\[' "$config"; then
  effect='kernelArguments of an Ignition configuration have no effect on a system in memory'
  fail "$effect; they belong into the Image or Profile"
fi
if wants_disks; then
  prepare_disks
fi
stage files
apply_presets
: >/run/muster/ignition-done
[ ! -s /etc/hostname ] || cat /etc/hostname >/proc/sys/kernel/hostname
leave_network
if wants_disks; then
  systemctl stop systemd-udev-trigger.service systemd-udevd.service \
    systemd-udevd-kernel.socket systemd-udevd-control.socket
fi
rm -rf "$private" "$kept"
say 'configured by Ignition; starting the system'
systemctl daemon-reload
systemctl start --no-block "$(systemctl get-default)"
