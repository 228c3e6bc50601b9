#!/bin/sh
# The agent of a machine in a Muster cluster: says what is, and does what the plan says. It decides
# nothing.
#
#     muster-agent.sh [once | inline]
#
# src/agent/README.md of Muster tells what is said and what a plan holds. `once` polls once: exit 0
# when no hold is left to say; `inline` does the plan that came with the first configuration, and
# asks nobody. MUSTER_ROOT stands before every path, so that several agents run on one host. Needs
# curl, openssl, tar, coreutils, util-linux. Every change is staged, synced and renamed, so it may
# be killed anywhere: run again, it ends in the same state.
set -u
umask 077
LC_ALL=C
export LC_ALL
unset SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE CURL_HOME OPENSSL_CONF

version=1
root=$(readlink -f "${MUSTER_ROOT:-/}")
root=${root%/}
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
state=$root/var/lib/muster
run=$root/run/muster
etc=$root/etc/muster
cr=$(printf '\r')

# --- small things

say() {
  printf 'muster-agent: %s\n' "$1" >&2
}

# Ends the plan; the first reason counts. The one that ended the last plan was said then.
hold() {
  [ -n "$hold_code" ] || {
    hold_code=$1 hold_text=$(printf '%s' "$2" | tr -s '\0-\37\177' ' ' | head -c 400)
    [ "$hold_code $hold_text" = "$plan_code $plan_text" ] || say "$1: $hold_text"
  }
  return 1
}

# Runs the rest. If it fails, hold $1 with what it said.
try() {
  try_code=$1
  shift
  # What a service manager starts must not keep our files open, the lock above all.
  try_said=$("$@" 2>&1 3>&- 9>&-) || hold "$try_code" "${try_said:-$1 failed}"
}

# The first line of file $1 as `value`; empty when there is none.
first_line() {
  value=
  { [ -r "$1" ] && read -r value <"$1"; } 2>/dev/null
  :
}

setting() {
  value=
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in "$1="*) value=${line#*=} ;; esac
  done <"$etc/agent.conf"
}

# SHA-256 of file $1 as `value`.
sum() {
  value=$(sha256sum <"$1") && value=${value%% *}
}

number() {
  case $1 in '' | *[!0-9]* | ????????????????*) return 1 ;; esac
}

# The directory of $1, readable for others.
above() {
  [ -d "${1%/*}" ] || (umask 022 && mkdir -p "${1%/*}")
}

# File $1 becomes $3 with mode $2.
replace() {
  new=${3%/*}/.muster-new.${3##*/}
  above "$3" && rm -rf "$new" && cp "$1" "$new" && chmod "$2" "$new" && sync "$new" && mv -fT "$new" "$3" && sync "${3%/*}" && return 0
  rm -f "$new"
  return 1
}

# Text $2 becomes file $1, for the agent alone.
keep() {
  printf '%s\n' "$2" >"$run/keep" && replace "$run/keep" 600 "$1"
}

# Said before path $1 changes: what runs is no longer sure to be up to date, and the service manager
# may have to read units again.
changing() {
  [ -e "$run/changed" ] || try write-failed touch "$run/changed" || return 1
  case $1 in */systemd/system/*) try write-failed touch "$run/daemon-reload" ;; esac
}

# --- the data filesystem

# Sets disk, device, filesystem, mounted, detail.
look() {
  disk=none device='' filesystem='' mounted='' detail='muster-disk.sh said nothing'
  found=$(sh "$here/muster-disk.sh" look "$data")
  while IFS='=' read -r name value; do
    case $name in disk) disk=$value ;; device) device=$value ;; filesystem) filesystem=$value ;; mounted) mounted=$value ;; detail) detail=$value ;; esac
  done <<FOUND
$found
FOUND
}

mount_data() {
  [ -n "$mounted" ] || changing "$state" || return 1
  try data-mount sh "$here/muster-disk.sh" mount "$data" "$1" && look && settle
}

# Sets wal: whether etcd has one.
wal() {
  wal=absent
  [ -z "$data" ] || [ -n "$mounted" ] || wal=unknown
  for file in "$state"/etcd/member/wal/*.wal; do [ ! -e "$file" ] || wal=present; done
}

# A member without quorum answers in five seconds, so one that takes its time is alive.
etcd_health() {
  etcd=alive
  found=$(curl -q --silent --noproxy '*' --max-time 2 --output /dev/null --write-out '%{http_code}' "$etcd_url/health")
  case $?$found in 7*) etcd=down ;; 0200) etcd=serving ;; esac
}

# Sets etcdrev and apirev: what their processes were started with; empty when none runs, - when it
# does not say.
revisions() {
  etcdrev='' apirev=''
  for file in "$root"/proc/[0-9]*/comm; do
    first_line "$file"
    case $value in etcd | kube-apiserver) ;; *) continue ;; esac
    name=$value value=$(tr '\0\n' '\n ' 2>/dev/null <"${file%comm}environ" | sed -n 's/^MUSTER_REVISION=\([0-9a-f]\{1,64\}\)$/\1/p')
    if [ "$name" = etcd ]; then etcdrev=${value:--}; else apirev=${value:--}; fi
  done
}

