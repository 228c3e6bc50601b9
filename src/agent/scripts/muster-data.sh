#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the plan's lines about the data filesystem.
# muster-disk.sh decides to whom a disk belongs; this part works with the filesystem on it.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Does plan line `create-data DEVICE UUID [tpm|boot-host]`: makes the filesystem, encrypted if the
# line says so, and mounts it. Where data disk and boot disk are selected by the same words, one
# disk gets a partition for each.
create_data() {
  layout=
  [ "$boot" != "$data" ] || layout=boot
  if [ -n "$3" ]; then
    make_data_key "$2" "$3" || return 1
  fi
  try create-data sh "$here/muster-disk.sh" create "$data" "$1" "$2" "$layout" \
    "$data_key" "$data_token"
  created=$?
  forget_data_key
  [ "$created" = 0 ] || return 1
  mount_data "$2"
}

# Mounts the data filesystem with UUID $1 at /var/lib/muster, and then chooses the identity again.
mount_data() {
  if [ -z "$mounted" ]; then
    note_change "$state" || return 1
  fi
  if [ -n "$encrypted" ] && [ -z "$mounted" ]; then
    get_data_key "$1" "$encrypted" "$device" || return 1
  fi
  try data-mount sh "$here/muster-disk.sh" mount "$data" "$1" "$data_key"
  mount_status=$?
  forget_data_key
  [ "$mount_status" = 0 ] || return 1
  look_at_disk
  choose_identity
}

# Holds unless the data filesystem is mounted.
require_mounted() {
  [ -n "$mounted" ] || hold no-data-filesystem 'the data filesystem is not mounted'
}

# Does plan line `bind DIRECTORY PATH`: mounts a directory of the data filesystem at PATH.
bind() {
  require_mounted || return 1
  bind_from "$state" "$1" "$2"
}

# Mounts directory $2 of the filesystem that is mounted at $1 at path $3.
bind_from() {
  wanted_mount="$(findmnt -nro MAJ:MIN -M "$1") /$2"
  current_mount=$(findmnt -nro MAJ:MIN,FSROOT -M "$root$3")
  [ "$current_mount" != "$wanted_mount" ] || return 0
  if [ -n "$current_mount" ]; then
    hold data-mount "$3 is another mount already: $current_mount"
    return 1
  fi
  make_parent "$1/$2/" || return 1
  make_parent "$root$3/" || return 1
  note_change "$3" || return 1
  try data-mount write_within 60 mount --bind "$1/$2" "$root$3"
}

# Does plan line `marker CLUSTER FOUNDING MEMBER MACHINE`: records the owner of the data filesystem
# on it, or holds if it already has another owner. $1 holds the words.
write_marker() {
  require_mounted || return 1
  write_marker_at "$state" "$1"
}

# Records $2 as the owner of the filesystem that is mounted at $1, or holds if it has another one.
write_marker_at() {
  first_line "$1/marker"
  if [ -z "$first_line" ]; then
    try write-failed write_line "$1/marker" "$2"
  else
    require_marker "$2"
  fi
}

# Holds unless the marker that was just read is $1.
require_marker() {
  [ "$first_line" = "$1" ] || hold foreign-marker "the disk is of $first_line, not of $1"
}

# Does plan line `guard-new UUID`: holds unless filesystem UUID is mounted and holds no etcd data,
# so that a member never begins again over data that it has lost.
guard_new() {
  look_at_wal
  [ "$home_mounted $home_filesystem $wal" != "yes $1 absent" ] || return 0
  guard_text="etcd does not begin again: ${home_mounted:-not} mounted"
  hold guard "$guard_text, filesystem ${home_filesystem:-none} for $1, WAL $wal"
}

# Does plan line `guard-left FOUNDING`: holds if this filesystem was cleared of that founding.
guard_left() {
  find_etcd_home
  ! grep -qxF "$1" "$home_left" 2>/dev/null ||
    hold guard "this disk was cleared of founding $1, and cannot begin it again"
}

# Unmounts whatever is mounted at or below $1, the innermost first. A mount that is seen in two
# places disappears from both at once, so each is looked for again.
unmount_below() {
  findmnt -nro TARGET | tac | while read -r target; do
    case $target in
      "$1" | "$1"/*) ;;
      *) continue ;;
    esac
    findmnt -M "$target" >/dev/null || continue
    write_within 600 umount "$target" || exit 1
  done
}

# Adds the founding that marker $1 names to file $2: this filesystem was granted to begin it once
# and must not begin it again.
remember_founding() {
  left_file=$2
  # shellcheck disable=SC2086 # words
  set -- $1
  {
    [ ! -e "$left_file" ] || cat "$left_file"
    echo "$2"
  } | sort -u >"$run/left" || return 1
  replace "$run/left" 600 "$left_file"
}

# Does plan line `clear CLUSTER FOUNDING MEMBER MACHINE`: removes everything of that cluster from
# the data filesystem and /etc/kubernetes, but not the agent's certificate. $1 holds the words. The
# marker is removed last, so that a clearing that was cut off is continued.
clear_data() {
  require_mounted || return 1
  first_line "$state/marker"
  [ -n "$first_line" ] || return 0
  require_marker "$1" || return 1
  require_etcd_stopped || return 1
  note_change "$state" || return 1
  try clear-failed unmount_below "$root/run/containerd" || return 1
  try clear-failed unmount_below "$run/etcd-image" || return 1
  try write-failed remember_founding "$1" "$state/agent/left" || return 1
  for entry in "$state"/* "$state"/.[!.]*; do
    clear_entry "$entry" || return 1
  done
  rm -rf "$run/requests" || return 1
  try clear-failed rm -rf "$state"/agent/keys/* "$root/etc/kubernetes" || return 1
  try clear-failed sync -f "$state" || return 1
  try clear-failed rm "$state/marker" || return 1
  try clear-failed sync "$state"
}

# Removes entry $1 of a filesystem of ours. Before that, unmounts what is mounted in it, and the
# path below /var/lib at which the entry is bind-mounted.
clear_entry() {
  entry_name=${1##*/}
  case $entry_name in
    agent | marker | left | lost+found) return 0 ;;
  esac
  [ -e "$1" ] || [ -L "$1" ] || return 0
  bound_at=$root/var/lib/$entry_name
  if [ -d "$1" ] && [ "$(findmnt -nro FSROOT -M "$bound_at")" = "/$entry_name" ]; then
    try clear-failed unmount_below "$bound_at" || return 1
  fi
  try clear-failed unmount_below "$1" || return 1
  try clear-failed rm -rf "$1"
}
