#!/bin/sh
# Checks one requirement that a machine must meet before it becomes part of a cluster.
#
#     muster-check.sh NAME [WORD...]
#
# The names are those of CHECKS in src/agent/wire/plan.ts. If a check fails, the reason is printed
# and the exit code is 1. Nothing is changed, except that `module` loads the module. Paths are
# below MUSTER_ROOT. Needs coreutils; `module` modprobe, `mtu` ping and ip, `skew` curl.
set -fu
LC_ALL=C
export LC_ALL
root=${MUSTER_ROOT:-}

# Prints reason $1 and exits.
fail() {
  printf '%s\n' "$1"
  exit 1
}

# memory MIB
check_memory() {
  while read -r name kib _; do
    [ "$name" != MemTotal: ] || break
  done <"$root/proc/meminfo"
  mib=$((kib / 1024))
  [ "$mib" -ge "$1" ] || fail "$mib MiB of memory; $1 are needed"
}

# cpus COUNT
check_cpus() {
  count=0
  while read -r name _; do
    [ "$name" != processor ] || count=$((count + 1))
  done <"$root/proc/cpuinfo"
  [ "$count" -ge "$1" ] || fail "$count processors; $1 are needed"
}

# cgroup2
check_cgroup2() {
  [ -e "$root/sys/fs/cgroup/cgroup.controllers" ] ||
    fail 'control groups are not the unified ones (version 2)'
}

# swapless
check_swapless() {
  [ "$(wc -l <"$root/proc/swaps")" -le 1 ] || fail 'swap is in use'
}

# module NAME
check_module() {
  [ ! -e "$root/sys/module/$(printf '%s' "$1" | tr - _)" ] || return 0
  modprobe "$1" 2>&1 || fail "the kernel has no module $1"
}

# port NUMBER [PROGRAM...]: nothing listens at TCP port NUMBER but the PROGRAMs. In /proc/net/tcp a
# listening socket has state 0A, and an address ends in the port.
check_port() {
  set +f
  port=$1
  shift
  own_programs=$*
  port_suffix=$(printf ':%04X' "$port")
  for table in tcp tcp6; do
    [ -r "$root/proc/net/$table" ] || continue
    while read -r _ address _ socket_state _ _ _ _ _ inode _; do
      case "$address $socket_state" in
        *"$port_suffix 0A") ;;
        *) continue ;;
      esac
      belongs_to_own_program "$inode" || fail "something else listens at TCP port $port"
    done <"$root/proc/net/$table"
  done
}

# Whether one of $own_programs holds the socket with inode $1.
belongs_to_own_program() {
  for process in "$root"/proc/[0-9]*; do
    ! holds_socket "$process" "$1" 2>/dev/null || return 0
  done
  return 1
}

