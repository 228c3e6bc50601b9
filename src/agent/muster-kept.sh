#!/bin/sh
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
  curl -q --silent --show-error --fail --proto =http,https --noproxy '*' --connect-timeout 10 --speed-time 30 --speed-limit 1000 \
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

# The lines `fetch` and `unpack` of a plan.
fetch() {
  new=${3%/*}/.muster-get.$2
  is_there "$3" "$1" "$2" || { get "$4" "$2" "$new" && changing "$3" && try write-failed chmod "$1" "$new" && try write-failed sync "$new" &&
    try write-failed mv -fT "$new" "$3" && try write-failed sync "${3%/*}"; }
}

# An empty file beside what was unpacked says so, as long as the plan names it: what a later archive
# wrote over is unpacked anew.
unpack() {
  new=$2/.muster-get.$1
  for old in "$2"/.muster-unpacked.*; do
    case $(cat "$stage/lines") in *"unpack ${old##*.} ${2#"$root"} "*) ;; *) rm -f "$old" ;; esac
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
    case $named in *" ${file##*/} "*) ;; *) rm -f "$file" ;; esac
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
