#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): what it reports about the machine. Nothing here
# changes the machine.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Asks muster-disk.sh by command $1 for the disk that selector $2 matches. Sets found_disk,
# found_device, found_filesystem, found_encrypted, found_mounted and found_detail.
find_disk() {
  found_disk=none
  found_device=''
  found_filesystem=''
  found_encrypted=''
  found_mounted=''
  found_detail='muster-disk.sh said nothing'
  disk_fields=$(sh "$here/muster-disk.sh" "$1" "$2")
  while IFS='=' read -r field text; do
    case $field in
      disk) found_disk=$text ;;
      device) found_device=$text ;;
      filesystem) found_filesystem=$text ;;
      encrypted) found_encrypted=$text ;;
      mounted) found_mounted=$text ;;
      detail) found_detail=$text ;;
    esac
  done <<FIELDS
$disk_fields
FIELDS
}

# Sets disk, device, filesystem, encrypted, mounted and detail: the state of the data disk.
look_at_disk() {
  find_disk look "$data"
  disk=$found_disk
  device=$found_device
  filesystem=$found_filesystem
  encrypted=$found_encrypted
  mounted=$found_mounted
  detail=$found_detail
}

# Sets wal to present or absent, by whether etcd's data hold a write-ahead log; to unknown while the
# filesystem that has them is not mounted.
look_at_wal() {
  find_etcd_home
  wal=absent
  if [ -n "$data" ] && [ -z "$home_mounted" ]; then
    wal=unknown
  fi
  for wal_file in "$etcd_home"/etcd/member/wal/*.wal; do
    [ ! -e "$wal_file" ] || wal=present
  done
}

# Whether nobody but root listens at TCP port $1. An ordinary user can take the port of a program
# that does not run, and say anything there. The kernel's tables have the owner of each socket.
is_roots_port() {
  port_hex=$(printf '%04X' "$1")
  ! cat "$root/proc/net/tcp" "$root/proc/net/tcp6" 2>/dev/null |
    grep -Eq ":$port_hex [0-9A-F]+:0000 0A [0-9A-F]+:[0-9A-F]+ [0-9A-F]+:[0-9A-F]+ [0-9A-F]+ +[1-9]"
}

# Sets etcd to serving, down (nothing listens) or alive. A member without quorum answers only after
# five seconds, so no answer within two means alive. An etcd that is full serves reads; etcd 3.4
# does not know `exclude`, and its member counts as alive then.
look_at_etcd() {
  etcd=alive
  if ! is_roots_port "${etcd_url##*:}"; then
    [ -n "${etcd_revision:-}" ] || etcd=down
    return 0
  fi
  etcd_answer=$(
    curl -q --silent --noproxy '*' --max-time 2 --output /dev/null --write-out '%{http_code}' \
      "$etcd_url/health?exclude=NOSPACE"
  )
  case $?$etcd_answer in
    7*) etcd=down ;;
    0200) etcd=serving ;;
  esac
}

# Whether the process in directory $1 of /proc is root's by all its user ids, as the first user
# namespace counts them, or in a cgroup that only root fills: one of kubelet's pods or of a unit of
# Muster's, which may have a user of its own. An ordinary user's process can have any name and
# environment; so can one that was started from a program with the set-user-ID bit.
is_roots() {
  grep -Eq '^Uid:([[:space:]]+0){4}$' "$1/status" 2>/dev/null ||
    grep -Eq '^[0-9]+:[^:]*:/(kubepods[./]|system\.slice/muster-[a-z]+\.service$)' "$1/cgroup" \
      2>/dev/null
}

# Whether the process in directory $1 of /proc can be a static pod's or a unit's: it is root's, has
# this host's network, and is in no pod of the API's. (The cgroup of such a pod has its UID, which
# is five groups of digits; the UID of a static pod is one group.) A process of any pod can have any
# name.
is_of_this_host() {
  is_roots "$1" || return 1
  [ "$(readlink "$1/ns/net")" = "$(readlink /proc/self/ns/net)" ] || return 1
  ! grep -Eqi 'pod[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}' "$1/cgroup"
}

# Sets etcd_revision, api_revision, manager_revision, scheduler_revision and kubelet_revision to the
# MUSTER_REVISION that the running processes were started with: nothing if no such process runs, -
# if it has none. Sets balancer to the directory in /proc of haproxy, if that runs, and runtime_runs
# to the name of the container runtime.
look_at_revisions() {
  etcd_revision=''
  api_revision=''
  manager_revision=''
  scheduler_revision=''
  kubelet_revision=''
  balancer=''
  runtime_runs=''
  for comm_file in "$root"/proc/[0-9]*/comm; do
    first_line "$comm_file"
    process_name=$first_line
    case $process_name in
      # The kernel keeps fifteen characters of kube-controller-manager.
      etcd | kube-apiserver | kube-controller | kube-scheduler | kubelet) ;;
      haproxy | containerd | crio) ;;
      *) continue ;;
    esac
    is_of_this_host "${comm_file%/comm}" || continue
    process_revision=$(
      tr '\0\n' '\n ' 2>/dev/null <"${comm_file%comm}environ" |
        sed -n 's/^MUSTER_REVISION=\([0-9a-f]\{1,64\}\)$/\1/p'
    )
    case $process_name in
      etcd) etcd_revision=${process_revision:--} ;;
      kube-apiserver) api_revision=${process_revision:--} ;;
      kube-controller) manager_revision=${process_revision:--} ;;
      kube-scheduler) scheduler_revision=${process_revision:--} ;;
      kubelet) kubelet_revision=${process_revision:--} ;;
      haproxy) balancer=${comm_file%/comm} ;;
      containerd | crio) runtime_runs=$process_name ;;
    esac
  done
}

