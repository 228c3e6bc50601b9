/**
 * The agent's scripts and units as they are written into configurations: `make docs` makes this of the files beside it, which
 * shellcheck reads and the tests run.
 */

export const AGENT_SCRIPT = `#!/bin/sh
# The agent of a machine in a Muster cluster: says what is, and does what the plan says. It decides
# nothing.
#
#     muster-agent.sh [once | inline]
#
# src/agent/README.md of Muster tells what is said and what a plan holds. \`once\` polls once: exit 0
# when no hold is left to say; \`inline\` does the plan that came with the first configuration, and
# asks nobody. MUSTER_ROOT stands before every path, so that several agents run on one host. Needs
# curl, openssl, tar, coreutils, util-linux. Every change is staged, synced and renamed, so it may
# be killed anywhere: run again, it ends in the same state.
set -u
umask 077
LC_ALL=C
export LC_ALL
unset SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE CURL_HOME OPENSSL_CONF

version=1
root=$(readlink -f "\${MUSTER_ROOT:-/}")
root=\${root%/}
case $0 in */*) here=\${0%/*} ;; *) here=. ;; esac
state=$root/var/lib/muster
run=$root/run/muster
etc=$root/etc/muster
cr=$(printf '\\r')

# --- small things

say() {
  printf 'muster-agent: %s\\n' "$1" >&2
}

# Ends the plan; the first reason counts. The one that ended the last plan was said then.
hold() {
  [ -n "$hold_code" ] || {
    hold_code=$1 hold_text=$(printf '%s' "$2" | tr -s '\\0-\\37\\177' ' ' | head -c 400)
    [ "$hold_code $hold_text" = "$plan_code $plan_text" ] || say "$1: $hold_text"
  }
  return 1
}

# Runs the rest. If it fails, hold $1 with what it said.
try() {
  try_code=$1
  shift
  # What a service manager starts must not keep our files open, the lock above all.
  try_said=$("$@" 2>&1 3>&- 9>&-) || hold "$try_code" "\${try_said:-$1 failed}"
}

# The first line of file $1 as \`value\`; empty when there is none.
first_line() {
  value=
  { [ -r "$1" ] && read -r value <"$1"; } 2>/dev/null
  :
}

setting() {
  value=
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in "$1="*) value=\${line#*=} ;; esac
  done <"$etc/agent.conf"
}

# SHA-256 of file $1 as \`value\`.
sum() {
  value=$(sha256sum <"$1") && value=\${value%% *}
}

number() {
  case $1 in '' | *[!0-9]* | ????????????????*) return 1 ;; esac
}

# The directory of $1, readable for others.
above() {
  [ -d "\${1%/*}" ] || (umask 022 && mkdir -p "\${1%/*}")
}

# File $1 becomes $3 with mode $2.
replace() {
  new=\${3%/*}/.muster-new.\${3##*/}
  above "$3" && rm -rf "$new" && cp "$1" "$new" && chmod "$2" "$new" && sync "$new" && mv -fT "$new" "$3" && sync "\${3%/*}" && return 0
  rm -f "$new"
  return 1
}

# Text $2 becomes file $1, for the agent alone.
keep() {
  printf '%s\\n' "$2" >"$run/keep" && replace "$run/keep" 600 "$1"
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
    name=$value value=$(tr '\\0\\n' '\\n ' 2>/dev/null <"\${file%comm}environ" | sed -n 's/^MUSTER_REVISION=\\([0-9a-f]\\{1,64\\}\\)$/\\1/p')
    if [ "$name" = etcd ]; then etcdrev=\${value:--}; else apirev=\${value:--}; fi
  done
}

# An apiserver that lets nobody ask without a name is taken at its word that it answers.
api_health() {
  api=''
  [ -n "$apirev" ] || return 0
  api=alive
  case $(curl -q --silent --noproxy '*' --max-time 2 --cacert "$root/etc/kubernetes/pki/ca-bundle.crt" --capath "$run/none" \\
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
      printf '%s\\n' "$machine" >"$home/owner" && above "$state/agent" && rm -rf "$state/.agent" && cp -R "$home" "$state/.agent" &&
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
  name=\${2##*/}
  rm -f "$run/pin.\${name%.key}"
  case $1 in
    ECDSA-P256) try key-failed openssl ecparam -genkey -name prime256v1 -noout -out "$run/key" ;;
    RSA-*) try key-failed openssl genpkey -quiet -algorithm RSA -pkeyopt "rsa_keygen_bits:\${1#RSA-}" -out "$run/key" ;;
  esac && try key-failed replace "$run/key" 600 "$2" && rm -f "$run/key"
}

# A certificate request of key $1 in $2. Whose it is decides the server.
make_request() {
  printf '[req]\\ndistinguished_name=dn\\n[dn]\\n' >"$run/req.cnf" &&
    try key-failed openssl req -new -sha256 -config "$run/req.cnf" -key "$1" -subj "/CN=$machine" -out "$2"
}

# SHA-256 of the public key of key $1 in $home/keys as \`value\`. A control plane has a dozen and says
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
  said=$(curl -q --silent --show-error --http1.1 --proto =https --tlsv1.2 --noproxy '*' --cacert "$etc/ca.crt" --capath "$run/none" \\
    --connect-timeout 10 --max-time 120 --dump-header "$run/headers" --output "$run/body" --write-out '%{http_code}' "$@" "$to" 2>&1)
  failed=$?
  status=\${said#"\${said%???}"} said=\${said%???} retry=
  [ "$failed" = 0 ] || status=000
  [ "$failed" != 60 ] || unbelieved
  [ -r "$run/headers" ] || return 0
  while IFS=': ' read -r name value; do
    value=\${value%"$cr"}
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
  number "$made" && number "\${value%%.*}" && [ "$age" -ge 0 ] && [ "$age" -le "\${value%%.*}" ] || return 0
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
  [ -z "$boot" ] || { first_line "$run/bootdisk" && bootdisk=\${started:-$value}; }
  [ -z "$mounted" ] || first_line "$state/marker"
  set -- agent="$version" clock="$(date +%s)" disk="$disk" device="$device" filesystem="$filesystem" mounted="$mounted" detail="$detail" \\
    marker="\${mounted:+$value}" wal="$wal" etcd="$etcd" etcdrev="$etcdrev" api="$api" apirev="$apirev" revision="$revision" hold="$hold_code" holdtext="$hold_text" \\
    bootdisk="\${bootdisk%% *}" boottext="\${bootdisk#* }"
  for name in bootid:proc/sys/kernel/random/boot_id machineid:etc/machine-id applied:run/muster/applied step:run/muster/step objects:run/muster/objects \\
    joined:var/lib/kubelet/pki/kubelet-client-current.pem; do
    first_line "$root/\${name#*:}"
    set -- "$@" "\${name%%:*}=$value"
  done
  for file in "$home"/keys/*.key; do
    name=\${file##*/} name=\${name%.key}
    [ ! -s "$file" ] || { pin "$name"; set -- "$@" "pin.$name=$value"; }
  done
  for file in "$run"/requests/*; do
    [ ! -s "$file" ] || set -- "$@" "csr.\${file##*/}@$file"
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
setting etcd && etcd_url=\${value:-http://127.0.0.1:2381}
setting boot && boot=$value
setting api && api_url=\${value:-https://127.0.0.1:6443}
revision=0 worse=0 status='' retry='' sure='' home=$run/agent
hold_code='' hold_text=''
# Whether this boot is from the machine's own boot disk.
case " $(cat "$root/proc/cmdline" 2>/dev/null)" in *' muster.kept='*) started='started this boot is from it: the boot server did not answer' ;; *) started= ;; esac
mkdir -p "$run"
# Two would take each other's plan away; a person's \`once\` waits for nobody.
exec 9>"$run/lock"
flock -n 9 || { say 'another agent runs already' && exit 1; }
rm -rf "$run/plan" "$run/ticket" "$run/key"
self=$(cat "$0" "$here/muster-plan.sh" "$here/muster-kept.sh" | sha256sum)
first_line "$run/hold"
plan_code=\${value%% *} plan_text=\${value#* }
first_clock
[ "\${1:-}" != inline ] || inline
trap leave TERM
[ -z "$boot" ] || [ -n "$started" ] || sh "$here/muster-boot.sh" seed 9>&-
while :; do
  if poll; then worse=0; else worse=$((worse < 6 ? worse + 1 : 6)) && unanswered; fi
  keep_boot
  [ "\${1:-}" != once ] || { [ -z "$hold_code" ] && [ "$worse" = 0 ]; exit; }
  # A new agent may have come with the plan.
  [ "$status" != 200 ] || [ "$(cat "$0" "$here/muster-plan.sh" "$here/muster-kept.sh" | sha256sum)" = "$self" ] || exec sh "$0"
  # As long as the server says, at least 2^failures seconds, never more than five minutes; and up to
  # a quarter more, so that a thousand machines do not ask at once.
  pause=\${retry:-10} least=$(((1 << worse) - 1))
  [ "$pause" -ge "$least" ] || pause=$least
  [ "$pause" -le 300 ] || pause=300
  random=$(od -An -N2 -tu2 /dev/urandom)
  sleep "$pause.$((random % 10))" && sleep $((random % (pause / 4 + 1)))
done
`;