# An apiserver that lets nobody ask without a name is taken at its word that it answers.
api_health() {
  api=''
  [ -n "$apirev" ] || return 0
  api=alive
  case $(curl -q --silent --noproxy '*' --max-time 2 --cacert "$root/etc/kubernetes/pki/ca-bundle.crt" --capath "$run/none" \
    --output /dev/null --write-out '%{http_code}' "$api_url/readyz") in 200 | 401) api=ready ;; esac
}

# --- keys and certificates

# Sets home, where keys lie: on the data filesystem if it is this machine's, else where they are
# lost at reboot.
settle() {
  home=$run/agent
  mkdir -p "$home/keys"
  [ -z "$data" ] || [ -n "$mounted" ] || return 0
  first_line "$state/marker"
  # Another machine's disk: its certificate is not ours, and nothing is written to it.
  case "$value " in ' ' | *" $machine ")
    if [ ! -e "$state/agent" ]; then
      printf '%s\n' "$machine" >"$home/owner" && above "$state/agent" && rm -rf "$state/.agent" && cp -R "$home" "$state/.agent" &&
        sync -f "$state" && mv -T "$state/.agent" "$state/agent" && sync "$state"
    fi ;;
  esac
  first_line "$state/agent/owner"
  [ "$value" = "$machine" ] || return 0
  # The disk came late, and by then this boot had redeemed its ticket: only the newer certificate
  # counts. Cut off between the two, the next poll does it again.
  if [ -s "$home/agent.crt" ] && ! cmp -s "$home/agent.crt" "$state/agent/agent.crt"; then
    replace "$home/agent.key" 600 "$state/agent/agent.key" && replace "$home/agent.crt" 600 "$state/agent/agent.crt" || return 0
    rm -f "$run"/pin.*
  fi
  rm -rf "$home" && home=$state/agent
  # Of a power cut while one was replaced; keys among them.
  for file in "$home"/.muster-new.* "$home"/keys/.muster-new.* "$state"/kept/.muster-new.*; do
    [ ! -e "$file" ] || rm -rf "$file"
  done
}

# A key by algorithm $1 in file $2, unless one is there.
make_key() {
  [ ! -s "$2" ] || return 0
  name=${2##*/}
  rm -f "$run/pin.${name%.key}"
  case $1 in
    ECDSA-P256) try key-failed openssl ecparam -genkey -name prime256v1 -noout -out "$run/key" ;;
    RSA-*) try key-failed openssl genpkey -quiet -algorithm RSA -pkeyopt "rsa_keygen_bits:${1#RSA-}" -out "$run/key" ;;
  esac && try key-failed replace "$run/key" 600 "$2" && rm -f "$run/key"
}

# A certificate request of key $1 in $2. Whose it is decides the server.
make_request() {
  printf '[req]\ndistinguished_name=dn\n[dn]\n' >"$run/req.cnf" &&
    try key-failed openssl req -new -sha256 -config "$run/req.cnf" -key "$1" -subj "/CN=$machine" -out "$2"
}

# SHA-256 of the public key of key $1 in $home/keys as `value`. A control plane has a dozen and says
# them with every poll: it is remembered.
pin() {
  first_line "$run/pin.$1"
  [ -z "$value" ] || return 0
  openssl pkey -in "$home/keys/$1.key" -pubout -outform DER -out "$run/pin" && sum "$run/pin" && keep "$run/pin.$1" "$value"
}

# Whether certificate $1 is of our CA and our key. When it ends is for the server to judge: our
# clock may be wrong. Looked at again when one of the three is another.
believed() {
  seen=$(cat "$etc/ca.crt" "$home/agent.key" "$1" | sha256sum)
  [ "$seen" != "$sure" ] || return 0
  openssl verify -no_check_time -CAfile "$etc/ca.crt" "$1" >/dev/null 2>&1 &&
    [ "$(openssl x509 -in "$1" -noout -pubkey)" = "$(openssl pkey -in "$home/agent.key" -pubout)" ] && sure=$seen
}