# Whether process $1 (a directory of /proc) is one of $own_programs and holds the socket with inode
# $2.
holds_socket() {
  read -r name <"$1/comm" || return 1
  case " $own_programs " in
    *" $name "*) ;;
    *) return 1 ;;
  esac
  for handle in "$1"/fd/*; do
    [ "$(readlink "$handle")" != "socket:[$2]" ] || return 0
  done
  return 1
}

# mtu ADDRESS OCTETS: packets as large as the network device sends them reach ADDRESS in one piece;
# OCTETS is the size where the device is not known. The check passes if
# the member does not answer at all, which proves nothing; if a router reports its MTU, because both
# ends then adapt to it; and with busybox's ping, which has no option to forbid fragments.
check_mtu() {
  headers=28
  case $1 in
    *:*) headers=48 ;;
  esac
  ping -n -q -c 1 -W 2 "$1" >/dev/null 2>&1 || return 0
  octets=$2
  device=$(ip -o route get "$1" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
  device_mtu=$root/sys/class/net/${device:-none}/mtu
  [ ! -r "$device_mtu" ] || read -r octets <"$device_mtu"
  ping_output=$(ping -n -M 'do' -c 3 -i 0.2 -W 2 -s $((octets - headers)) "$1" 2>&1) && return 0
  case $ping_output in
    *'rag needed'* | *'essage too long'* | *'acket too big'* | *' option'*) return 0 ;;
  esac
  fail "$1 answers, but packets of $octets octets do not reach it in one piece"
}

# fsync DIRECTORY MILLISECONDS: a small write with its sync takes no longer. Writes as etcd does,
# over space that is there already, and removes the file. The second slowest of 100 writes counts.
# Starting a hundred processes takes longer than the writes to a fast disk. Therefore one process
# does all writes first; if they take no longer together than one write may, the check passes.
check_fsync() {
  file=$root$1/.muster-fsync
  make_file "$root$1" 2>/dev/null || fail "cannot write to $root$1"
  all=$(write_synced count=100 | seconds_of_dd)
  milliseconds "$all"
  if [ -n "$all" ] && [ "$milliseconds" -le "$2" ]; then
    rm -f "$file"
    return
  fi
  second_slowest=$(write_one_by_one | seconds_of_dd | sort -g | tail -n 2 | head -n 1)
  rm -f "$file"
  milliseconds "$second_slowest"
  if [ "$milliseconds" -gt "$2" ]; then
    writes="of 100 small writes to $root$1 with fdatasync"
    fail "$writes, the second slowest took $milliseconds ms; $2 are allowed"
  fi
}

# Makes $file, of 100 blocks, and directory $1 that it is in.
make_file() {
  mkdir -p "$1" || return 1
  dd if=/dev/zero of="$file" bs=2300 count=100 conv=fsync status=none
}

# Writes to $file with dd's arguments $1 ..., and syncs after each block. Prints what dd prints.
write_synced() {
  dd if=/dev/zero of="$file" bs=2300 "$@" conv=notrunc oflag=dsync 2>&1
}

# Writes the 100 blocks of $file one by one. Prints what dd prints.
write_one_by_one() {
  block=0
  while [ "$block" -lt 100 ]; do
    write_synced count=1 seek="$block"
    block=$((block + 1))
  done
}

# Reads the output of one or more dd, and prints the seconds that each took, one a line.
seconds_of_dd() {
  while read -r _ octets _ rest; do
    case $octets in
      bytes)
        rest=${rest##*copied, }
        echo "${rest%% *}"
        ;;
    esac
  done
}

# Converts $1 seconds, and sets milliseconds.
milliseconds() {
  milliseconds=$(printf '%.3f' "${1:-0}" | tr -d '.')
  milliseconds=${milliseconds#"${milliseconds%%[!0]*}"}
  milliseconds=${milliseconds:-0}
}

# machine-id [ID...]: the machine has a valid machine-id, and it is none of the IDs.
check_machine_id() {
  id=
  [ ! -r "$root/etc/machine-id" ] || read -r id <"$root/etc/machine-id"
  case $id in
    *[!0-9a-f]* | 00000000000000000000000000000000) id= ;;
  esac
  [ ${#id} = 32 ] || fail '/etc/machine-id holds no machine-id'
  for other in "$@"; do
    [ "$id" != "$other" ] ||
      fail "machine-id $id is of the image; every machine of it has the same"
  done
}

# skew VERSION PORT ADDRESS...: an API server of VERSION may run next to those at PORT of the
# ADDRESSes: the minor versions differ by at most one. A machine that slept through an upgrade and
# starts without the boot server would break that. An API server that does not answer proves
# nothing.
check_skew() {
  wanted_version=$1
  api_port=$2
  shift 2
  for address in "$@"; do
    other_version=$(api_version "$address")
    is_next_to "$wanted_version" "$other_version" ||
      fail "the API server at $address is $other_version, and $wanted_version, which this machine \
would start, must not run next to it; the boot server has a newer plan for this machine"
  done
}

# Prints the version of the API server at address $1, like 1.36.3; nothing if it does not answer, or
# cannot show that it belongs to this cluster.
api_version() {
  pki=$root/etc/kubernetes/pki
  url_host=$1
  case $1 in
    *:*) url_host="[$1]" ;;
  esac
  curl -q --silent --noproxy '*' --connect-timeout 2 --max-time 5 --capath "$root/none" \
    --cacert "$pki/ca-bundle.crt" --cert "$pki/apiserver-kubelet-client.crt" \
    --key "$pki/apiserver-kubelet-client.key" "https://$url_host:$api_port/version" 2>/dev/null |
    head -c 4000 |
    sed -n 's/.*"gitVersion": *"v\([0-9]\{1,3\}\.[0-9]\{1,3\}\.[0-9]\{1,4\}\)["+-].*/\1/p' |
    head -n 1
}

# Whether an API server of version $1 may run next to one of version $2, if that is known.
is_next_to() {
  [ -n "$2" ] || return 0
  [ "${1%%.*}" = "${2%%.*}" ] || return 1
  own_minor=${1#*.}
  own_minor=${own_minor%%.*}
  other_minor=${2#*.}
  other_minor=${other_minor%%.*}
  [ $((own_minor - other_minor)) -le 1 ] && [ $((other_minor - own_minor)) -le 1 ]
}

check=$1
shift
case $check in
  memory) check_memory "$1" ;;
  cpus) check_cpus "$1" ;;
  cgroup2) check_cgroup2 ;;
  swapless) check_swapless ;;
  module) check_module "$1" ;;
  port) check_port "$@" ;;
  mtu) check_mtu "$1" "$2" ;;
  fsync) check_fsync "$1" "$2" ;;
  skew) check_skew "$@" ;;
  machine-id) check_machine_id "$@" ;;
  *) fail "no check is called $check" ;;
esac