export const PLAN_SCRIPT = `#!/bin/sh
# The part of the agent that does what a plan says; read in by muster-agent.sh, whose functions and
# variables it uses.
# shellcheck disable=SC2034,SC2154 # hold_code, home, run, state … are set and read there

me=$(id -u):$(id -g)

# Whether line $1 is one that we know, whole, and with words that can only mean what they should.
understood() {
  case $1 in 'hold '?*' '?*) return 0 ;; *[!A-Za-z0-9@%+=:,._/\\ -]* | */..*) return 1 ;; esac
  # shellcheck disable=SC2086 # words of the set above
  set -- $1
  path=/
  case "\${1:-} $#" in
    'request 3' | 'load 3' | 'run 3' | 'reload 3') plain="$2 $3" ;;
    'mount-data 2' | 'guard-new 2' | 'guard-left 2' | 'set-aside-etcd 2' | 'end-etcd 2' | 'stop 2' | 'step 2') plain=$2 ;;
    'marker 5' | 'clear 5') plain="$2 $3 $4 $5" ;;
    'restore-etcd 9') plain="$2 $3 $4 $5 $6 $7 $8 $9" ;;
    'restore-etcd 10') path=/\${10} plain="$2 $3 $4 $5 $6 $7 $8 $9 \${10%%/*}" ;;
    'check '*) plain=\${2:-.} ;;
    'create-data 3') path=$2 plain=$3 ;;
    'bind 3' | 'directory 3') path=$3 plain=$2 ;;
    'put 4' | 'fetch 5') path=$4 plain="$2 $3" ;;
    'put-with-key 6') path=$4 plain="$2 $3 $5 $6" ;;
    'unpack 4' | 'link 4') path=$3 plain=$2 ;;
    'remove 2') path=$2 plain='' ;;
    *) return 1 ;;
  esac
  case $path in /*) ;; *) return 1 ;; esac
  case " $plain" in */* | *' -'* | *' .'*) return 1 ;; esac
}

# Whether the plan that was unpacked into $stage is whole, and all of it is known.
whole() {
  first_line "$stage/plan"
  digest=\${value#muster-plan 1 }
  { tail -n +2 "$stage/plan" >"$stage/lines" && sum "$stage/lines" && [ "$value" = "$digest" ]; } || hold bad-plan 'the plan does not have the digest that it names' || return 1
  touch "$stage/sums"
  while IFS= read -r line; do
    understood "$line" || hold unknown-line "agent $version does not know: $line" || return 1
    case $line in put*) line=\${line#* * } && { echo "\${line%% *}  files/\${line%% *}" >>"$stage/sums" || return 1; } ;; esac
  done <"$stage/lines" || return 1
  [ ! -s "$stage/sums" ] || (cd "$stage" && sha256sum -c sums >/dev/null 2>&1) || hold bad-plan 'a file of the plan does not have its hash'
}

# The plan in $run/body: first all of it is checked, then it is done line by line. Fails unless it
# ends, or is held, as it says.
apply() {
  stage=$run/plan hold_code='' hold_text='' held=''
  rm -rf "$stage"
  if mkdir -p "$stage" && try bad-plan tar -xf "$run/body" -C "$stage" && whole && rm -rf "$run/applied" "$run/requests"; then
    while IFS= read -r line <&3; do
      perform "$line" || hold failed "not done: $line" || break
    done 3<"$stage/lines" || hold write-failed "cannot read $stage"
    [ -n "$hold_code" ] || { keep_plan && try write-failed keep "$run/applied" "$digest"; }
  else
    hold write-failed "no room in $run"
  fi
  rm -rf "$stage" "$run/body"
  plan_code=$hold_code plan_text=$hold_text
  if [ -z "$hold_code" ]; then rm -f "$run/hold"; else keep "$run/hold" "$hold_code $hold_text"; fi
  [ -z "$hold_code" ] || [ -n "$held" ]
}

perform() {
  line=$1
  # shellcheck disable=SC2086 # words of the set that understood() takes
  set -- $1
  case $1 in
    hold) held=yes && line=\${line#hold } && hold "$2" "\${line#* }" ;;
    request) request "$2" "$3" ;;
    create-data) try create-data sh "$here/muster-disk.sh" create "$data" "$2" "$3" "$([ "$boot" != "$data" ] || echo boot)" && mount_data "$3" ;;
    mount-data) mount_data "$2" ;;
    bind) bind "$2" "$3" ;;
    marker) marker "$2 $3 $4 $5" ;;
    clear) clear_data "$2 $3 $4 $5" ;;
    restore-etcd) shift && restore_etcd "$@" ;;
    guard-new) guard "$2" ;;
    guard-left) ! grep -qxF "$2" "$state/agent/left" 2>/dev/null || hold guard "this disk was cleared of founding $2, and cannot begin it again" ;;
    set-aside-etcd) set_aside "$2" ;;
    end-etcd) end_etcd "$2" ;;
    check) shift && check "$@" ;;
    directory) try write-failed directory "$2" "$root$3" ;;
    put) put "$stage/files/$3" "$2" "$4" ;;
    put-with-key) with_key "$stage/files/$3" "$home/keys/$5.key" "$6" && put "$stage/with-key" "$2" "$4" ;;
    fetch) fetch "$2" "$3" "$root$4" "$5" ;;
    unpack) unpack "$2" "$root$3" "$4" ;;
    link) link "$2" "$root$3" "$4" ;;
    remove) remove "$2" "$root$2" ;;
    load) load "$2" "$3" ;;
    run) unit restart "$2" "$3" ;;
    reload) unit reload "$2" "$3" ;;
    stop) stop "$2" ;;
    step) try write-failed keep "$run/step" "$2" ;;
  esac
}

# --- the lines

request() {
  key=$home/keys/$1.key
  try key-failed mkdir -p "$run/requests" && make_key "$2" "$key" && make_request "$key" "$run/requests/$1"
}

mounted_or_hold() {
  [ -n "$mounted" ] || hold no-data-filesystem 'the data filesystem is not mounted'
}

bind() {
  mounted_or_hold || return 1
  want="$(findmnt -nro MAJ:MIN -M "$state") /$1"
  found=$(findmnt -nro MAJ:MIN,FSROOT -M "$root$2")
  [ "$found" != "$want" ] || return 0
  [ -z "$found" ] || hold data-mount "$2 is another mount already: $found" || return 1
  above "$state/$1/" && above "$root$2/" && changing "$2" && try data-mount mount --bind "$state/$1" "$root$2"
}

marker() {
  mounted_or_hold || return 1
  first_line "$state/marker"
  if [ -z "$value" ]; then try write-failed keep "$state/marker" "$1"; else
    [ "$value" = "$1" ] || hold foreign-marker "the data disk is of $value, not of $1"
  fi
}

guard() {
  wal
  [ "$mounted $filesystem $wal" = "yes $1 absent" ] || hold guard "etcd does not begin anew: \${mounted:-not} mounted, filesystem \${filesystem:-none} for $1, WAL $wal"
}

# The name of the directory says that it was done, so that data that come later are not taken away.
set_aside() {
  [ -z "$data" ] || mounted_or_hold || return 1
  gone=$state/etcd.removed-$1
  [ ! -e "$gone" ] || return 0
  etcd_down || return 1
  if [ -e "$state/etcd" ]; then try write-failed mv -T "$state/etcd" "$gone"; else try write-failed mkdir -p "$gone"; fi && try write-failed sync "$state"
}

# Its port closes first; the lock of its database goes with the process.
etcd_gone() {
  etcd_health
  [ "$etcd" = down ] && { [ ! -e "$state/etcd/member/snap/db" ] || flock -n "$state/etcd/member/snap/db" true; }
}

etcd_down() {
  etcd_gone || hold etcd-runs 'etcd still answers, or has its data open; they are not touched'
}

# What is mounted at or below $1 goes, the innermost first; a mount that is seen in two places goes
# from both at once.
unmount_below() {
  findmnt -nro TARGET | tac | while read -r at; do
    case $at in "$1" | "$1"/*) ! findmnt -M "$at" >/dev/null || umount "$at" || exit 1 ;; esac
  done
}

# Remembers the founding of marker $1: the filesystem stays the one that was granted to begin it.
has_left() {
  # shellcheck disable=SC2086 # words
  set -- $1
  { [ ! -e "$state/agent/left" ] || cat "$state/agent/left"; echo "$2"; } | sort -u >"$run/left" && replace "$run/left" 600 "$state/agent/left"
}

# The marker goes last: cut off anywhere, this is gone on with.
clear_data() {
  mounted_or_hold || return 1
  first_line "$state/marker"
  [ -n "$value" ] || return 0
  [ "$value" = "$1" ] || hold foreign-marker "the data disk is of $value, not of $1" || return 1
  etcd_down && changing "$state" && try clear-failed unmount_below "$root/run/containerd" && try clear-failed unmount_below "$run/etcd-image" && try write-failed has_left "$value" || return 1
  for entry in "$state"/* "$state"/.[!.]*; do
    name=\${entry##*/}
    case $name in agent | marker | lost+found) continue ;; esac
    [ -e "$entry" ] || [ -L "$entry" ] || continue
    [ ! -d "$entry" ] || [ "$(findmnt -nro FSROOT -M "$root/var/lib/$name")" != "/$name" ] || try clear-failed unmount_below "$root/var/lib/$name" || return 1
    try clear-failed unmount_below "$entry" && try clear-failed rm -rf "$entry" || return 1
  done
  rm -rf "$run/requests" && try clear-failed rm -rf "$state"/agent/keys/* "$root/etc/kubernetes" &&
    try clear-failed sync -f "$state" && try clear-failed rm "$state/marker" && try clear-failed sync "$state"
}

containerd() {
  ctr --address "$root/run/containerd/containerd.sock" --namespace k8s.io "$@"
}

with_crio() { [ -S "$root/var/run/crio/crio.sock" ]; }
# Ids of the containers of static pod etcd-$1 that run.
pod_tasks() {
  ! with_crio || { crictl ps -q --state running --name '^etcd$' --label io.kubernetes.pod.namespace=kube-system --label "io.kubernetes.pod.name=etcd-$1" 2>/dev/null; return; }
  containerd tasks list 2>/dev/null | sed -n 's/^\\([^ ]*\\) .*RUNNING.*/\\1/p' >"$run/tasks"
  label='labels."io.kubernetes'
  [ ! -s "$run/tasks" ] || containerd containers list -q "$label.pod.namespace\\"==kube-system,$label.pod.name\\"==etcd-$1,$label.container.name\\"==etcd" 2>/dev/null | grep -Fxf "$run/tasks"
}

# Container $1 gets signal $2; of CRI-O SIGTERM, and SIGKILL where that is not enough.
end_task() {
  if with_crio; then crictl stop --timeout 30 "$1"; else containerd tasks kill --signal "$2" "$1"; fi >/dev/null 2>&1
}

# The container of static pod etcd-$1 ends as kubelet would end it, until $2 looks in a row find
# etcd gone; more than one also find no container that may be about to start it. kubelet itself ends
# none while it has not seen the API since it started.
end_pod() {
  n=0 signal=SIGTERM looks=0
  while [ "$n" -lt 80 ]; do
    [ "$n" -lt 60 ] || signal=SIGKILL
    if etcd_gone && { [ "$2" = 1 ] || [ -z "$(pod_tasks "$1")" ]; }; then looks=$((looks + 1)); else looks=0; fi
    [ "$looks" -lt "$2" ] || return 0
    [ "$looks" != 0 ] || [ $((n % 10)) != 0 ] || for id in $(pod_tasks "$1"); do end_task "$id" "$signal"; done
    n=$((n + 1))
    sleep 0.5
  done
}

# Its manifest is gone, but kubelet may not have seen that yet.
end_etcd() {
  was=''
  ! systemctl is-active --quiet kubelet.service || { was=yes && try unit-failed systemctl stop kubelet.service; } || return 1
  end_pod "$1" 3
  [ -z "$was" ] || try unit-failed systemd start kubelet.service || return 1
  etcd_down
}

# The files of image $1 at $run/etcd-image, without a container that runs: what is started of them
# is a process of ours. What the machine does not have comes from where kubelet would get it.
mount_image() {
  ! findmnt -M "$run/etcd-image" >/dev/null || return 0
  mkdir -p "$run/etcd-image" || return 1
  ! with_crio || { crio_image "$1"; return; }
  containerd images mount "$1" "$run/etcd-image" ||
    { containerd images pull --hosts-dir "$root/etc/containerd/certs.d" "$1" && containerd images mount "$1" "$run/etcd-image"; }
}

unmount_image() {
  if with_crio; then
    { ! findmnt -M "$run/etcd-image" >/dev/null || umount "$run/etcd-image"; } && image_pod_gone || return 1
  else
    [ ! -e "$run/etcd-image" ] || containerd images unmount --rm "$run/etcd-image" || return 1
  fi
  [ ! -e "$run/etcd-image" ] || rmdir "$run/etcd-image"
}

# crictl, the rest. A pod takes longer than it waits by itself where much is read from disks for the
# first time. Of what it says of a failure, the last line is the reason.
cri() { crictl --timeout 2m "$@" 2>"$run/crictl.log" || { tail -n 1 "$run/crictl.log" >&2 && return 1; }; }

# CRI-O mounts a container's files as it makes it: one that is never started, in a pod without
# processes, is as good as the image. kubelet would take this pod away; it does not run.
crio_image() {
  image_pod_gone && { cri inspecti -q "$1" >/dev/null 2>&1 || cri pull "$1" >/dev/null; } || return 1
  linux='"linux":{"security_context":{"namespace_options":{"network":2,"pid":1}}}'
  echo '{"metadata":{"name":"muster-etcd-image","namespace":"muster","uid":"muster-etcd-image"},"log_directory":"'"$run"'",'"$linux}" >"$run/pod.json"
  echo '{"metadata":{"name":"files"},"image":{"image":"'"$1"'"},"command":["etcd"],"log_path":"etcd-image.log",'"$linux}" >"$run/container.json"
  pod=$(cri runp "$run/pod.json") && container=$(cri create "$pod" "$run/container.json" "$run/pod.json") &&
    files=$(cri inspect --output go-template --template '{{.info.runtimeSpec.root.path}}' "$container") && mount --bind "$files" "$run/etcd-image"
}

# That pod goes, also one that an agent left which was killed, or a boot that was cut off.
image_pod_gone() {
  pods=$(cri pods -q --name '^muster-etcd-image$') || return 1
  for pod in $pods; do cri rmp --force "$pod" || return 1; done
}

# Runs the rest with the programs of the image before those of the machine.
with_image() {
  at=$run/etcd-image
  PATH=$at/usr/local/sbin:$at/usr/local/bin:$at/usr/sbin:$at/usr/bin:$at/sbin:$at/bin:$PATH
  "$@"
}

# etcd on a copy alone, as member $2, until all that its log holds is in its database: data
# directory $1. It listens on sockets in that directory and nowhere else.
replay() {
  cd "$1" || return 1
  etcd --name "$2" --data-dir "$1" --force-new-cluster --listen-client-urls unix://client:0 --advertise-client-urls unix://client:0 \\
    --listen-peer-urls unix://peer:0 --initial-advertise-peer-urls unix://peer:0 --initial-cluster "$2=unix://peer:0" >"$1/replay.log" 2>&1 &
  pid=$! n=0
  until curl -q --silent --max-time 2 --unix-socket client:0 http://localhost/health 2>/dev/null | grep -q true; do
    n=$((n + 1))
    if [ "$n" -gt 600 ] || ! kill -0 "$pid" 2>/dev/null; then
      kill -KILL "$pid" 2>/dev/null
      tail -n 3 "$1/replay.log"
      return 1
    fi
    sleep 0.1
  done
  kill "$pid" && wait "$pid"
  :
}

# Program $1 makes a data directory of a database, by the rest. Of etcdctl this is a command of its
# newer half.
restore_snapshot() {
  program=$1
  shift
  ETCDCTL_API=3 "$program" snapshot restore "$@"
}

# restore_etcd CLUSTER FROM TO MEMBER MACHINE ADDRESS PROGRAM BUMP [IMAGE]. Each step shows by what
# lies where, so that it is gone on with.
restore_etcd() {
  mounted_or_hold || return 1
  first_line "$state/marker"
  [ "$value" != "$1 $3 $4 $5" ] || return 0
  [ "$value" = "$1 $2 $4 $5" ] || hold foreign-marker "the data disk is of $value, not of $1 $2 $4 $5" || return 1
  [ -z "\${9:-}" ] || end_pod "$5" 1
  etcd_down || return 1
  copy=$state/etcd.copy new=$state/etcd.restored-$3 kept=$state/etcd.before-$3
  case $6 in *:*) url=https://[$6]:2380 ;; *) url=https://$6:2380 ;; esac
  bump='' with=''
  [ "$8" = 0 ] || bump="--bump-revision $8 --mark-compacted"
  if [ ! -e "$kept" ] && [ ! -e "$new" ]; then
    [ -z "\${9:-}" ] || { with=with_image && try restore-failed mount_image "$9"; } || return 1
    # shellcheck disable=SC2086 # words
    try write-failed rm -rf "$copy" "$new.part" && try write-failed cp -a "$state/etcd" "$copy" && try restore-failed $with replay "$copy" "$4" &&
      try restore-failed $with restore_snapshot "$7" "$copy/member/snap/db" --skip-hash-check --name "$4" --data-dir "$new.part" \\
        --initial-cluster "$4=$url" --initial-advertise-peer-urls "$url" --initial-cluster-token "muster-$3" $bump &&
      try write-failed sync -f "$state" && try write-failed mv -T "$new.part" "$new" || return 1
  fi
  [ -e "$kept" ] || try write-failed mv -T "$state/etcd/member" "$kept" || return 1
  [ -e "$state/etcd/member" ] || try write-failed mv -T "$new/member" "$state/etcd/member" || return 1
  { [ -z "\${9:-}" ] || try restore-failed unmount_image; } && try write-failed rm -rf "$copy" "$new" && try write-failed sync -f "$state" &&
    try write-failed keep "$state/marker" "$1 $3 $4 $5"
}

# A check that passed is not made again in this boot: what we start takes ports and disk for itself.
check() {
  passed=$run/passed.$(printf '%s.' "$@" | tr / _)
  [ -e "$passed" ] || { try "$1" sh "$here/muster-check.sh" "$@" && try write-failed touch "$passed"; }
}

# Whether $1 is a plain file of mode $2 and ours, with SHA-256 $3.
is_there() {
  [ -f "$1" ] && [ ! -L "$1" ] && [ "$(stat -c '%a %u:%g' "$1")" = "$2 $me" ] && sum "$1" && [ "$value" = "$3" ]
}

put() {
  sum "$1" || hold write-failed "$1 cannot be read" || return 1
  is_there "$root$3" "$2" "$value" || { changing "$3" && try write-failed replace "$1" "$2" "$root$3"; }
}

with_key() {
  [ -s "$2" ] || hold no-key "this machine has no key \${2##*/}" || return 1
  { cat "$1" && if [ "$3" = base64 ]; then base64 -w 0 "$2" && echo; else cat "$2"; fi; } >"$stage/with-key" || hold write-failed "no room in $run"
}

directory() {
  above "$2/" || return 1
  [ "$(stat -c %a "$2")" = "$1" ] || chmod "$1" "$2"
}

link() {
  if [ "$1" = absent ] && { [ -e "$2" ] || [ -L "$2" ]; }; then return 0; fi
  new=\${2%/*}/.muster-new.\${2##*/}
  { [ -L "$2" ] && [ "$(readlink "$2")" = "$3" ]; } || { above "$2" && changing "$2" && try write-failed ln -sfn "$3" "$new" && try write-failed mv -fT "$new" "$2"; }
}

remove() {
  if [ -d "$2" ] && [ ! -L "$2" ]; then try write-failed rmdir "$2"; elif [ -e "$2" ] || [ -L "$2" ]; then changing "$1" && try write-failed rm -f "$2"; fi
}

load() {
  first_line "$run/loaded.$1"
  [ "$value" != "$2" ] || return 0
  case $1 in
    sysctl) try load-failed sysctl --quiet --system ;;
    modules) for file in "$root"/etc/modules-load.d/*.conf; do
      while read -r name; do
        case $name in [a-zA-Z0-9]*) try load-failed modprobe "$name" || return 1 ;; esac
      done <"$file"
    done ;;
    hostname) try load-failed cp "$root/etc/hostname" "$root/proc/sys/kernel/hostname" ;;
  esac && try write-failed keep "$run/loaded.$1" "$2"
}

# systemctl, the rest. If it fails, it and what unit $2 itself complained of last are said: nobody
# can look into the journal of a live machine.
systemd() {
  said=$(systemctl "$@" 2>&1) && return 0
  journalctl --quiet --no-pager --boot --output cat --lines 50 "_SYSTEMD_UNIT=$2" >"$run/journal" 2>/dev/null
  wrote=$({ grep -iE 'fatal|panic|error|fail|cannot' "$run/journal" || cat "$run/journal"; } | tail -n 1 | tail -c 280)
  echo "\${said%%See *}\${wrote:+ It wrote: $wrote}"
  return 1
}

# Unit $2 runs, and was started or $1ed since digest $3. What is enabled for the next boot need not
# be read again in this one: the manager takes seconds for that, generators among them. One that
# runs since before we changed anything in this boot is up to date.
unit() {
  [ ! -e "$run/daemon-reload" ] || { try unit-failed systemctl daemon-reload && rm -f "$run/daemon-reload"; } || return 1
  first_line "$run/unit.$2"
  verb=start
  if systemctl is-active --quiet "$2"; then
    [ "$value" != "$3" ] || return 0
    if [ -n "$value" ] || [ -e "$run/changed" ]; then verb=$1; fi
  fi
  try unit-failed systemctl enable --quiet --no-reload "$2" && try unit-failed systemd "$verb" "$2" && try write-failed keep "$run/unit.$2" "$3"
}

stop() {
  ! systemctl is-active --quiet "$1" || try unit-failed systemctl stop "$1" || return 1
  ! systemctl is-enabled --quiet "$1" 2>/dev/null || try unit-failed systemctl disable --quiet --no-reload "$1" || return 1
  rm -f "$run/unit.$1"
}
`;

