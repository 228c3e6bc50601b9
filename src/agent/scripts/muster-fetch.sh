#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the plan's lines that download, `fetch` and
# `unpack`.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# How many octets a file may have whose size the plan does not name.
most_octets=2147483648

# Downloads URL $1 to file $2, of at most $3 octets, continuing where an earlier attempt was cut
# off. A server that names no size is stopped by the limit of the process (signal 25, in blocks of
# 512 octets). Removes what is too large, cannot be continued or has no room (curl's exit codes 22,
# 23, 33, 36 and 63).
download() {
  (
    ulimit -f $(($3 / 512 + 1))
    exec curl -q --silent --show-error --fail --proto =http,https --noproxy '*' \
      --connect-timeout 10 --speed-time 30 --speed-limit 1000 --max-filesize "$3" \
      --continue-at - --output "$2" "$1"
  ) && return 0
  case $? in
    63 | 153)
      echo "$1 is larger than $3 octets"
      rm -f "$2"
      ;;
    22 | 23 | 33 | 36) rm -f "$2" ;;
  esac
  return 1
}

# Brings what URL $1 serves, with SHA-256 $2 and size $4 (if the plan names it), to file $3: what is
# there already, the copy that this machine kept, or a download. Keeps a copy if this machine keeps
# what it fetches.
get() {
  obtain "$1" "$2" "$3" "$4" || return 1
  if [ "$sha256" != "$2" ]; then
    rm -f "$3"
    hold wrong-hash "$1 is not what the plan names: its SHA-256 is $sha256"
    return 1
  fi
  keeps_plans || return 0
  [ -e "$shelf/$2" ] || try keep-failed replace "$3" 600 "$shelf/$2"
}

# As get, but does not compare a download with $2. Sets sha256 to the file's own.
obtain() {
  if [ -e "$3" ] && sha256 "$3" && [ "$sha256" = "$2" ]; then
    return 0
  fi
  ! copy_from_shelf "$2" "$3" || return 0
  make_parent "$3" || return 1
  most=$most_octets
  ! is_number "$4" || most=$4
  try fetch-failed download "$1" "$3" "$most" || return 1
  sha256 "$3"
}

# Does plan line `fetch MODE SHA256 PATH URL [SIZE]`; PATH with $root before it.
fetch() {
  ! is_as_planned "$3" "$1" "$2" || return 0
  fetched=${3%/*}/.muster-get.$2
  get "$4" "$2" "$fetched" "${5:-}" || return 1
  note_change "$3" || return 1
  try write-failed chmod "$1" "$fetched" || return 1
  try write-failed sync "$fetched" || return 1
  try write-failed mv -fT "$fetched" "$3" || return 1
  try write-failed sync "${3%/*}"
}

# Does plan line `unpack SHA256 DIRECTORY URL [SIZE]`; DIRECTORY with $root before it. An empty file
# next to what was unpacked marks the archive as done.
unpack() {
  fetched=$2/.muster-get.$1
  forget_other_archives "$2"
  [ ! -e "$2/.muster-unpacked.$1" ] || return 0
  get "$3" "$1" "$fetched" "${4:-}" || return 1
  note_change "$2" || return 1
  try unpack-failed tar --no-same-owner -xf "$fetched" -C "$2" || return 1
  try write-failed sync -f "$2" || return 1
  try write-failed truncate -s 0 "$fetched" || return 1
  try write-failed mv -T "$fetched" "$2/.muster-unpacked.$1"
}

# Removes the marks in directory $1 of archives that the plan no longer names: a later archive may
# have overwritten their files, so they are unpacked again if a plan names them again.
forget_other_archives() {
  for unpacked_mark in "$1"/.muster-unpacked.*; do
    case $(cat "$stage/lines") in
      *"unpack ${unpacked_mark##*.} ${1#"$root"} "*) ;;
      *) rm -f "$unpacked_mark" ;;
    esac
  done
}