redeem() {
  setting ticket
  [ -n "$value" ] || { say 'there is no ticket' && return 1; }
  printf '%s' "$value" >"$run/ticket" && make_key ECDSA-P256 "$home/agent.key" && make_request "$home/agent.key" "$run/agent.csr" || return 1
  ask /agent/redeem --data-urlencode "session=$session" --data-urlencode "ticket@$run/ticket" --data-urlencode "csr@$run/agent.csr"
  rm -f "$run/ticket"
  [ "$status" = 200 ] || { say "no certificate for the ticket: $status $said" && return 1; }
  believed "$run/body" || { say 'the certificate for the ticket is not one of our CA for our key' && return 1; }
  replace "$run/body" 600 "$home/agent.crt"
}

# --- talking

# Posts to path $1 with further arguments of curl: sets status (000 when there is no answer), said,
# retry; the body is in $run/body.
ask() {
  to=$server$1
  shift
  rm -f "$run/headers" "$run/body"
  said=$(curl -q --silent --show-error --http1.1 --proto =https --tlsv1.2 --noproxy '*' --cacert "$etc/ca.crt" --capath "$run/none" \
    --connect-timeout 10 --max-time 120 --dump-header "$run/headers" --output "$run/body" --write-out '%{http_code}' "$@" "$to" 2>&1)
  failed=$?
  status=${said#"${said%???}"} said=${said%???} retry=
  [ "$failed" = 0 ] || status=000
  [ "$failed" != 60 ] || unbelieved
  [ -r "$run/headers" ] || return 0
  while IFS=': ' read -r name value; do
    value=${value%"$cr"}
    number "$value" || continue
    case $name in
      [Rr]etry-[Aa]fter) retry=$value ;;
      [Mm]uster-[Tt]ime) [ "$value" -le $(($(date +%s) + 60)) ] || set_clock "$value" ;;
      [Mm]uster-[Rr]evision) [ "$value" -le "$revision" ] || { revision=$value && keep "$home/revision" "$value"; } ;;
    esac
  done <"$run/headers"
}

# The server's certificate is not valid here: the CA or the clock is wrong. Only the way of boot
# reports is left to say so, once.
unbelieved() {
  [ -e "$run/unbelieved" ] || [ ! -r "$etc/muster-report.sh" ] ||
    { touch "$run/unbelieved" && sh "$etc/muster-report.sh" failed "the agent does not believe the certificate of $server; its clock says $(date -u +%Y-%m-%dT%H:%MZ): $said" 9>&- & }
}

set_clock() {
  setting clock
  [ "$value" != set ] || { say "the clock was $(date +%s) and is set to $1" && date -s "@$1" >/dev/null; }
}

# Without a clock there is no TLS. A first configuration that was written since this boot says the
# time at which it was made. It was written later, on a slow machine by many minutes: who is ahead
# of it is set back only when that explains it no longer. One from the boot disk is of an earlier
# day.
first_clock() {
  setting time
  made=$value
  first_line "$root/proc/uptime"
  age=$(($(date +%s) - $(stat -c %Y "$etc/agent.conf")))
  number "$made" && number "${value%%.*}" && [ "$age" -ge 0 ] && [ "$age" -le "${value%%.*}" ] || return 0
  behind=$((made + age - $(date +%s)))
  if [ "$behind" -gt 60 ] || { [ -z "$started" ] && [ "$behind" -lt -1800 ]; }; then set_clock $((made + age)); fi
}

poll() {
  hold_code=$plan_code hold_text=$plan_text
  look
  [ "$disk" != ours ] || [ -n "$mounted" ] || mount_data "$filesystem"
  settle
  { [ -s "$home/agent.crt" ] && believed "$home/agent.crt"; } || redeem || return 1
  first_line "$home/revision"
  ! number "$value" || [ "$value" -le "$revision" ] || revision=$value
  wal
  etcd_health
  revisions
  api_health
  bootdisk=''
  [ -z "$boot" ] || { first_line "$run/bootdisk" && bootdisk=${started:-$value}; }
  [ -z "$mounted" ] || first_line "$state/marker"
  set -- agent="$version" clock="$(date +%s)" disk="$disk" device="$device" filesystem="$filesystem" mounted="$mounted" detail="$detail" \
    marker="${mounted:+$value}" wal="$wal" etcd="$etcd" etcdrev="$etcdrev" api="$api" apirev="$apirev" revision="$revision" hold="$hold_code" holdtext="$hold_text" \
    bootdisk="${bootdisk%% *}" boottext="${bootdisk#* }"
  for name in bootid:proc/sys/kernel/random/boot_id machineid:etc/machine-id applied:run/muster/applied step:run/muster/step objects:run/muster/objects \
    joined:var/lib/kubelet/pki/kubelet-client-current.pem; do
    first_line "$root/${name#*:}"
    set -- "$@" "${name%%:*}=$value"
  done
  for file in "$home"/keys/*.key; do
    name=${file##*/} name=${name%.key}
    [ ! -s "$file" ] || { pin "$name"; set -- "$@" "pin.$name=$value"; }
  done
  for file in "$run"/requests/*; do
    [ ! -s "$file" ] || set -- "$@" "csr.${file##*/}@$file"
  done
  for name in "$@"; do
    set -- "$@" --data-urlencode "$name"
    shift
  done
  ask /agent/poll --cert "$home/agent.crt" --key "$home/agent.key" "$@"
  case $status in
    200) apply ;;
    204) ;;
    401) redeem && return 1 ;;
    *) say "$to: $status $said" && return 1 ;;
  esac
}