export const KEPT_SCRIPT = `#!/bin/sh
# The part of the agent that fetches, and that keeps what a machine with a boot disk needs to start
# while the boot server does not answer: the last plan that was done to its end, and all that it
# fetches. Read in by muster-agent.sh, whose functions and variables it uses.
# shellcheck disable=SC2034,SC2154 # hold_code, home, run, state … are set and read there

# Where it lies.
shelf=$state/kept
# While the plan is done that was kept.
alone=''

# Whether this machine keeps anything. What is kept holds keys, as the data filesystem does.
keeps() {
  [ -n "$boot" ] && [ "$home" = "$state/agent" ]
}

# What URL $1 serves, to $2. What was cut off is gone on with; what cannot be gone on with, or has
# no room, is thrown away.
pull() {
  curl -q --silent --show-error --fail --proto =http,https --noproxy '*' --connect-timeout 10 --speed-time 30 --speed-limit 1000 \\
    --continue-at - --output "$2" "$1" && return 0
  case $? in 22 | 23 | 33 | 36) rm -f "$2" ;; esac
  return 1
}

# What URL $1 serves, with SHA-256 $2, in $3.
get() {
  { [ -e "$3" ] && sum "$3" && [ "$value" = "$2" ]; } || recall "$2" "$3" || { above "$3" && try fetch-failed pull "$1" "$3" && sum "$3"; } || return 1
  [ "$value" = "$2" ] || { rm -f "$3" && hold wrong-hash "$1 is not what the plan names: its SHA-256 is $value"; } || return 1
  ! keeps || [ -e "$shelf/$2" ] || try keep-failed replace "$3" 600 "$shelf/$2"
}

# The lines \`fetch\` and \`unpack\` of a plan.
fetch() {
  new=\${3%/*}/.muster-get.$2
  is_there "$3" "$1" "$2" || { get "$4" "$2" "$new" && changing "$3" && try write-failed chmod "$1" "$new" && try write-failed sync "$new" &&
    try write-failed mv -fT "$new" "$3" && try write-failed sync "\${3%/*}"; }
}

# An empty file beside what was unpacked says so, as long as the plan names it: what a later archive
# wrote over is unpacked anew.
unpack() {
  new=$2/.muster-get.$1
  for old in "$2"/.muster-unpacked.*; do
    case $(cat "$stage/lines") in *"unpack \${old##*.} \${2#"$root"} "*) ;; *) rm -f "$old" ;; esac
  done
  [ -e "$2/.muster-unpacked.$1" ] || { get "$3" "$1" "$new" && changing "$2" && try unpack-failed tar --no-same-owner -xf "$new" -C "$2" &&
    try write-failed sync -f "$2" && try write-failed truncate -s 0 "$new" && try write-failed mv -T "$new" "$2/.muster-unpacked.$1"; }
}

# The file with SHA-256 $1 as $2, if it was kept and is still what it was.
recall() {
  [ -e "$shelf/$1" ] || return 1
  if above "$2" && cp "$shelf/$1" "$2" && sum "$2" && [ "$value" = "$1" ]; then return 0; fi
  rm -f "$2" "$shelf/$1"
  return 1
}

# The plan in $run/body, which was done: unless it was for this moment only, it is what this machine
# does by itself. Without a boot disk nothing of it stays: it holds secrets.
keep_plan() {
  [ -n "$boot" ] || [ "$home" != "$state/agent" ] || try keep-failed rm -rf "$shelf" || return 1
  keeps && [ -z "$alone" ] && ! grep -Eq '^(create-data|guard-new|guard-left|set-aside-etcd|end-etcd|restore-etcd|clear) ' "$stage/lines" || return 0
  named=' plan.tar wal '
  while read -r what first second third fourth; do
    case $what in
      fetch) url=$fourth hash=$second ;;
      unpack) url=$third hash=$first ;;
      *) continue ;;
    esac
    named="$named$hash "
    [ -e "$shelf/$hash" ] || get "$url" "$hash" "$shelf/$hash" || return 1
  done <"$stage/lines"
  try keep-failed keep "$shelf/wal" "$wal" && try keep-failed replace "$run/body" 600 "$shelf/plan.tar" || return 1
  for file in "$shelf"/*; do
    case $named in *" \${file##*/} "*) ;; *) rm -f "$file" ;; esac
  done
}

# After a poll that was not answered: what was kept is done, if nothing was in this boot. From the
# boot disk a machine starts because the server did not answer its firmware; one that came from the
# network waits a while. A member of etcd that had data does nothing without.
unanswered() {
  [ "$status" = 000 ] && [ ! -e "$run/applied" ] && keeps && [ -e "$shelf/plan.tar" ] || return 0
  [ -n "$started" ] || [ "$worse" -ge 3 ] || return 0
  wal
  first_line "$shelf/wal"
  [ "$value" != present ] || [ "$wal" = present ] || { say 'the data of etcd are gone; nothing is done without the boot server' && return 0; }
  say 'the boot server does not answer; this machine does what it did last'
  alone=yes
  if cp "$shelf/plan.tar" "$run/body"; then apply; fi
  alone=''
}

# What the machine booted from goes to its boot disk, beside the talk, once a plan was done and
# kept: then it is known to work. What failed is tried again after some minutes.
keep_boot() {
  keeps && [ -z "$started" ] && [ -e "$run/applied" ] && [ -e "$shelf/plan.tar" ] || return 0
  first_line "$run/bootdisk"
  case $value in '') ;; 'kept '*) return 0 ;; *) [ -n "$(find "$run/bootdisk" -mmin +3)" ] || return 0 ;; esac
  setting initrds
  files=$value
  setting kernel
  # shellcheck disable=SC2086 # words
  sh "$here/muster-boot.sh" keep "$boot" $value $files 9>&- </dev/null >/dev/null 2>&1 &
}
`;

