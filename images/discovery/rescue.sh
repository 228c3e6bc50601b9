#!/bin/sh
# Part of the discovery system (init.sh reads it in): lets an operator look at the machine by SSH.
# All disks are set to read-only first, so that neither a mount nor a slip of the operator writes to
# one. Nothing of this outlives the boot.
# shellcheck disable=SC2154 # url: set by who reads this in

rescue_key=/run/rescue.key
# The time in seconds since the start of the machine at which the rescue ends.
rescue_ends=

# Seconds since the machine started, which no clock that is set changes.
up_seconds() {
  read -r up _ </proc/uptime
  echo "${up%%.*}"
}

# Sets all disks to read-only. New ones are found at the next call.
rescue_disks() {
  for block in /sys/block/*; do
    [ ! -e "/dev/${block##*/}" ] || blockdev --setro "/dev/${block##*/}" 2>/dev/null
    for part in "$block/${block##*/}"*; do
      [ ! -e "/dev/${part##*/}" ] || blockdev --setro "/dev/${part##*/}" 2>/dev/null
    done
  done
}

# Asks who may log in and for how long, with the key of the SSH server. Fails without an answer.
rescue_asked() {
  dropbearkey -y -f "$rescue_key" | grep '^ssh-ed25519 ' >/run/rescue.pub
  timeout 15 wget -q -O /run/rescue.order --post-file /run/rescue.pub "$url/rescue" 2>/dev/null
}

# Starts the SSH server, once, and keeps disks read-only. Succeeds while the rescue lasts.
rescue_now() {
  rescue_disks
  if [ -n "$rescue_ends" ]; then
    [ "$(up_seconds)" -lt "$rescue_ends" ]
    return
  fi
  [ -e "$rescue_key" ] || dropbearkey -t ed25519 -f "$rescue_key" >/dev/null 2>&1
  rescue_asked || return 0
  seconds=$(sed -n 's/^seconds \([0-9]*\)$/\1/p' /run/rescue.order)
  mkdir -p /root/.ssh /dev/pts
  mount -t devpts devpts /dev/pts 2>/dev/null
  sed -n 's/^key //p' /run/rescue.order >/root/.ssh/authorized_keys
  chmod 700 /root /root/.ssh
  chmod 600 /root/.ssh/authorized_keys
  while read -r module; do
    insmod "/rescue-modules/$module" 2>/dev/null
  done </rescue-modules/order
  # No passwords, and no forwarding: who is here looks at this machine alone.
  dropbear -r "$rescue_key" -s -j -k -p 22 >/dev/null 2>&1
  rescue_ends=$(($(up_seconds) + seconds))
}
