#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): messages, holds, and files that survive a power
# cut.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Prints message $1 on standard error.
say() {
  printf 'muster-agent: %s\n' "$1" >&2
}

# Holds the plan: sets hold_code to $1 and hold_text to $2, unless an earlier hold did. Prints the
# reason, unless the last plan was held for the same. Always fails.
hold() {
  [ -z "$hold_code" ] || return 1
  hold_code=$1
  hold_text=$(printf '%s' "$2" | tr -s '\0-\37\177' ' ' | head -c 400)
  if [ "$hold_code $hold_text" != "$plan_hold_code $plan_hold_text" ]; then
    say "$hold_code: $hold_text"
  fi
  return 1
}

# Runs command $2 ... in a subshell. If it fails, holds with code $1 and what the command printed.
# The command gets neither the plan's lines (descriptor 3) nor the lock (9): what it leaves running
# would keep the next agent from starting.
try() {
  try_code=$1
  shift
  [ ! -e "$run/hung" ] || rm -f "$run/hung"
  try_output=$("$@" 2>&1 3>&- 9>&-) && return 0
  [ ! -e "$run/hung" ] || hold program-hangs "$try_output" || return
  hold "$try_code" "${try_output:-$1 failed}"
}

# Sets first_line to the first line of file $1, or to nothing if there is none.
first_line() {
  first_line=
  if [ -r "$1" ]; then
    read -r first_line <"$1"
  fi 2>/dev/null
  :
}

# Sets setting to the value of $1 in agent.conf, or to nothing.
setting() {
  setting=
  while IFS= read -r setting_line || [ -n "$setting_line" ]; do
    case $setting_line in
      "$1="*) setting=${setting_line#*=} ;;
    esac
  done <"$etc/agent.conf"
}

# Sets sha256 to the SHA-256 of file $1.
sha256() {
  sha256=$(sha256sum <"$1") || return 1
  sha256=${sha256%% *}
}

# Whether $1 is a number of at most 15 digits.
is_number() {
  case $1 in
    '' | *[!0-9]* | ????????????????*) return 1 ;;
  esac
}

# Makes the directory that $1 is in, readable for everybody, unless it is there.
make_parent() {
  [ ! -d "${1%/*}" ] || return 0
  (umask 022 && mkdir -p "${1%/*}")
}

# Makes $1 (USER:GROUP) the owner of file $2; changes nothing if $1 is empty.
give_to() {
  [ -z "$1" ] || chown "$1" "$2"
}

# Copies file $1 to path $3 with mode $2 and, where given, owner $4, so that after a crash the path
# holds either the old or the new content, whole.
replace() {
  replacement=${3%/*}/.muster-new.${3##*/}
  if make_parent "$3" &&
    clear_way "$replacement" &&
    cp "$1" "$replacement" &&
    give_to "${4:-}" "$replacement" &&
    chmod "$2" "$replacement" &&
    put_in_place "$replacement" "$3"
  then
    return 0
  fi
  rm -f "$replacement"
  return 1
}

# Puts the written file $1 at path $2 of the same directory, durably.
put_in_place() {
  sync "$1" &&
    mv -fT "$1" "$2" &&
    sync "${2%/*}"
}

# Removes path $1, which is rarely there.
clear_way() {
  if [ -e "$1" ] || [ -L "$1" ]; then
    rm -rf "$1"
  fi
}

# Writes line $2 as file $1, readable for the agent alone (umask), with as few programs as it can:
# answers bring a new line with most polls.
write_line() {
  replacement=${1%/*}/.muster-new.${1##*/}
  if make_parent "$1" &&
    clear_way "$replacement" &&
    printf '%s\n' "$2" >"$replacement" &&
    put_in_place "$replacement" "$1"
  then
    return 0
  fi
  rm -f "$replacement"
  return 1
}

# Must be called before path $1 changes. Writes marks below /run: what runs may no longer be up to
# date, and the service manager may have to read its units again.
note_change() {
  if [ ! -e "$run/changed" ]; then
    try write-failed touch "$run/changed" || return 1
  fi
  case $1 in
    */systemd/system/*) try write-failed touch "$run/daemon-reload" ;;
  esac
}