export const DISK_SCRIPT = `#!/bin/sh
# The disk that a machine keeps its data on, and the one that it starts from by itself.
#
#     muster-disk.sh look SELECTOR                    what it is now, as lines NAME=VALUE (src/agent/facts.ts: DataDisk)
#     muster-disk.sh create SELECTOR DEVICE UUID [boot]
#                                                     makes the filesystem, if the selector's one disk is DEVICE and blank; with \`boot\`
#                                                     it leaves room for what the machine starts from: a partition for each
#     muster-disk.sh mount SELECTOR UUID              mounts it
#     muster-disk.sh boot-look SELECTOR               as look, for a boot disk (muster-boot.sh)
#     muster-disk.sh boot-create SELECTOR DEVICE      makes its partition, if the selector's one disk is DEVICE and blank
#
# SELECTOR: path=/dev/…, serial=…, size=MIN-MAX (MiB, either may be missing), joined by spaces; a
# disk must fit all of them. Only whole disks are looked at. A disk on which anything is that
# anybody could miss is foreign, and is never written to. Paths are below MUSTER_ROOT. On failure
# the reason is printed. Needs coreutils, util-linux and mkfs.ext4, for partitions sfdisk.
set -u
LC_ALL=C
export LC_ALL

root=$(readlink -f "\${MUSTER_ROOT:-/}")
root=\${root%/}
state=$root/var/lib/muster
selector=$2
case $1 in boot-*) booting=yes ;; *) booting= ;; esac

fail() {
  printf '%s\\n' "$1"
  exit 1
}

# The first line of file $1 as \`value\`, without white space at its ends; empty when there is none.
first_line() {
  value=
  { [ -r "$1" ] && read -r value <"$1"; } 2>/dev/null
  :
}

# Sets disk, device, filesystem, mounted, partition and detail.
look() {
  disk=unused device='' filesystem='' mounted='' partition='' detail=''
  [ -n "$selector" ] || return 0
  fitting=
  for entry in "$root"/sys/block/*; do
    name=\${entry##*/}
    case $name in '*' | loop* | ram* | zram* | sr* | fd* | dm-* | md* | mtd* | *'!'*) continue ;; esac
    fits "$name" && fitting="$fitting $name"
  done
  # shellcheck disable=SC2086 # names, one a word
  set -- $fitting
  case $# in
    0) disk=none detail="no disk fits $selector" ;;
    1) judge "$1" ;;
    *) disk=several detail="$* fit $selector" ;;
  esac
}

fits() {
  first_line "$root/sys/block/$1/size"
  case $value in '' | *[!0-9]*) return 1 ;; esac
  mib=$((value / 2048))
  # Less than this is no disk: an empty card reader, a driver's own stub.
  [ "$mib" -ge 8 ] || return 1
  for term in $selector; do
    want=\${term#*=}
    case $term in
      path=*) [ "$(readlink -f "$root$want")" = "$root/dev/$1" ] || return 1 ;;
      serial=*) has_serial "$1" "$want" || return 1 ;;
      size=*-*)
        from=\${want%-*} to=\${want#*-}
        [ "$mib" -ge "\${from:-0}" ] && [ "$mib" -le "\${to:-$mib}" ] || return 1
        ;;
      *) return 1 ;;
    esac
  done
}

# The kernel's own word (virtio, NVMe), or udev's link that ends in the serial number (SATA, SAS,
# USB).
has_serial() {
  for file in serial device/serial; do
    first_line "$root/sys/block/$1/$file"
    [ "$value" != "$2" ] || return 0
  done
  for link in "$root"/dev/disk/by-id/*[_-]"$2"; do
    [ "$(readlink -f "$link")" != "$root/dev/$1" ] || return 0
  done
  return 1
}

# Whose disk $1 is.
judge() {
  device=/dev/$1 node=$root/dev/$1 sys=$root/sys/block/$1 disk=foreign
  measure
  partitions
  writable || return 0
  if made_half $BEFORE_PARTITIONS && [ "$others" = 0 ] && probe; then
    case $type in '' | gpt | PMBR) disk=blank && return ;; esac
  fi
  case $boots:$datas:$others in
    0:0:0) ;;
    1:[01]:0)
      [ -z "$booting" ] || { disk=ours partition=/dev/$boot_part && return; }
      [ "$datas" = 1 ] || { detail='is a boot disk, with nothing beside it' && return; }
      device=/dev/$data_part node=$root/dev/$data_part sys=$sys/$data_part
      measure
      writable || return 0
      ;;
    *) detail='has partitions' && return ;;
  esac
  probe || return 0
  if [ -n "$type" ]; then
    [ "$label $type" = 'MUSTER-DATA ext4' ] || { detail="holds $type\${label:+ named $label}" && return; }
    [ -z "$booting" ] || { detail='is a data disk as a whole; both are on one disk only if dataDisk and bootDisk say the same when it is made' && return; }
    # The mark of one that is being made is taken off last, before it is ever mounted: nothing is
    # lost.
    ! made_half $((sectors - 1)) || { disk=blank && return; }
    disk=ours
    first_line "$sys/dev"
    [ -z "$value" ] || [ "$(findmnt -nro MAJ:MIN -M "$state")" != "$value" ] || mounted=yes
    return
  fi
  ! made_half $((sectors - 1)) || { disk=blank && return; }
  found=$(wipefs --noheadings "$node" 2>&1)
  [ -z "$found" ] || { detail="holds $found" && return; }
  if zeros 0 && zeros $((sectors / 2048 - 1)); then
    disk=blank
  else
    detail='holds data of an unknown kind; if nobody misses them, write zeros over its first and its last MiB'
  fi
}

# Whether nothing else has $sys, and it can be written to; else detail says why.
writable() {
  for holder in "$sys"/holders/*; do
    [ ! -e "$holder" ] || { detail="is part of \${holder##*/}" && return 1; }
  done
  first_line "$sys/ro"
  [ "$value" != 1 ] || { detail='is read-only' && return 1; }
}

# Sets label, type and filesystem to what $node holds, by blkid; empty when it knows nothing there.
# If it cannot tell, detail says why.
probe() {
  label='' type='' filesystem=''
  found=$(blkid -p -o export "$node" 2>&1)
  case $? in
    0) ;;
    2) return 0 ;;
    *) detail="cannot be told: \${found:-blkid failed}" && return 1 ;;
  esac
  while IFS='=' read -r key value; do
    case $key in LABEL) label=$value ;; TYPE | PTTYPE) type=$value ;; UUID) filesystem=$value ;; esac
  done <<FOUND
$found
FOUND
}

# Sets sectors: how many of 512 octets $sys has.
measure() {
  first_line "$sys/size"
  sectors=$value
}

# Sets boots, datas and others: how many partitions $sys has by the names that we give, and besides;
# boot_part and data_part: which.
partitions() {
  boots=0 datas=0 others=0 boot_part='' data_part=''
  for part in "$sys"/*/partition; do
    [ -e "$part" ] || continue
    part=\${part%/*}
    case $(sed -n 's/^PARTNAME=//p' "$part/uevent" 2>/dev/null) in
      MUSTER-BOOT) boots=$((boots + 1)) boot_part=\${part##*/} ;;
      MUSTER-DATA) datas=$((datas + 1)) data_part=\${part##*/} ;;
      *) others=$((others + 1)) ;;
    esac
  done
}

# Whether MiB $1 of the node can be read and is zero.
zeros() {
  [ "$(dd if="$node" bs=1048576 skip="$1" count=1 2>/dev/null | tr -d '\\001-\\377' | wc -c)" -eq 1048576 ]
}

# Where the mark stands on a disk that is being divided: between its table and its first partition.
BEFORE_PARTITIONS=2047

# Text $1 in sector $2. It tells what we were making from somebody's data: mkfs.ext4 wipes the first
# sectors first, and a table is written in several places.
mark() {
  { printf '%s' "$1" && head -c $((512 - \${#1})) /dev/zero; } |
    dd of="$node" bs=512 seek="$2" iflag=fullblock conv=notrunc,fsync status=none
}

# Whether the mark stands in sector $1.
made_half() {
  [ "$(dd if="$node" bs=512 skip="$1" count=1 2>/dev/null | head -c 15 | tr -d '\\0')" = MUSTER-DATA-NEW ]
}

# A table of partitions: one of $1 MiB that UEFI takes for its system's and BIOS for the active one,
# and of the rest what $2 says.
divide() {
  mark MUSTER-DATA-NEW $BEFORE_PARTITIONS && printf 'label: gpt\\nstart=1MiB, size=%sMiB, type=U, name=MUSTER-BOOT, attrs=LegacyBIOSBootable\\n%s' "$1" "$2" |
    sfdisk --quiet --wipe always --wipe-partitions always "$node"
}

create() {
  look
  [ "$disk $filesystem" != "ours $2" ] || return 0
  [ "$disk $device" = "blank $1" ] || fail "$1 is not made the data disk: \${device:-it} is $disk\${detail:+, $detail}"
  # What was begun as two partitions is made so to its end.
  if [ "\${device##*/}" != "$data_part" ] && { [ -n "$3" ] || made_half $BEFORE_PARTITIONS; }; then
    create_both "$2"
  else
    # The filesystem ends a MiB before the disk; the mark is in the last sector.
    { mark MUSTER-DATA-NEW $((sectors - 1)) && mkfs.ext4 -q -F -L MUSTER-DATA -U "$2" "$node" $((sectors / 2 - 1024))k && sync "$node" && mark '' $((sectors - 1)); } 2>&1
  fi || fail "the filesystem was not made on $1"
}

# A partition to start from, and one with filesystem $1. Of the first an eighth is enough, for two
# root images beside each other.
create_both() {
  mib=$((sectors / 2048)) room=$((sectors / 2048 / 8))
  [ "$room" -ge 640 ] || room=640
  [ "$room" -le 4096 ] || room=4096
  [ $((mib - room)) -ge 128 ] || fail "$device has $mib MiB, too little for the data and what the machine starts from: at least $((room + 128))"
  divide "$room" 'type=L, name=MUSTER-DATA' 2>&1 || return 1
  partitions
  [ "$boots:$datas:$others" = 1:1:0 ] || fail "the kernel does not see the new partitions of $device"
  mkfs.ext4 -q -F -L MUSTER-DATA -U "$1" "$root/dev/$data_part" 2>&1 && sync "$root/dev/$data_part" && mark '' $BEFORE_PARTITIONS 2>&1
}

# Larger than 4 GiB it need not be.
create_boot() {
  look
  [ "$disk $device" != "ours $1" ] || return 0
  [ "$disk $device" = "blank $1" ] || fail "$1 is not made the boot disk: \${device:-it} is $disk\${detail:+, $detail}"
  room=$((sectors / 2048 - 2))
  [ "$room" -le 4096 ] || room=4096
  { divide "$room" '' && mark '' $BEFORE_PARTITIONS; } 2>&1 || fail "the boot disk was not made on $1"
}

mount_it() {
  look
  [ "$disk $filesystem" = "ours $1" ] || fail "filesystem $1 is not here: \${device:-the disk} is $disk\${detail:+, $detail}\${filesystem:+, with $filesystem}"
  [ -z "$mounted" ] || return 0
  [ -z "$(findmnt -nro SOURCE -M "$state")" ] || fail "something else is mounted at /var/lib/muster: $(findmnt -nro SOURCE -M "$state")"
  mkdir -p "$state" && mount -t ext4 -o noatime "$node" "$state" 2>&1
}

case $1 in
  look) look && printf 'disk=%s\\ndevice=%s\\nfilesystem=%s\\nmounted=%s\\ndetail=%s\\n' "$disk" "$device" "$filesystem" "$mounted" "$(printf '%s' "$detail" | tr '\\n' ' ')" ;;
  create) create "$3" "$4" "\${5:-}" ;;
  mount) mount_it "$3" ;;
  boot-look) look && printf 'disk=%s\\ndevice=%s\\npartition=%s\\ndetail=%s\\n' "$disk" "$device" "$partition" "$(printf '%s' "$detail" | tr '\\n' ' ')" ;;
  boot-create) create_boot "$3" ;;
  *) fail 'usage: muster-disk.sh look SELECTOR | create SELECTOR DEVICE UUID [boot] | mount SELECTOR UUID | boot-look SELECTOR | boot-create SELECTOR DEVICE' ;;
esac
`;