# When the machine goes down, the server is told, so that the next boot need not wait until this one
# was silent for a while. Who only stops the agent tells nothing.
leave() {
  trap '' TERM
  if [ "$(systemctl is-system-running 2>/dev/null)" = stopping ] && [ -s "$home/agent.crt" ]; then
    first_line "$root/proc/sys/kernel/random/boot_id"
    ask /agent/leave --cert "$home/agent.crt" --key "$home/agent.key" --connect-timeout 3 --max-time 5 --data-urlencode "bootid=$value"
  fi
  exit 0
}

# The plan of the first configuration. What it lacks may come yet, so it is tried for a minute; then
# it is said where boot reports go.
inline() {
  [ -e "$etc/inline.tar" ] || exit 0
  for pause in 2 4 8 16 30 0; do
    look
    settle
    if cp "$etc/inline.tar" "$run/body" && apply; then rm -f "$etc/inline.tar" && exit 0; fi
    sleep "$pause"
  done
  [ ! -r "$etc/muster-report.sh" ] || sh "$etc/muster-report.sh" failed "$plan_code: $plan_text" 9>&-
  exit 1
}

# --- the loop

# shellcheck source=/dev/null
. "$here/muster-plan.sh"
# shellcheck source=/dev/null
. "$here/muster-kept.sh"
[ -r "$etc/agent.conf" ] || { say "there is no $etc/agent.conf" && exit 1; }
setting server && server=$value
setting machine && machine=$value
setting session && session=$value
setting data && data=$value
setting etcd && etcd_url=${value:-http://127.0.0.1:2381}
setting boot && boot=$value
setting api && api_url=${value:-https://127.0.0.1:6443}
revision=0 worse=0 status='' retry='' sure='' home=$run/agent
hold_code='' hold_text=''
# Whether this boot is from the machine's own boot disk.
case " $(cat "$root/proc/cmdline" 2>/dev/null)" in *' muster.kept='*) started='started this boot is from it: the boot server did not answer' ;; *) started= ;; esac
mkdir -p "$run"
# Two would take each other's plan away; a person's `once` waits for nobody.
exec 9>"$run/lock"
flock -n 9 || { say 'another agent runs already' && exit 1; }
rm -rf "$run/plan" "$run/ticket" "$run/key"
self=$(cat "$0" "$here/muster-plan.sh" "$here/muster-kept.sh" | sha256sum)
first_line "$run/hold"
plan_code=${value%% *} plan_text=${value#* }
first_clock
[ "${1:-}" != inline ] || inline
trap leave TERM
[ -z "$boot" ] || [ -n "$started" ] || sh "$here/muster-boot.sh" seed 9>&-
while :; do
  if poll; then worse=0; else worse=$((worse < 6 ? worse + 1 : 6)) && unanswered; fi
  keep_boot
  [ "${1:-}" != once ] || { [ -z "$hold_code" ] && [ "$worse" = 0 ]; exit; }
  # A new agent may have come with the plan.
  [ "$status" != 200 ] || [ "$(cat "$0" "$here/muster-plan.sh" "$here/muster-kept.sh" | sha256sum)" = "$self" ] || exec sh "$0"
  # As long as the server says, at least 2^failures seconds, never more than five minutes; and up to
  # a quarter more, so that a thousand machines do not ask at once.
  pause=${retry:-10} least=$(((1 << worse) - 1))
  [ "$pause" -ge "$least" ] || pause=$least
  [ "$pause" -le 300 ] || pause=300
  random=$(od -An -N2 -tu2 /dev/urandom)
  sleep "$pause.$((random % 10))" && sleep $((random % (pause / 4 + 1)))
done
