#!/bin/sh
# Part of the agent's scripts, which read it in: runs a program that asks or writes to the hardware,
# so that one that hangs does not stop the agent. Needs coreutils, or busybox.
# shellcheck disable=SC2154 # variables that other parts set

# The largest file that the program may write, in blocks of 512 octets.
within_blocks=2048

# Runs program $2 ... for at most $1 seconds, without standard input, and prints what it wrote: at
# most 1 MiB. Fails as the program does; with 124, and a reason on standard error, if it did not
# end. A program that waits in the kernel ends by no signal. Nothing waits for it or for its output,
# and it is not started again before it has ended. The program gets neither the plan's lines
# (descriptor 3) nor the lock (9). If it did not end, $run/hung says so to `try`.
within() {
  within_limit=$1
  shift
  if is_stuck "$*"; then
    hung "$1 still waits in the kernel"
    return
  fi
  [ -d "$run" ] || mkdir -p "$run" || return 1
  within_files=$(mktemp -d "$run/within.XXXXXXXX") || return 1
  mkfifo "$within_files/ended" || return 1
  {
    (
      ulimit -f "$within_blocks"
      exec timeout -k 2 "$within_limit" "$@"
    ) >"$within_files/out" 2>"$within_files/err" &
    echo $! >"$within_files/job"
    wait $!
    echo $? >"$within_files/ended"
  } </dev/null >/dev/null 2>&1 3>&- 9>&- &
  within_status=$(timeout "$((within_limit + 4))" cat "$within_files/ended" 3>&- 9>&-)
  [ ! -s "$within_files/out" ] || cat "$within_files/out"
  [ ! -s "$within_files/err" ] || cat "$within_files/err" >&2
  read -r within_job <"$within_files/job"
  rm -rf "$within_files"
  # timeout itself ends with 124, the program by SIGKILL or, under busybox, by SIGTERM.
  case $within_status in
    '' | 124 | 137 | 143)
      ! is_there "$within_job" || echo "$within_job $*" >>"$run/stuck"
      hung "$1 did not end within $within_limit seconds"
      return
      ;;
  esac
  return "$within_status"
}

# Like within, for a program that writes. Its limit is many times what it needs on a slow disk: a
# program that is ended has not done its work, and what it was to make has to be recognised as
# unfinished by a mark that is removed last.
write_within() {
  within_blocks=unlimited
  within "$@"
  written_status=$?
  within_blocks=2048
  return "$written_status"
}

# Notes that a program hung, with text $1, and fails with 124.
hung() {
  echo "$1" >&2
  echo "$1" >"$run/hung"
  return 124
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
# busybox becomes the program. A zombie has ended; where the first process is no init system, it
# stays for ever.
is_there() {
  kill -0 "$1" 2>/dev/null || kill -0 "-$1" 2>/dev/null || return 1
  for process_file in /proc/[0-9]*/stat; do
    read -r process_stat 2>/dev/null <"$process_file" || continue
    # The name before the last bracket may hold anything; then come state, parent and group.
    # shellcheck disable=SC2086 # words are wanted
    is_of_group "$1" "${process_file%/stat}" ${process_stat##*) } && return 0
  done
  return 1
}

# Whether the process of directory $2, of state $3 and group $5, runs and is process $1 or of its
# group.
is_of_group() {
  case $3 in
    Z | X) return 1 ;;
  esac
  [ "$2" = "/proc/$1" ] || [ "$5" = "$1" ]
}