export const BOOT_SCRIPT = `#!/bin/sh
# The disk that a machine starts from while the boot server does not answer. It holds what the
# machine booted from the network: kernel, initrd, root image and first configuration, and loaders
# for BIOS (extlinux) and UEFI (systemd-boot).
#
#     muster-boot.sh seed
#         fetches the configuration of this boot, while its session is there to be asked
#     muster-boot.sh keep SELECTOR KERNEL SHA256 [INITRD SHA256]…
#         brings the one disk that fits up to date, with files from these URLs; how that ended stands in /run/muster/bootdisk, as \`STATE TEXT\`
#
# Files have their hashes as names and are there before a loader's configuration names them, so cut
# off anywhere the disk starts what it started before. Paths are below MUSTER_ROOT. Needs coreutils,
# util-linux, curl, cpio, mkfs.vfat, extlinux, systemd-boot-efi.
set -u
umask 077
LC_ALL=C
export LC_ALL

root=$(readlink -f "\${MUSTER_ROOT:-/}")
root=\${root%/}
case $0 in */*) here=\${0%/*} ;; *) here=. ;; esac
run=$root/run/muster
work=$run/boot
at=$work/disk
# Where the initramfs put it.
image=$root/run/muster/image/root.squashfs
uefi=$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi
mbr=$root/usr/lib/syslinux/mbr/gptmbr.bin

# The end: state $1, for reason $2.
end() {
  ! mountpoint -q "$at" || umount "$at"
  printf '%s %s\\n' "$1" "$(printf '%s' "$2" | tr -s '\\0-\\37\\177' ' ' | head -c 300)" >"$work/ended" && mv "$work/ended" "$run/bootdisk"
  [ "$1" = kept ]
  exit
}

# Runs the rest; if it fails, that is the end.
try() {
  said=$("$@" 2>&1 9>&-) || end failed "\${said:-$1 failed}"
}

pull() {
  curl -q --silent --show-error --fail --proto =http,https --noproxy '*' --connect-timeout 10 --max-time 600 --output "$2" "$1"
}

# The kernel's arguments, one a line.
words() {
  tr -s ' ' '\\n' <"$root/proc/cmdline"
}

# The value of kernel argument $1.
argument() {
  value=$(words | sed -n "s/^$1=//p" | tail -n 1)
}

# Ignition's document, or cloud-init's. Those that a server need not have are left out when it has
# not.
seed() {
  [ ! -e "$work/seed" ] || return 0
  argument 'ignition\\.config\\.url'
  url=\${value%ignition} names=ignition
  if [ -z "$value" ]; then
    argument ds
    url=\${value#*;s=} names='user-data meta-data vendor-data network-config'
    case $value in 'nocloud;s='* | 'nocloud-net;s='*) ;; *) return 1 ;; esac
  fi
  rm -rf "$work/seed.new"
  mkdir -p "$work/seed.new/kept/seed" || return 1
  for name in $names; do
    pull "$url$name" "$work/seed.new/kept/seed/$name" && continue
    case $?$name in 22vendor-data | 22network-config) rm -f "$work/seed.new/kept/seed/$name" ;; *) return 1 ;; esac
  done
  mv "$work/seed.new" "$work/seed"
}

# What the one disk that fits selector $1 is: sets disk, device, partition, detail.
look() {
  disk=none device='' partition='' detail='muster-disk.sh said nothing'
  found=$(sh "$here/muster-disk.sh" boot-look "$1")
  while IFS='=' read -r name value; do
    case $name in disk) disk=$value ;; device) device=$value ;; partition) partition=$value ;; detail) detail=$value ;; esac
  done <<FOUND
$found
FOUND
}

# Mounts the disk's filesystem; one that was never finished, or is broken, is made anew: nothing is
# on it that is not elsewhere.
mount_disk() {
  mkdir -p "$at"
  # One that was killed left it mounted.
  ! mountpoint -q "$at" || try umount "$at"
  fsck.vfat -a "$root$partition" >/dev/null 2>&1
  [ "$(blkid -p -o value -s LABEL "$root$partition")" = MUSTERBOOT ] && mount -t vfat -o umask=077 "$root$partition" "$at" 2>/dev/null && return 0
  try mkfs.vfat -F 32 -n MUSTERBOOT "$root$partition"
  try mount -t vfat -o umask=077 "$root$partition" "$at"
}

# File $1 stands as $2 on the disk.
place() {
  [ "\${1##*/}" = new ] || try cp "$1" "$at/muster/new"
  try sync "$at/muster/new"
  try mv "$at/muster/new" "$at/$2"
}

# What URL $1 serves, with SHA-256 $2, as muster/$3. A kernel finds the next initrd only at a
# multiple of four octets.
fetch() {
  [ ! -e "$at/muster/$3" ] || return 0
  try pull "$1" "$at/muster/new"
  found=$(sha256sum <"$at/muster/new")
  [ "\${found%% *}" = "$2" ] || end failed "$1 does not have the SHA-256 $2"
  try truncate -s %512 "$at/muster/new"
  place "$at/muster/new" "muster/$3"
}

# The files $3 … of directory $2 as an initrd, muster/$1.
pack() {
  name=$1
  cd "$2" || end failed "there is no $2"
  shift 2
  [ -e "$at/muster/$name" ] || printf '%s\\n' "$@" | cpio --quiet -o -L -H newc >"$at/muster/new" || end failed "no room for $name on the boot disk"
  [ -e "$at/muster/$name" ] || place "$at/muster/new" "muster/$name"
  cd /
}

# Text $1 as file $2, if it is another.
configure() {
  printf '%s\\n' "$1" >"$work/text"
  mkdir -p "$at/\${2%/*}"
  cmp -s "$work/text" "$at/$2" || place "$work/text" "$2"
}

# What this boot was told, but for what holds for it alone.
arguments() {
  words | grep -Ev '^(vmlinuz$|(initrd|BOOT_IMAGE|ds|ignition\\.config\\.url|muster\\.(url|root|time))=)' | tr '\\n' ' '
  [ -e "$work/seed/kept/seed/ignition" ] || printf 'ds=nocloud '
  printf 'muster.kept=%s' "$(date +%s)"
}

keep() {
  for file in "$uefi" "$mbr"; do [ -r "$file" ] || end failed "this image lacks \${file#"$root"}"; done
  for name in extlinux cpio sfdisk mkfs.vfat; do command -v "$name" >/dev/null || end failed "this image lacks $name"; done
  look "$1"
  if [ "$disk" = blank ]; then
    try sh "$here/muster-disk.sh" boot-create "$1" "$device"
    look "$1"
  fi
  [ "$disk" = ours ] || end "$disk" "$detail"
  [ -e "$image" ] || end failed 'the root image of this boot is not in /run/muster/image: it is none that Muster builds'
  seed || end failed "the configuration of this boot cannot be fetched again: $url"
  mount_disk
  try mkdir -p "$at/muster" "$at/syslinux" "$at/EFI/BOOT" "$at/loader/entries"
  rm -f "$at/muster/new"
  head -c 440 "$root$device" | cmp -s - "$mbr" || try dd if="$mbr" of="$root$device" bs=440 count=1 conv=notrunc,fsync status=none
  [ -e "$at/syslinux/ldlinux.sys" ] || try extlinux --install "$at/syslinux"
  cmp -s "$uefi" "$at/EFI/BOOT/BOOTX64.EFI" || try cp "$uefi" "$at/EFI/BOOT/BOOTX64.EFI"
  kernel=k-$(printf '%.16s' "$3")
  fetch "$2" "$3" "$kernel"
  initrds=
  shift 3
  while [ $# -gt 0 ]; do
    name=i-$(printf '%.16s' "$2")
    fetch "$1" "$2" "$name"
    initrds="$initrds $name"
    shift 2
  done
  argument 'muster\\.root\\.sha256'
  name=r-$(printf '%.16s' "$value")
  rm -rf "$work/root"
  mkdir -p "$work/root/kept" && ln -s "$image" "$work/root/kept/root.squashfs"
  pack "$name" "$work/root" kept kept/root.squashfs
  initrds="$initrds $name"
  cd "$work/seed" || end failed "there is no $work/seed"
  name=s-$(cat kept/seed/* | sha256sum | head -c 16)
  # shellcheck disable=SC2046 # names, one a word
  pack "$name" "$work/seed" kept kept/seed $(ls -d kept/seed/*)
  initrds="$initrds $name"
  told=$(arguments)
  [ \${#told} -lt 2000 ] || end failed 'the kernel arguments are too long'
  for name in $initrds; do list="\${list:+$list,}/muster/$name" lines="$lines
initrd /muster/$name"; done
  configure "DEFAULT muster
LABEL muster
LINUX /muster/$kernel
INITRD $list
APPEND $told" syslinux/syslinux.cfg
  configure "title Muster
linux /muster/$kernel$lines
options $told" loader/entries/muster.conf
  configure 'timeout 0
default muster.conf
editor no' loader/loader.conf
  try sync -f "$at"
  for file in "$at"/muster/*; do
    case " $kernel $initrds " in *" \${file##*/} "*) ;; *) rm -f "$file" ;; esac
  done
  try sync -f "$at"
  end kept "$device holds what this boot used"
}

mkdir -p "$work"
exec 9>"$work/lock"
flock -n 9 || exit 0
list='' lines='' url=''
case \${1:-} in
  seed) seed ;;
  keep) shift && keep "$@" ;;
  *) echo 'usage: muster-boot.sh seed | keep SELECTOR KERNEL SHA256 [INITRD SHA256]...' >&2 && exit 2 ;;
esac
`;

