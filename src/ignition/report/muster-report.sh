#!/bin/sh
# Reports to the boot server how far this machine's boot has come.
#
#     muster-report.sh kernel|configured|ready|failed [DETAIL [LOGFILE]]
#     muster-report.sh console|spool
#
# `console` sends what the kernel and the system printed since the last time, once; `spool` only
# puts it into the files part.NNN of the spool directory, for the agent, which sends them itself.
#
# The kernel argument muster.url= names the server and the boot session; without it nothing happens.
# `configured` first asks cloud-init whether it applied this boot's configuration, and fails if it
# did not. `failed` sends the end of LOGFILE, or of the journal. Needs curl or wget. Gives up after
# about four minutes. Changes nothing but the note of why the configuration failed, and the file
# MUSTER_REPORTED, which it makes when the server has believed a report.
set -fu

cmdline=${MUSTER_CMDLINE:-/proc/cmdline}
notes=${MUSTER_NOTES:-/run/muster-failed}
cloud_result=${MUSTER_CLOUD_RESULT:-/run/cloud-init/result.json}
tries=${MUSTER_TRIES:-40}
pause=${MUSTER_PAUSE:-5}
log_octets=16384
spool=${MUSTER_CONSOLE:-/run/muster/console}
reported=${MUSTER_REPORTED:-}
# Octets of lines in one request, and in all that wait; the first ones and the last ones are kept.
part_octets=15000
first_octets=131072
last_octets=65536
# The units whose lines of the journal are sent; init.scope is systemd itself.
units='init.scope muster-agent.service muster-inline.service muster-configured.service
  muster-ready.service muster-failed.service containerd.service crio.service kubelet.service'

# The boot server is on this machine's own network, where a proxy for the internet cannot reach it.
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy

# Prints the value of kernel argument $1. If it is given several times, the last one counts, as for
# the kernel.
argument() {
  value=
  read -r line <"$cmdline"
  for word in $line; do
    case $word in
      "$1"=*) value=${word#*=} ;;
    esac
  done
  printf '%s' "$value"
}

# Prints standard input with every octet as %XX, which is always right in a form. Plain words stay
# as they are, for systems without od.
encode() {
  text=$(cat)
  case $text in
    *[!A-Za-z0-9._-]*)
      printf '%s' "$text" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g'
      ;;
    *)
      printf '%s' "$text"
      ;;
  esac
}

# Prints why the configuration of this boot was not applied. Prints nothing if it was, or if
# cloud-init is not used here. cloud-init writes its result when its last stage has ended; asking
# the command instead takes a slow machine ten seconds.
configuration_fault() {
  command -v cloud-init >/dev/null 2>&1 || return 0
  if [ "$(cat /var/lib/cloud/data/instance-id 2>/dev/null)" = iid-datasource-none ]; then
    echo 'cloud-init found no data source and left the machine unconfigured'
    return 0
  fi
  ! grep -q '"errors": \[\]' "$cloud_result" 2>/dev/null || return 0
  cloud-init status --long 2>/dev/null | awk '
    /^status: error/ { failed = 1 }
    /^(detail|errors):/ { telling = 1 }
    telling { said = said " " $0 }
    END { if (failed) print "cloud-init failed:" substr(said, 1, 1000) }'
}

# Prints the end of file $1. Without $1, prints the end of the journal or of the kernel's messages.
log_tail() {
  if [ -n "$1" ]; then
    tail -c "$log_octets" "$1" 2>/dev/null
    return
  fi
  if command -v journalctl >/dev/null 2>&1; then
    journalctl --boot --no-pager --output=short-monotonic --lines=300
  else
    dmesg
  fi 2>/dev/null | tail -c "$log_octets"
}

# Posts form $2 to URL $1. Returns 0 if the server has it, 1 if it must be tried again, 2 if the
# server refuses it for good because the session is over.
post() {
  if command -v curl >/dev/null 2>&1; then
    status=$(
      curl --silent --output /dev/null --write-out '%{http_code}' \
        --connect-timeout 5 --max-time 15 --data "$2" "$1"
    )
    case $status in
      2??) return 0 ;;
      408 | 429) return 1 ;;
      4??) return 2 ;;
      *) return 1 ;;
    esac
  fi
  # wget -T of Debian 12's busybox (1.35) crashes with a segmentation fault, hence timeout.
  timeout 15 wget -q -O /dev/null --post-data "$2" "$1" 2>/dev/null
}

# Exits 1 if the configuration was not applied, and writes the reason down for the report `failed`.
require_configuration() {
  fault=$(configuration_fault)
  [ -n "$fault" ] || return 0
  printf '%s\n' "$fault" | tee "$notes" >&2
  exit 1
}

# Prints which units have failed, if any.
failed_units() {
  command -v systemctl >/dev/null 2>&1 || return 0
  units=$(
    systemctl list-units --failed --plain --no-legend 2>/dev/null | awk '{ printf "%s ", $1 }'
  )
  [ -z "$units" ] || printf 'failed units: %s' "$units"
}

