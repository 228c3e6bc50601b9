#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): a disk that holds etcd's data alone, next to the
# data disk, and the plan's lines about it. Its filesystem has a marker of its own.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

etcd_state=$root/var/lib/muster-etcd

# Sets etcd_disk, etcd_device, etcd_filesystem, etcd_encrypted, etcd_mounted and etcd_detail: the
# state of the etcd disk, as look_at_disk does for the data disk.
look_at_etcd_disk() {
  find_disk etcd-look "$etcd_data"
  etcd_disk=$found_disk
  etcd_device=$found_device
  etcd_filesystem=$found_filesystem
  etcd_encrypted=$found_encrypted
  etcd_mounted=$found_mounted
  etcd_detail=$found_detail
}

# Sets etcd_home to where the filesystem is mounted that has etcd's data or is to receive them, with
# home_mounted, home_filesystem, and home_left, the file that lists the foundings that were cleared
# from it. That is the etcd disk's if there is one, unless the marker of the data filesystem says
# that a member keeps its data there: data stay where they are.
find_etcd_home() {
  etcd_home=$state
  home_mounted=$mounted
  home_filesystem=$filesystem
  home_left=$state/agent/left
  [ -n "$etcd_data" ] && [ -n "$mounted" ] || return 0
  first_line "$state/marker"
  case "$first_line " in
    ' ' | *' _etcd-disk '*) ;;
    *) return 0 ;;
  esac
  etcd_home=$etcd_state
  home_mounted=$etcd_mounted
  home_filesystem=$etcd_filesystem
  home_left=$etcd_state/left
}

# Holds unless the filesystem is mounted that has etcd's data or is to receive them.
require_etcd_home() {
  find_etcd_home
  [ -n "$home_mounted" ] ||
    hold no-data-filesystem 'the filesystem for the data of etcd is not mounted'
}

# Holds unless the etcd disk's filesystem is mounted.
require_etcd_disk() {
  [ -n "$etcd_mounted" ] || hold no-data-filesystem "the etcd disk's filesystem is not mounted"
}

# Does plan line `create-etcd DEVICE UUID [tpm|boot-host]`: makes the etcd disk's filesystem,
# encrypted if the line says so, and mounts it.
create_etcd() {
  require_mounted || return 1
  if [ -n "$3" ]; then
    make_data_key "$2" "$3" || return 1
  fi
  try create-data sh "$here/muster-disk.sh" etcd-create "$etcd_data" "$1" "$2" '' \
    "$data_key" "$data_token"
  created=$?
  forget_data_key
  [ "$created" = 0 ] || return 1
  mount_etcd "$2"
}

# Does plan line `mount-etcd UUID`: mounts the etcd disk's filesystem at /var/lib/muster-etcd.
mount_etcd() {
  if [ -z "$etcd_mounted" ]; then
    note_change "$etcd_state" || return 1
    if [ -n "$etcd_encrypted" ]; then
      get_data_key "$1" "$etcd_encrypted" "$etcd_device" || return 1
    fi
  fi
  try data-mount sh "$here/muster-disk.sh" etcd-mount "$etcd_data" "$1" "$data_key"
  mount_status=$?
  forget_data_key
  [ "$mount_status" = 0 ] || return 1
  look_at_etcd_disk
}

# Mounts the etcd disk's filesystem before the plan comes, unless the boot host has its key, so that
# the facts tell whether etcd has data.
mount_known_etcd() {
  [ "$etcd_disk" = ours ] && [ -z "$etcd_mounted" ] || return 0
  [ "$etcd_encrypted" != boot-host ] && [ -n "$mounted" ] || return 0
  mount_etcd "$etcd_filesystem"
}

# Does plan line `bind-etcd DIRECTORY PATH`: mounts a directory of the etcd disk at PATH.
bind_etcd() {
  require_etcd_disk || return 1
  bind_from "$etcd_state" "$1" "$2"
}

# Does plan line `marker-etcd CLUSTER FOUNDING MEMBER MACHINE`: is `marker` for the etcd disk.
write_etcd_marker() {
  require_etcd_disk || return 1
  write_marker_at "$etcd_state" "$1"
}

# Does plan line `clear-etcd CLUSTER FOUNDING MEMBER MACHINE`: removes everything from the etcd
# disk. $1 holds the words. The marker is removed last, as by `clear`.
clear_etcd() {
  require_etcd_disk || return 1
  first_line "$etcd_state/marker"
  [ -n "$first_line" ] || return 0
  require_marker "$1" || return 1
  require_etcd_stopped || return 1
  note_change "$etcd_state" || return 1
  try write-failed remember_founding "$1" "$etcd_state/left" || return 1
  for entry in "$etcd_state"/* "$etcd_state"/.[!.]*; do
    clear_entry "$entry" || return 1
  done
  try clear-failed sync -f "$etcd_state" || return 1
  try clear-failed rm "$etcd_state/marker" || return 1
  try clear-failed sync "$etcd_state"
}
