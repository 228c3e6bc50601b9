#!/bin/sh
# What a machine must be before it is part of a cluster: `muster-check.sh NAME [WORD…]`, names as in
# CHECKS of src/agent/plan.ts. Prints the reason and fails if it is not so. Paths are below
# MUSTER_ROOT. Needs coreutils; `module` modprobe, `mtu` ping and ip.
set -fu
LC_ALL=C
export LC_ALL
root=${MUSTER_ROOT:-}

fail() {
  printf '%s\n' "$1"
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
  device=$(ip -o route get "$1" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
  [ ! -r "$root/sys/class/net/${device:-none}/mtu" ] || read -r octets <"$root/sys/class/net/$device/mtu"
  said=$(ping -n -M 'do' -c 3 -i 0.2 -W 2 -s $((octets - headers)) "$1" 2>&1) && return 0
  case $said in *'rag needed'* | *'essage too long'* | *'acket too big'* | *' option'*) return 0 ;; esac
  fail "$1 answers, but packets of $octets octets do not reach it in one piece"
}

# Seconds as dd says that it took, of standard input.
took() {
  while read -r _ octets _ rest; do
    case $octets in bytes) rest=${rest##*copied, } && echo "${rest%% *}" ;; esac
  done
}

# Seconds $1 as `ms`.
milliseconds() {
  ms=$(printf '%.3f' "${1:-0}" | tr -d '.')
  ms=${ms#"${ms%%[!0]*}"}
  ms=${ms:-0}
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
    [ ${#id} = 32 ] || fail '/etc/machine-id holds no machine-id'
    for other in "$@"; do
      [ "$id" != "$other" ] || fail "machine-id $id is of the image; every machine of it has the same"
    done
    ;;
  *) fail "no check is called $check" ;;
esac
