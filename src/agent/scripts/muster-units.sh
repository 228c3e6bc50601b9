#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the plan's lines that make the running system
# follow the files, `load`, `run`, `reload` and `stop`; and `reboot`.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# How long systemctl may wait for a unit, which has limits of its own; systemd continues the job
# after systemctl was ended. A module that probes its hardware is loaded within seconds.
SYSTEMCTL_SECONDS=900
MODPROBE_SECONDS=120

# Does plan line `load sysctl|modules|hostname DIGEST`: makes the kernel follow the files, once in
# a boot for each digest.
load() {
  first_line "$run/loaded.$1"
  [ "$first_line" != "$2" ] || return 0
  case $1 in
    sysctl) try load-failed write_within 60 sysctl --quiet --system || return 1 ;;
    modules) load_modules || return 1 ;;
    hostname)
      try load-failed cp "$root/etc/hostname" "$root/proc/sys/kernel/hostname" || return 1
      ;;
  esac
  try write-failed write_line "$run/loaded.$1" "$2"
}

# Loads the kernel modules that the files of modules-load.d name.
load_modules() {
  for modules_file in "$root"/etc/modules-load.d/*.conf; do
    while read -r module_name; do
      case $module_name in
        [a-zA-Z0-9]*)
          try load-failed write_within $MODPROBE_SECONDS modprobe "$module_name" || return 1
          ;;
      esac
    done <"$modules_file"
  done
}

# Runs systemctl with verb $1 on unit $2. If that fails, prints what systemctl said and the last
# complaint in the unit's journal: nobody can look into the journal of a live machine later.
change_unit() {
  systemctl_output=$(write_within $SYSTEMCTL_SECONDS systemctl "$1" "$2" 2>&1) && return 0
  journalctl --quiet --no-pager --boot --output cat --lines 200 "_SYSTEMD_UNIT=$2" \
    >"$run/journal" 2>/dev/null
  complaint=$(last_complaint)
  echo "${systemctl_output%%See *}${complaint:+ It wrote: $complaint}"
  return 1
}

# Prints the last line of $run/journal that looks like an error; without one, the last line. What
# follows a complaint is left out: the calls that a program in Go was in (a function with its
# arguments, then the line of its source), and haproxy's summary.
last_complaint() {
  sed -e 's/,"stacktrace":.*//' -e '/^goroutine [0-9]/d' -e '/^created by /d' \
    -e '/^[^ (]*[./][^ ]*(.*)$/d' -e '/^panic({*0x/d' -e '/^[[:space:]].*\.go:[0-9]/d' \
    -e '/ found in configuration/d' -e '/Some protocols failed to start/d' \
    "$run/journal" >"$run/complaints"
  {
    grep -iE 'fatal|panic|error|fail|cannot|alert' "$run/complaints" || cat "$run/complaints"
  } | tail -n 1 | tail -c 280
}

# Makes the service manager read its units again, if a change of them was noted.
reload_manager() {
  [ -e "$run/daemon-reload" ] || return 0
  try unit-failed write_within $SYSTEMCTL_SECONDS systemctl daemon-reload || return 1
  rm -f "$run/daemon-reload"
}

# Makes unit $2 run, and restarts or reloads it ($1) once in a boot for each digest $3. A unit that
# has run since before the agent changed anything in this boot is up to date. --no-reload, because
# reading all units again takes the manager seconds and is needed only at the next boot. On an
# installed system the next boot begins without it, as on a system in memory.
run_unit() {
  reload_manager || return 1
  first_line "$run/unit.$2"
  started_with=$first_line
  unit_verb=start
  if systemctl is-active --quiet "$2"; then
    [ "$started_with" != "$3" ] || return 0
    if [ -n "$started_with" ] || [ -e "$run/changed" ]; then
      unit_verb=$1
    fi
  fi
  [ -z "$installed" ] || disable_unit "$2" || return 1
  # shellcheck disable=SC2086 # no word, or one
  try unit-failed write_within 120 systemctl enable --quiet --no-reload ${installed:+--runtime} \
    "$2" || return 1
  try unit-failed change_unit "$unit_verb" "$2" || return 1
  try write-failed write_line "$run/unit.$2" "$3"
}

# Stops and disables unit $1.
stop_unit() {
  if systemctl is-active --quiet "$1"; then
    try unit-failed write_within $SYSTEMCTL_SECONDS systemctl stop "$1" || return 1
  fi
  if systemctl is-enabled --quiet "$1" 2>/dev/null; then
    disable_unit "$1" || return 1
    [ -z "$installed" ] || disable_unit "$1" --runtime || return 1
  fi
  rm -f "$run/unit.$1"
}

# Disables unit $1 at the boots to come, or for this one with $2.
disable_unit() {
  # shellcheck disable=SC2086 # no word, or one
  try unit-failed write_within 120 systemctl disable --quiet --no-reload ${2:-} "$1"
}

# Does plan line `reboot BOOTID`: reboots the machine if this is the boot with that id, and not
# again within ten minutes, so that a machine whose programs take long to end is not disturbed.
reboot_once() {
  first_line "$root/proc/sys/kernel/random/boot_id"
  [ "$first_line" = "$1" ] || return 0
  [ -z "$(find "$run/reboot" -mmin -10 2>/dev/null)" ] || return 0
  say 'the boot host orders a reboot'
  try reboot-failed write_within 120 systemctl reboot || return 1
  try write-failed touch "$run/reboot"
}
