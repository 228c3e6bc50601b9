#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the plan's lines that end etcd or change its
# data, `set-aside-etcd`, `end-etcd` and `restore-etcd`.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Whether etcd has ended: its port closes first, the lock of its database ends with the process.
etcd_has_ended() {
  look_at_etcd
  [ "$etcd" = down ] || return 1
  find_etcd_home
  [ -e "$etcd_home/etcd/member/snap/db" ] || return 0
  flock -n "$etcd_home/etcd/member/snap/db" true
}

# Holds unless etcd has ended.
require_etcd_stopped() {
  etcd_has_ended ||
    hold etcd-runs 'etcd still answers, or has its data open; they are not touched'
}

# Does plan line `set-aside-etcd MEMBER`: moves etcd's data to etcd.removed-MEMBER. That directory
# also records that it was done, so that data which come later are not moved.
set_aside_etcd() {
  if [ -n "$data" ]; then
    require_etcd_home || return 1
  fi
  removed=$etcd_home/etcd.removed-$1
  [ ! -e "$removed" ] || return 0
  require_etcd_stopped || return 1
  if [ -e "$etcd_home/etcd" ]; then
    try write-failed mv -T "$etcd_home/etcd" "$removed" || return 1
  else
    try write-failed mkdir -p "$removed" || return 1
  fi
  try write-failed sync "$etcd_home"
}

# Does plan line `end-etcd MACHINE`: ends static pod etcd-MACHINE, whose manifest was removed
# before. kubelet is stopped meanwhile, because it may not have noticed that yet.
end_etcd() {
  kubelet_ran=
  if systemctl is-active --quiet kubelet.service; then
    kubelet_ran=yes
    try unit-failed write_within 900 systemctl stop kubelet.service || return 1
  fi
  end_pod "$1" 3
  if [ -n "$kubelet_ran" ]; then
    try unit-failed change_unit start kubelet.service || return 1
  fi
  require_etcd_stopped
}

# Ends the container of static pod etcd-$1 as kubelet would: sends SIGTERM every five seconds,
# SIGKILL after 30, and gives up after 40. Returns once $2 checks in a row, half a second apart,
# found that the pod has ended. kubelet itself ends no container until it has seen the API since it
# started.
end_pod() {
  look_count=0
  looks_in_row=0
  end_signal=SIGTERM
  while [ "$look_count" -lt 80 ]; do
    [ "$look_count" -lt 60 ] || end_signal=SIGKILL
    if pod_has_ended "$1" "$2"; then
      looks_in_row=$((looks_in_row + 1))
    else
      looks_in_row=0
    fi
    [ "$looks_in_row" -lt "$2" ] || return 0
    if [ "$looks_in_row" = 0 ] && [ $((look_count % 10)) = 0 ]; then
      end_containers "$1" "$end_signal"
    fi
    look_count=$((look_count + 1))
    sleep 0.5
  done
}

# Whether static pod etcd-$1 has ended. $2 is the number of checks in a row that are wanted. If it
# is not 1, a container that may be about to start etcd counts as running too.
pod_has_ended() {
  etcd_has_ended || return 1
  [ "$2" != 1 ] || return 0
  [ -z "$(pod_containers "$1")" ]
}

# Sends signal $2 to the running containers of static pod etcd-$1.
end_containers() {
  for container_id in $(pod_containers "$1"); do
    end_container "$container_id" "$2"
  done
}

# Does plan line `restore-etcd CLUSTER FROM TO MEMBER MACHINE ADDRESS PROGRAM BUMP [IMAGE]`: turns
# the data of founding FROM into data of founding TO with MEMBER as the only member. A copy of the
# data is replayed and restored; the old ones stay as etcd.before-TO; the marker is rewritten last.
# The directories that exist show which steps were done, so a restore that was cut off is continued.
restore_etcd() {
  etcd_snapshot=
  require_etcd_home || return 1
  set_restore "$1" "$3" "$4" "$5" "$6" "$7" "$8" "${9:-}"
  first_line "$etcd_home/marker"
  [ "$first_line" != "$marker_after" ] || return 0
  require_marker "$1 $2 $4 $5" || return 1
  finish_restore
}

# Sets the variables of a restore to founding $2 of cluster $1: member $3, machine $4, address $5,
# program $6, bump $7, image $8.
set_restore() {
  marker_after="$1 $2 $3 $4"
  founding_after=$2
  member=$3
  static_pod=$4
  member_address=$5
  restore_program=$6
  revision_bump=$7
  etcd_image=$8
  etcd_copy=$etcd_home/etcd.copy
  etcd_restored=$etcd_home/etcd.restored-$2
  etcd_before=$etcd_home/etcd.before-$2
}