export const CHECK_SCRIPT = `#!/bin/sh
# What a machine must be before it is part of a cluster: \`muster-check.sh NAME [WORD…]\`, names as in
# CHECKS of src/agent/plan.ts. Prints the reason and fails if it is not so. Paths are below
# MUSTER_ROOT. Needs coreutils; \`module\` modprobe, \`mtu\` ping and ip.
set -fu
LC_ALL=C
export LC_ALL
root=\${MUSTER_ROOT:-}

fail() {
  printf '%s\\n' "$1"
  exit 1
}

# Whether process $1 (a directory of /proc) is one that may have the port, and holds the socket with
# inode $2.
holds() {
  read -r name <"$1/comm" || return 1
  case " $own " in *" $name "*) ;; *) return 1 ;; esac
  for handle in "$1"/fd/*; do
    [ "$(readlink "$handle")" != "socket:[$2]" ] || return 0
  done
  return 1
}

# Listening TCP sockets stand in /proc/net with state 0A; an address ends in the port.
port() {
  hex=$(printf ':%04X' "$1")
  for file in tcp tcp6; do
    [ -r "$root/proc/net/$file" ] || continue
    while read -r _ at _ in _ _ _ _ _ inode _; do
      case "$at $in" in *"$hex 0A") ;; *) continue ;; esac
      free=
      for process in "$root"/proc/[0-9]*; do
        if holds "$process" "$inode" 2>/dev/null; then free=yes && break; fi
      done
      [ -n "$free" ] || fail "something else listens at TCP port $1"
    done <"$root/proc/net/$file"
  done
}

# As large as the device on the way sends them, $2 where that is not known. A member that does not
# answer at all says nothing about the way to it; where a router says what it takes, both ends do
# with that. busybox's ping cannot ask.
mtu() {
  headers=28
  case $1 in *:*) headers=48 ;; esac
  ping -n -q -c 1 -W 2 "$1" >/dev/null 2>&1 || return 0
  octets=$2
  device=$(ip -o route get "$1" 2>/dev/null | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p')
  [ ! -r "$root/sys/class/net/\${device:-none}/mtu" ] || read -r octets <"$root/sys/class/net/$device/mtu"
  said=$(ping -n -M 'do' -c 3 -i 0.2 -W 2 -s $((octets - headers)) "$1" 2>&1) && return 0
  case $said in *'rag needed'* | *'essage too long'* | *'acket too big'* | *' option'*) return 0 ;; esac
  fail "$1 answers, but packets of $octets octets do not reach it in one piece"
}

# Seconds as dd says that it took, of standard input.
took() {
  while read -r _ octets _ rest; do
    case $octets in bytes) rest=\${rest##*copied, } && echo "\${rest%% *}" ;; esac
  done
}

# Seconds $1 as \`ms\`.
milliseconds() {
  ms=$(printf '%.3f' "\${1:-0}" | tr -d '.')
  ms=\${ms#"\${ms%%[!0]*}"}
  ms=\${ms:-0}
}

# As etcd writes: over space that is there already, each write with its sync. dd says how long each
# took; of 100, the second longest. A hundred processes take longer than the writes to a fast disk:
# where all of them by one are done in the time that one may take, that is enough.
fsync() {
  file=$1/.muster-fsync
  { mkdir -p "$1" && dd if=/dev/zero of="$file" bs=2300 count=100 conv=fsync status=none; } 2>/dev/null || fail "cannot write to $1"
  all=$(dd if=/dev/zero of="$file" bs=2300 count=100 conv=notrunc oflag=dsync 2>&1 | took)
  milliseconds "$all"
  if [ -n "$all" ] && [ "$ms" -le "$2" ]; then
    rm -f "$file"
    return
  fi
  at=0
  worst=$(
    while [ "$at" -lt 100 ]; do
      dd if=/dev/zero of="$file" bs=2300 count=1 seek="$at" conv=notrunc oflag=dsync 2>&1
      at=$((at + 1))
    done | took | sort -g | tail -n 2 | head -n 1
  )
  rm -f "$file"
  milliseconds "$worst"
  [ "$ms" -le "$2" ] || fail "of 100 small writes to $1 with fdatasync, the second slowest took $ms ms; $2 are allowed"
}

check=$1
shift
case $check in
  memory)
    while read -r name kib _; do [ "$name" != MemTotal: ] || break; done <"$root/proc/meminfo"
    [ $((kib / 1024)) -ge "$1" ] || fail "$((kib / 1024)) MiB of memory; $1 are needed"
    ;;
  cpus)
    count=0
    while read -r name _; do [ "$name" != processor ] || count=$((count + 1)); done <"$root/proc/cpuinfo"
    [ "$count" -ge "$1" ] || fail "$count processors; $1 are needed"
    ;;
  cgroup2) [ -e "$root/sys/fs/cgroup/cgroup.controllers" ] || fail 'control groups are not the unified ones (version 2)' ;;
  swapless) [ "$(wc -l <"$root/proc/swaps")" -le 1 ] || fail 'swap is in use' ;;
  module)
    [ -e "$root/sys/module/$(printf '%s' "$1" | tr - _)" ] || modprobe "$1" 2>&1 || fail "the kernel has no module $1"
    ;;
  port)
    set +f
    number=$1
    shift
    own=$*
    port "$number"
    ;;
  mtu) mtu "$1" "$2" ;;
  fsync) fsync "$root$1" "$2" ;;
  machine-id)
    id=
    [ ! -r "$root/etc/machine-id" ] || read -r id <"$root/etc/machine-id"
    case $id in *[!0-9a-f]* | 00000000000000000000000000000000) id= ;; esac
    [ \${#id} = 32 ] || fail '/etc/machine-id holds no machine-id'
    for other in "$@"; do
      [ "$id" != "$other" ] || fail "machine-id $id is of the image; every machine of it has the same"
    done
    ;;
  *) fail "no check is called $check" ;;
esac
`;

