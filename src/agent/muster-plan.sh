#!/bin/sh
# The part of the agent that does what a plan says; read in by muster-agent.sh, whose functions and
# variables it uses.
# shellcheck disable=SC2034,SC2154 # hold_code, home, run, state … are set and read there

me=$(id -u):$(id -g)

# Whether line $1 is one that we know, whole, and with words that can only mean what they should.
understood() {
  case $1 in 'hold '?*' '?*) return 0 ;; *[!A-Za-z0-9@%+=:,._/\ -]* | */..*) return 1 ;; esac
  # shellcheck disable=SC2086 # words of the set above
  set -- $1
  path=/
  case "${1:-} $#" in
    'request 3' | 'load 3' | 'run 3' | 'reload 3') plain="$2 $3" ;;
    'mount-data 2' | 'guard-new 2' | 'guard-left 2' | 'set-aside-etcd 2' | 'end-etcd 2' | 'stop 2' | 'step 2') plain=$2 ;;
    'marker 5' | 'clear 5') plain="$2 $3 $4 $5" ;;
    'restore-etcd 9') plain="$2 $3 $4 $5 $6 $7 $8 $9" ;;
    'restore-etcd 10') path=/${10} plain="$2 $3 $4 $5 $6 $7 $8 $9 ${10%%/*}" ;;
    'check '*) plain=${2:-.} ;;
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
  digest=${value#muster-plan 1 }
  { tail -n +2 "$stage/plan" >"$stage/lines" && sum "$stage/lines" && [ "$value" = "$digest" ]; } || hold bad-plan 'the plan does not have the digest that it names' || return 1
  touch "$stage/sums"
  while IFS= read -r line; do
    understood "$line" || hold unknown-line "agent $version does not know: $line" || return 1
    case $line in put*) line=${line#* * } && { echo "${line%% *}  files/${line%% *}" >>"$stage/sums" || return 1; } ;; esac
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
    hold) held=yes && line=${line#hold } && hold "$2" "${line#* }" ;;
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
  [ "$mounted $filesystem $wal" = "yes $1 absent" ] || hold guard "etcd does not begin anew: ${mounted:-not} mounted, filesystem ${filesystem:-none} for $1, WAL $wal"
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
    name=${entry##*/}
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
  containerd tasks list 2>/dev/null | sed -n 's/^\([^ ]*\) .*RUNNING.*/\1/p' >"$run/tasks"
  label='labels."io.kubernetes'
  [ ! -s "$run/tasks" ] || containerd containers list -q "$label.pod.namespace\"==kube-system,$label.pod.name\"==etcd-$1,$label.container.name\"==etcd" 2>/dev/null | grep -Fxf "$run/tasks"
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
  etcd --name "$2" --data-dir "$1" --force-new-cluster --listen-client-urls unix://client:0 --advertise-client-urls unix://client:0 \
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
  [ -z "${9:-}" ] || end_pod "$5" 1
  etcd_down || return 1
  copy=$state/etcd.copy new=$state/etcd.restored-$3 kept=$state/etcd.before-$3
  case $6 in *:*) url=https://[$6]:2380 ;; *) url=https://$6:2380 ;; esac
  bump='' with=''
  [ "$8" = 0 ] || bump="--bump-revision $8 --mark-compacted"
  if [ ! -e "$kept" ] && [ ! -e "$new" ]; then
    [ -z "${9:-}" ] || { with=with_image && try restore-failed mount_image "$9"; } || return 1
    # shellcheck disable=SC2086 # words
    try write-failed rm -rf "$copy" "$new.part" && try write-failed cp -a "$state/etcd" "$copy" && try restore-failed $with replay "$copy" "$4" &&
      try restore-failed $with restore_snapshot "$7" "$copy/member/snap/db" --skip-hash-check --name "$4" --data-dir "$new.part" \
        --initial-cluster "$4=$url" --initial-advertise-peer-urls "$url" --initial-cluster-token "muster-$3" $bump &&
      try write-failed sync -f "$state" && try write-failed mv -T "$new.part" "$new" || return 1
  fi
  [ -e "$kept" ] || try write-failed mv -T "$state/etcd/member" "$kept" || return 1
  [ -e "$state/etcd/member" ] || try write-failed mv -T "$new/member" "$state/etcd/member" || return 1
  { [ -z "${9:-}" ] || try restore-failed unmount_image; } && try write-failed rm -rf "$copy" "$new" && try write-failed sync -f "$state" &&
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
  [ -s "$2" ] || hold no-key "this machine has no key ${2##*/}" || return 1
  { cat "$1" && if [ "$3" = base64 ]; then base64 -w 0 "$2" && echo; else cat "$2"; fi; } >"$stage/with-key" || hold write-failed "no room in $run"
}

directory() {
  above "$2/" || return 1
  [ "$(stat -c %a "$2")" = "$1" ] || chmod "$1" "$2"
}

link() {
  if [ "$1" = absent ] && { [ -e "$2" ] || [ -L "$2" ]; }; then return 0; fi
  new=${2%/*}/.muster-new.${2##*/}
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
  echo "${said%%See *}${wrote:+ It wrote: $wrote}"
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