# Does the restore that set_restore described, or what is left of it.
finish_restore() {
  [ -z "$etcd_image" ] || end_pod "$static_pod" 1
  require_etcd_stopped || return 1
  if [ ! -e "$etcd_before" ] && [ ! -e "$etcd_restored" ]; then
    make_restored_data || return 1
  fi
  swap_etcd_data || return 1
  if [ -n "$etcd_image" ]; then
    try restore-failed unmount_image || return 1
  fi
  try write-failed rm -rf "$etcd_copy" "$etcd_restored" || return 1
  try write-failed sync -f "$etcd_home" || return 1
  try write-failed write_line "$etcd_home/marker" "$marker_after"
}

# Makes $etcd_restored, a data directory of the new founding, from a copy of etcd's data or from
# snapshot $etcd_snapshot. The rename at the end makes it count.
make_restored_data() {
  if [ -n "$etcd_image" ]; then
    try restore-failed mount_image "$etcd_image" || return 1
  fi
  try write-failed rm -rf "$etcd_copy" "$etcd_restored.part" || return 1
  if [ -n "$etcd_snapshot" ]; then
    try restore-failed with_etcd_programs restore_from_server || return 1
  else
    try write-failed cp -a "$etcd_home/etcd" "$etcd_copy" || return 1
    try restore-failed with_etcd_programs replay_log || return 1
    try restore-failed with_etcd_programs restore_database "$etcd_copy/member/snap/db" \
      --skip-hash-check || return 1
  fi
  try write-failed sync -f "$etcd_home" || return 1
  try write-failed mv -T "$etcd_restored.part" "$etcd_restored"
}

# Puts the restored data in the place of the old ones, which become $etcd_before. Where there were
# none, $etcd_before is empty.
swap_etcd_data() {
  if [ ! -e "$etcd_before" ]; then
    if [ -e "$etcd_home/etcd/member" ]; then
      try write-failed mv -T "$etcd_home/etcd/member" "$etcd_before" || return 1
    else
      try write-failed mkdir -p "$etcd_before" "$etcd_home/etcd" || return 1
    fi
  fi
  if [ ! -e "$etcd_home/etcd/member" ]; then
    try write-failed mv -T "$etcd_restored/member" "$etcd_home/etcd/member"
  fi
}

# Runs etcd on $etcd_copy alone until its database holds everything that its log holds. It listens
# on sockets in that directory and nowhere else. On failure prints the end of etcd's log.
replay_log() {
  cd "$etcd_copy" || return 1
  etcd --name "$member" --data-dir "$etcd_copy" --force-new-cluster \
    --listen-client-urls unix://client:0 --advertise-client-urls unix://client:0 \
    --listen-peer-urls unix://peer:0 --initial-advertise-peer-urls unix://peer:0 \
    --initial-cluster "$member=unix://peer:0" >"$etcd_copy/replay.log" 2>&1 &
  etcd_process=$!
  look_count=0
  until replay_is_healthy; do
    look_count=$((look_count + 1))
    if [ "$look_count" -gt 600 ] || ! kill -0 "$etcd_process" 2>/dev/null; then
      kill -KILL "$etcd_process" 2>/dev/null
      # Until it has ended, its image cannot be unmounted.
      wait "$etcd_process" 2>/dev/null
      tail -n 3 "$etcd_copy/replay.log"
      return 1
    fi
    sleep 0.1
  done
  kill "$etcd_process" && wait "$etcd_process"
  :
}

# Whether the etcd that replay_log started answers that it is healthy.
replay_is_healthy() {
  curl -q --silent --max-time 2 --unix-socket client:0 http://localhost/health 2>/dev/null |
    grep -q true
}

# Makes $etcd_restored.part, the data directory of a cluster of one member, from database $1, with
# arguments $2 and so on. ETCDCTL_API=3, because etcdctl before 3.4 has `snapshot` only with it.
restore_database() {
  case $member_address in
    *:*) peer_url=https://[$member_address]:2380 ;;
    *) peer_url=https://$member_address:2380 ;;
  esac
  set -- "$@" --name "$member" --data-dir "$etcd_restored.part"
  set -- "$@" --initial-cluster "$member=$peer_url" --initial-advertise-peer-urls "$peer_url"
  set -- "$@" --initial-cluster-token "muster-$founding_after"
  if [ "$revision_bump" != 0 ]; then
    set -- "$@" --bump-revision "$revision_bump" --mark-compacted
  fi
  ETCDCTL_API=3 "$restore_program" snapshot restore "$@"
}