# Posts form $2 to URL $1 until the server has it or refuses it. Fails when it gives up.
report() {
  while :; do
    post "$1" "$2"
    case $? in
      0)
        [ -z "$reported" ] || : >"$reported"
        return 0
        ;;
      2)
        echo "muster-report: the server does not take '$step' for this boot session" >&2
        return 0
        ;;
    esac
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep "$pause"
  done
}

# Prints the kernel's lines that are newer than the last one that was spooled.
kernel_lines() {
  newest=$(cat "$spool/kernel" 2>/dev/null)
  dmesg 2>/dev/null | awk -v newest="${newest:--1}" '
    match($0, /^\[ *[0-9]+\.[0-9]+\]/) { fresh = substr($0, 2, RLENGTH - 2) + 0 > newest + 0 }
    fresh' >"$spool/new"
  newest=$(sed -n 's/^\[ *\([0-9.]*\)\].*/\1/p' "$spool/new" | tail -n 1)
  [ -z "$newest" ] || echo "$newest" >"$spool/kernel"
  cat "$spool/new"
}

# Prints the new lines of the journal. Those that continue a line get its time, for sorting.
journal_lines() {
  command -v journalctl >/dev/null 2>&1 || return 0
  set --
  for unit in $(printf '%s' "$units" | tr '\n' ' '); do
    set -- "$@" "_SYSTEMD_UNIT=$unit"
  done
  journalctl --boot --no-pager --quiet --output=short-monotonic \
    --cursor-file="$spool/journal" "$@" 2>/dev/null |
    awk 'match($0, /^\[ *[0-9]+\.[0-9]+\] /) { time = substr($0, 1, RLENGTH); print; next }
      { print time $0 }'
}

# Prints the names of the files in the spool, the oldest first.
parts() {
  set +f
  for part in "$spool"/part.*; do
    [ ! -e "$part" ] || echo "$part"
  done
  set -f
}

# Puts the new lines into the files part.NNN of the spool, in the order of their times and without
# the id of the boot session, unless earlier files are still there.
spool_lines() {
  umask 077
  mkdir -p "$spool" || return 1
  [ -z "$(parts)" ] || return 0
  kernel_lines >"$spool/both"
  journal_lines >>"$spool/both"
  sort -s -k 1.1,1.14 "$spool/both" | cut -c 1-1000 |
    sed 's#muster\.url=[^ ]*#muster.url=[hidden]#g
      s#/boot/[A-Za-z0-9_-]\{20,\}#/boot/[hidden]#g' >"$spool/lines"
  if [ "$(wc -c <"$spool/lines")" -gt $((first_octets + last_octets)) ]; then
    head -c "$first_octets" "$spool/lines" >"$spool/new"
    printf '\n[lines were left out here]\n' >>"$spool/new"
    tail -c "$last_octets" "$spool/lines" >>"$spool/new"
    mv "$spool/new" "$spool/lines"
  fi
  awk -v limit="$part_octets" -v name="$spool/part." '
    { size += length($0) + 1 }
    part == "" || size > limit { part = sprintf("%s%03d", name, ++number); size = length($0) + 1 }
    { print >part }' "$spool/lines"
  rm -f "$spool/both" "$spool/lines" "$spool/new"
}

# Sends what is in the spool, one try each. What the server does not take now stays for later.
send_console() {
  boot=$(cat /proc/sys/kernel/random/boot_id)
  for part in $(parts); do
    post "$base/console" "boot=$boot&lines=$(encode <"$part")"
    case $? in
      0 | 2) rm -f "$part" ;;
      *) return 1 ;;
    esac
  done
}

step=${1:-}
detail=${2:-}
log=
case $step in
  kernel) ;;
  configured) require_configuration ;;
  ready)
    [ -n "$detail" ] || detail=$(failed_units)
    ;;
  failed)
    [ -n "$detail" ] || detail=$(cat "$notes" 2>/dev/null)
    log=$(log_tail "${3:-}")
    ;;
  console | spool) ;;
  *)
    echo 'usage: muster-report.sh kernel|configured|ready|failed|console|spool [DETAIL [LOG]]' >&2
    exit 2
    ;;
esac

if [ "$step" = spool ]; then
  spool_lines
  exit
fi
base=$(argument muster.url)
if [ -z "$base" ]; then
  echo 'muster-report: no muster.url= on the kernel command line; nobody to report to' >&2
  exit 0
fi
if [ "$step" = console ]; then
  spool_lines && send_console
  exit
fi
form="step=$step&detail=$(printf '%s' "$detail" | encode)"
[ -z "$log" ] || form="$form&log=$(printf '%s' "$log" | encode)"
if ! report "$base/report" "$form"; then
  echo "muster-report: could not reach $base" >&2
  exit 1
fi
