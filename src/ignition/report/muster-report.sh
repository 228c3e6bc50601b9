#!/bin/sh
# Tells the boot server how far this machine's boot has come:
#
#     muster-report.sh kernel|configured|ready|failed [DETAIL [LOGFILE]]
#
# The server and the boot session are in muster.url= on the kernel command line; without it there is
# nobody to tell and nothing happens. `configured` first asks cloud-init whether it really applied
# this boot's configuration, and fails if not. `failed` sends the end of LOGFILE, or of the journal.
# Needs curl or wget. Gives up after some four minutes.
set -fu

cmdline=${MUSTER_CMDLINE:-/proc/cmdline}
notes=${MUSTER_NOTES:-/run/muster-failed}
cloud_result=${MUSTER_CLOUD_RESULT:-/run/cloud-init/result.json}
tries=${MUSTER_TRIES:-40}
pause=${MUSTER_PAUSE:-5}
log_octets=16384

# The boot server is on this machine's own network; a proxy meant for the world would hide it.
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy

# The value of kernel argument $1; of several the last, as the kernel has it.
argument() {
  value=
  read -r line <"$cmdline"
  for word in $line; do
    case $word in "$1"=*) value=${word#*=} ;; esac
  done
  printf '%s' "$value"
}

# Every octet as %XX: always right in a form, and needs no table. Plain words stay, for systems
# without od.
encode() {
  text=$(cat)
  case $text in
    *[!A-Za-z0-9._-]*) printf '%s' "$text" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g' ;;
    *) printf '%s' "$text" ;;
  esac
}

# Prints why the configuration of this boot is not in force; prints nothing when it is, or when
# cloud-init is not used here.
configuration_fault() {
  command -v cloud-init >/dev/null 2>&1 || return 0
  if [ "$(cat /var/lib/cloud/data/instance-id 2>/dev/null)" = iid-datasource-none ]; then
    echo 'cloud-init found no data source and left the machine unconfigured'
    return 0
  fi
  # Written when its last stage has ended. Asking the command takes a slow machine ten seconds.
  ! grep -q '"errors": \[\]' "$cloud_result" 2>/dev/null || return 0
  cloud-init status --long 2>/dev/null | awk '
    /^status: error/ { failed = 1 }
    /^(detail|errors):/ { telling = 1 }
    telling { said = said " " $0 }
    END { if (failed) print "cloud-init failed:" substr(said, 1, 1000) }'
}

log_tail() {
  if [ -n "$1" ]; then
    tail -c "$log_octets" "$1" 2>/dev/null
  elif command -v journalctl >/dev/null 2>&1; then
    journalctl --boot --no-pager --output=short-monotonic --lines=300 2>/dev/null | tail -c "$log_octets"
  else
    dmesg 2>/dev/null | tail -c "$log_octets"
  fi
}

# 0: the server has it. 1: try again. 2: the server refuses it for good (the session is over).
post() {
  if command -v curl >/dev/null 2>&1; then
    status=$(curl --silent --output /dev/null --write-out '%{http_code}' --connect-timeout 5 --max-time 15 --data "$2" "$1")
    case $status in 2??) return 0 ;; 408 | 429) return 1 ;; 4??) return 2 ;; *) return 1 ;; esac
  fi
  # not wget -T: that of Debian 12's busybox (1.35) dies of it with a segmentation fault
  timeout 15 wget -q -O /dev/null --post-data "$2" "$1" 2>/dev/null
}

step=${1:-}
detail=${2:-}
log=
case $step in
  kernel) ;;
  configured)
    fault=$(configuration_fault)
    if [ -n "$fault" ]; then
      printf '%s\n' "$fault" | tee "$notes" >&2
      exit 1
    fi
    ;;
  ready)
    if [ -z "$detail" ] && command -v systemctl >/dev/null 2>&1; then
      broken=$(systemctl list-units --failed --plain --no-legend 2>/dev/null | awk '{ printf "%s ", $1 }')
      [ -z "$broken" ] || detail="failed units: $broken"
    fi
    ;;
  failed)
    [ -n "$detail" ] || detail=$(cat "$notes" 2>/dev/null)
    log=$(log_tail "${3:-}")
    ;;
  *)
    echo 'usage: muster-report.sh kernel|configured|ready|failed [DETAIL [LOGFILE]]' >&2
    exit 2
    ;;
esac

base=$(argument muster.url)
if [ -z "$base" ]; then
  echo 'muster-report: no muster.url= on the kernel command line; nobody to report to' >&2
  exit 0
fi

body="step=$step&detail=$(printf '%s' "$detail" | encode)"
[ -z "$log" ] || body="$body&log=$(printf '%s' "$log" | encode)"

while :; do
  post "$base/report" "$body"
  case $? in
    0) exit 0 ;;
    2)
      echo "muster-report: the server does not take '$step' for this boot session" >&2
      exit 0
      ;;
  esac
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || break
  sleep "$pause"
done
echo "muster-report: could not reach $base" >&2
exit 1
