#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the plan's lines about snapshots of etcd,
# `snapshot-etcd` and `restore-snapshot`.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# How many octets of a snapshot are sent with one request.
snapshot_part=33554432

# Does plan line `snapshot-etcd ID`: has etcd write a snapshot, sends it to the server while it is
# being written, opens it with etcd's own tool, and says what that found. The snapshot lies on the
# data filesystem meanwhile.
snapshot_etcd() {
  snapshot_directory=$state/snapshot
  try snapshot-failed take_snapshot "$1"
  snapshot_taken=$?
  rm -rf "$snapshot_directory"
  return "$snapshot_taken"
}

# Takes snapshot $1. On failure prints why.
take_snapshot() {
  find_etcd_programs || return 1
  rm -rf "$snapshot_directory"
  mkdir -p "$snapshot_directory" || return 1
  find_etcd_home
  database=$(stat -c %s "$etcd_home/etcd/member/snap/db") || return 1
  available=$(($(stat -f -c %a "$state") * $(stat -f -c %S "$state")))
  if [ "$available" -lt $((database + 67108864)) ]; then
    echo "$state has no room for a copy of etcd's data: $available octets are free, and the data \
are $database octets; free space or use a larger data disk"
    return 1
  fi
  write_snapshot >"$snapshot_directory/log" 2>&1 &
  if ! send_snapshot "$1" $!; then
    kill $! 2>/dev/null
    return 1
  fi
  if wait $! && end_snapshot "$1"; then
    return 0
  fi
  tail -n 2 "$snapshot_directory/log"
  return 1
}

# Finds the programs of the etcd that runs here, which may be in its container, and puts them first
# into PATH.
find_etcd_programs() {
  for comm_file in "$root"/proc/[0-9]*/comm; do
    first_line "$comm_file"
    [ "$first_line" = etcd ] || continue
    is_of_this_host "${comm_file%/comm}" || continue
    programs=${comm_file%/comm}/root
    PATH=$programs/usr/local/bin:$programs/usr/bin:$programs/bin:$PATH
  done
  command -v etcdctl >/dev/null && return 0
  echo 'there is no etcdctl, neither next to the etcd that runs nor on this machine'
  return 1
}

# Has etcd write a snapshot and checks it; the last of it is sent during the check.
write_snapshot() {
  save_snapshot && check_snapshot
}

# Has etcd write a snapshot to $snapshot_directory/db; until it is complete its name is db.part.
save_snapshot() {
  etcd_pki=$root/etc/kubernetes/pki/etcd
  ETCDCTL_API=3 etcdctl --endpoints "$etcd_client_url" --cacert "$etcd_pki/ca-bundle.crt" \
    --cert "$etcd_pki/healthcheck-client.crt" --key "$etcd_pki/healthcheck-client.key" \
    --command-timeout 2h snapshot save "$snapshot_directory/db" 9>&- || return 1
  touch "$snapshot_directory/saved"
}

# Sends the snapshot with id $1 in parts, while process $2 writes it.
send_snapshot() {
  snapshot_sent=0
  while :; do
    snapshot_ended=yes
    if [ ! -e "$snapshot_directory/saved" ]; then
      snapshot_ended=
      if ! kill -0 "$2" 2>/dev/null && [ ! -e "$snapshot_directory/saved" ]; then
        return 0
      fi
    fi
    snapshot_file=$snapshot_directory/db
    [ -n "$snapshot_ended" ] || snapshot_file=$snapshot_file.part
    snapshot_size=$(stat -c %s "$snapshot_file" 2>/dev/null) || snapshot_size=0
    snapshot_left=$((snapshot_size - snapshot_sent))
    if [ "$snapshot_left" -ge "$snapshot_part" ]; then
      snapshot_left=$snapshot_part
    elif [ -z "$snapshot_ended" ]; then
      sleep 0.1
      continue
    fi
    [ "$snapshot_left" -gt 0 ] || return 0
    tail -c "+$((snapshot_sent + 1))" "$snapshot_file" 2>/dev/null |
      head -c "$snapshot_left" |
      send_part "$1" || return 1
    snapshot_sent=$((snapshot_sent + snapshot_left))
  done
}

# Sends standard input as the part of snapshot $1 that begins at octet $snapshot_sent.
send_part() {
  ask "/agent/snapshot/part?id=$1&offset=$snapshot_sent&expected=$database" \
    --cert "$identity/agent.crt" --key "$identity/agent.key" \
    --header 'Content-Type: application/octet-stream' --header 'Expect:' --upload-file -
  [ "$http_status" = 200 ] && return 0
  echo "$asked_url: $http_status $answer_text $(head -c 300 "$run/body" 2>/dev/null)"
  return 1
}

# Opens the snapshot with etcd's own tool, which computes a hash over all keys. etcd 3.4 has no
# etcdutl.
check_snapshot() {
  checker=etcdutl
  command -v etcdutl >/dev/null || checker=etcdctl
  ETCDCTL_API=3 "$checker" --write-out json snapshot status "$snapshot_directory/db" \
    >"$snapshot_directory/status" 9>&-
}

# Tells the server what the check of snapshot $1 found, which makes the snapshot count.
end_snapshot() {
  snapshot_size=$(stat -c %s "$snapshot_directory/db") || return 1
  snapshot_version=$(etcdctl version | sed -n 's/^etcdctl version: *//p')
  ask /agent/snapshot/end --cert "$identity/agent.crt" --key "$identity/agent.key" \
    --data-urlencode "id=$1" --data-urlencode "size=$snapshot_size" \
    --data-urlencode "etcd=$snapshot_version" \
    --data-urlencode "status@$snapshot_directory/status"
  [ "$http_status" = 204 ] && return 0
  echo "$asked_url: $http_status $answer_text $(head -c 300 "$run/body")" \
    >>"$snapshot_directory/log"
  return 1
}

# Does plan line `restore-snapshot CLUSTER FROM TO MEMBER MACHINE ADDRESS PROGRAM BUMP ID [IMAGE]`:
# makes snapshot ID the data of founding TO with MEMBER as the only member. Data of founding FROM
# that are there stay as etcd.before-TO; the marker is written last. The directories that exist show
# which steps were done, so a restore that was cut off is continued.
restore_snapshot() {
  etcd_snapshot=$9
  require_etcd_home || return 1
  set_restore "$1" "$3" "$4" "$5" "$6" "$7" "$8" "${10:-}"
  first_line "$etcd_home/marker"
  [ "$first_line" != "$marker_after" ] || return 0
  if [ -n "$first_line" ] || [ -e "$etcd_home/etcd/member" ]; then
    [ -e "$etcd_before" ] || require_marker "$1 $2 $4 $5" || return 1
  fi
  finish_restore
}

# Makes $etcd_restored.part, the data directory of a cluster of one member, from snapshot
# $etcd_snapshot, which the server sends.
restore_from_server() {
  mkdir -p "$etcd_copy" || return 1
  if ! curl -q --silent --show-error --fail-with-body --http1.1 --proto =https --tlsv1.2 \
    --noproxy '*' --cacert "$etc/ca.crt" --capath "$run/none" --connect-timeout 10 \
    --speed-time 60 --speed-limit 1000 --cert "$identity/agent.crt" --key "$identity/agent.key" \
    --data-urlencode "id=$etcd_snapshot" --output "$etcd_copy/snapshot.db" \
    "$server/agent/snapshot/get"
  then
    head -c 300 "$etcd_copy/snapshot.db" 2>/dev/null
    return 1
  fi
  restore_database "$etcd_copy/snapshot.db"
}
