#!/bin/sh
# Part of the agent's scripts, which read it in: runs a program that asks the hardware, so that one
# that hangs does not stop the agent. Needs coreutils, or busybox.
# shellcheck disable=SC2154 # variables that other parts set

# Runs program $2 … for at most $1 seconds, without standard input, and prints what it wrote: at
# most 1 MiB. Fails as the program does; with 124, and a reason on standard error, if it did not
# end. A program that waits in the kernel ends by no signal. Nothing waits for it or for its output,
# and it is not started again before it has ended. The program gets neither the plan's lines
# (descriptor 3) nor the lock (9).
within() {
  within_limit=$1
  shift
  if is_stuck "$*"; then
    echo "$1 still waits in the kernel" >&2
    return 124
  fi
  mkdir -p "$run" || return 1
  within_files=$(mktemp -d "$run/within.XXXXXXXX") || return 1
  mkfifo "$within_files/ended" || return 1
  {
    (
      ulimit -f 2048
      exec timeout -k 2 "$within_limit" "$@"
    ) >"$within_files/out" 2>"$within_files/err" &
    echo $! >"$within_files/job"
    wait $!
    echo $? >"$within_files/ended"
  } </dev/null >/dev/null 2>&1 3>&- 9>&- &
  within_status=$(timeout "$((within_limit + 4))" cat "$within_files/ended" 3>&- 9>&-)
  cat "$within_files/out"
  cat "$within_files/err" >&2
  read -r within_job <"$within_files/job"
  rm -rf "$within_files"
  # timeout itself ends with 124, the program by SIGKILL or, under busybox, by SIGTERM.
  case $within_status in
    '' | 124 | 137 | 143)
      ! is_there "$within_job" || echo "$within_job $*" >>"$run/stuck"
      echo "$1 did not end within $within_limit seconds" >&2
      return 124
      ;;
  esac
  return "$within_status"
}

# Whether a program that was started with the words $1 was left behind and is still there.
is_stuck() {
  [ -e "$run/stuck" ] || return 1
  while read -r stuck_job stuck_words; do
    [ "$stuck_words" = "$1" ] || continue
    ! is_there "$stuck_job" || return 0
  done <"$run/stuck"
  return 1
}

# Whether process $1 or one of its group is there: the timeout of coreutils starts a group, that of
# busybox becomes the program.
is_there() {
  kill -0 "$1" 2>/dev/null || kill -0 "-$1" 2>/dev/null
}