# Sets api to ready or alive if an apiserver runs, else to nothing. Where apiservers refuse
# anonymous requests the plan brings a certificate to ask with. Without one, an apiserver that
# refuses the request (401) answers, and counts as ready.
look_at_api() {
  api=''
  [ -n "$api_revision" ] || return 0
  api=alive
  set -- "$root/etc/muster/health.pem"
  if [ -s "$1" ]; then
    set -- --cert "$1" --key "$1"
  else
    set --
  fi
  api_answer=$(
    curl -q --silent --noproxy '*' --max-time 2 --capath "$run/none" \
      --cacert "$root/etc/kubernetes/pki/ca-bundle.crt" \
      "$@" --output /dev/null --write-out '%{http_code}' "$api_url/readyz"
  )
  case $api_answer/$# in
    200/* | 401/0) api=ready ;;
  esac
}

# Sets boot_state and boot_text: how the boot disk was last brought up to date. Both are
# empty without a boot disk.
look_at_boot_disk() {
  boot_state=''
  boot_text=''
  [ -n "$boot" ] || return 0
  if [ -n "$from_boot_disk" ]; then
    boot_state=started
    boot_text='this boot is from it, by what it kept'
    return 0
  fi
  first_line "$run/bootdisk"
  if [ -z "$first_line" ] && [ -e "$run/root-damaged" ]; then
    first_line "$run/root-damaged"
    first_line="damaged $first_line"
  fi
  boot_state=${first_line%% *}
  boot_text=${first_line#* }
}

# Sets revision to the one that the identity's directory remembers, if that is higher.
recall_revision() {
  first_line "$identity/revision"
  is_number "${first_line%%.*}" || return 0
  [ "${first_line%%.*}" -le "${revision%%.*}" ] || revision=$first_line
}

# Sets checkpoint to the one that the identity's directory remembers, if its number is higher.
recall_checkpoint() {
  first_line "$identity/checkpoint"
  is_number "${first_line%%.*}" || return 0
  [ "${first_line%%.*}" -le "${checkpoint%%.*}" ] || checkpoint=$first_line
}

# Sets marker to the line that names the owner of the mounted data filesystem, and etcd_marker to
# that of the etcd disk's.
look_at_marker() {
  marker=''
  etcd_marker=''
  [ -n "$mounted" ] || return 0
  first_line "$state/marker"
  marker=$first_line
  [ -n "$etcd_mounted" ] || return 0
  first_line "$etcd_state/marker"
  etcd_marker=$first_line
}

# Sets full to a line `PATH PERCENT` for the system's filesystem and each data disk of which a tenth
# or less is free: kubelet evicts pods there, and etcd ends when nothing is.
look_at_space() {
  set -- "$root/"
  [ -z "$mounted" ] || set -- "$@" "$state"
  [ -z "$etcd_mounted" ] || set -- "$@" "$etcd_state"
  full=$(
    df -P "$@" 2>/dev/null |
      while read -r _ _ _ _ space_used space_path; do
        space_used=${space_used%'%'}
        is_number "$space_used" || continue
        [ "$space_used" -lt 90 ] || echo "$space_path $space_used"
      done
  )
}

# Posts the facts to the server; sets what `ask` sets. Each argument NAME=VALUE becomes a field of
# the form, NAME@FILE one that curl reads from the file.
post_facts() {
  recall_revision
  recall_checkpoint
  look_at_wal
  look_at_revisions
  look_at_etcd
  look_at_versions
  look_at_image
  look_at_api
  look_at_boot_disk
  look_at_marker
  look_at_programs
  look_at_ended
  look_at_listeners
  look_at_encryption
  look_at_kubelet_client
  look_at_tokens
  look_at_space
  read_clock_moved
  set -- agent="$version" build="$own_build" clock="$(date +%s)" clockmoved="$clock_moved"
  set -- "$@" disk="$disk" device="$device" filesystem="$filesystem"
  set -- "$@" mounted="$mounted" detail="$detail" marker="$marker"
  set -- "$@" encrypt="$encrypt" encrypted="$encrypted"
  if [ -n "$etcd_data" ]; then
    set -- "$@" etcddisk="$etcd_disk" etcddevice="$etcd_device"
    set -- "$@" etcdfilesystem="$etcd_filesystem" etcdmounted="$etcd_mounted"
    set -- "$@" etcddetail="$etcd_detail" etcdmarker="$etcd_marker"
    set -- "$@" etcdencrypt="$etcd_encrypt" etcdencrypted="$etcd_encrypted"
  fi
  set -- "$@" wal="$wal" etcd="$etcd" etcdrev="$etcd_revision" api="$api" apirev="$api_revision"
  set -- "$@" revision="$revision" checkpoint="$checkpoint" hold="$hold_code" holdtext="$hold_text"
  set -- "$@" bootdisk="$boot_state" boottext="$boot_text"
  set -- "$@" programs="$programs" tokens="$tokens" tokenpods="$token_pods" encryption="$encryption"
  set -- "$@" kubeletissuer="$kubelet_issuer" ended="$ended" full="$full"
  set -- "$@" runs="$running" image="$booted" data="$data"
  post_facts_of_files "$@"
}

# Adds the facts that are in files to the fields $1 ..., and posts them all.
post_facts_of_files() {
  first_line "$root/proc/sys/kernel/random/boot_id"
  set -- "$@" bootid="$first_line"
  first_line "$root/etc/machine-id"
  set -- "$@" machineid="$first_line"
  first_line "$agents/refused"
  set -- "$@" refused="$first_line"
  sha256=
  ! sha256 "$etc/ca.crt" || set -- "$@" trust="$sha256"
  first_line "$run/applied"
  set -- "$@" applied="$first_line"
  first_line "$run/step"
  set -- "$@" step="$first_line"
  first_line "$run/objects"
  set -- "$@" objects="$first_line"
  first_line "$run/prefetched"
  set -- "$@" prefetched="$first_line"
  first_line "$root/var/lib/kubelet/pki/kubelet-client-current.pem"
  set -- "$@" joined="$first_line"
  [ ! -s "$run/probes/seen" ] || set -- "$@" "listeners@$run/probes/seen"
  [ ! -s "$run/inventory.new" ] || set -- "$@" "inventory@$run/inventory.new"
  [ ! -s "$run/secrets" ] || set -- "$@" "secrets@$run/secrets"
  for key_file in "$identity"/keys/*.key; do
    [ -s "$key_file" ] || continue
    leaf=${key_file##*/}
    leaf=${leaf%.key}
    key_pin "$leaf"
    set -- "$@" "pin.$leaf=$key_pin"
  done
  for request_file in "$run"/requests/*; do
    [ ! -s "$request_file" ] || set -- "$@" "csr.${request_file##*/}@$request_file"
  done
  for fact in "$@"; do
    set -- "$@" --data-urlencode "$fact"
    shift
  done
  ask /agent/poll --cert "$identity/agent.crt" --key "$identity/agent.key" "$@"
}