export const AGENT_UNIT = `# Talks to the boot server on behalf of this machine of a cluster, and does what its plan says. It needs the whole machine: it
# mounts, writes below /etc and starts services.
[Unit]
Description=Muster agent
ConditionPathExists=/etc/muster/agent.conf
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
# All disks are there before one is chosen: another that fits the selector as well must not come later.
ExecStartPre=-udevadm settle --timeout=60
ExecStart=/bin/sh /etc/muster/muster-agent.sh
Restart=always
RestartSec=2
UMask=0077
# It says little, and what it says a person at the machine's console wants to know: why it is held.
StandardError=journal+console

[Install]
WantedBy=multi-user.target
`;

export const INLINE_UNIT = `# Does the plan that came with this machine's first configuration, once. The boot server is not asked, and hears no more of the
# machine than its boot reports.
[Unit]
Description=Muster's plan from the first configuration
ConditionPathExists=/etc/muster/inline.tar
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
RemainAfterExit=yes
# All disks are there before one is chosen: another that fits the selector as well must not come later.
ExecStartPre=-udevadm settle --timeout=60
ExecStart=/bin/sh /etc/muster/muster-agent.sh inline
Restart=on-failure
RestartSec=60
UMask=0077

[Install]
WantedBy=multi-user.target
`;
