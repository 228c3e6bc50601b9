#!/bin/sh
# The agent of a machine in a Muster cluster. It reports facts about the machine, and carries out
# the server's plan. It decides nothing.
#
#     muster-agent.sh [once | inline]
#
# `once` polls once, and exits 0 if the poll succeeded and nothing is held. `inline` does the plan
# that came with the first configuration and asks no server. src/agent/README.md of Muster
# describes the protocol and the plan. Needs curl, openssl, tar, coreutils and util-linux.
#
# Every change is staged, synced and renamed, so the agent may be killed anywhere: run again, it
# ends in the same state. MUSTER_ROOT is put before every path, so that several agents can run on
# one host.
#
# This file holds the loop; its parts, which it reads in, hold everything else. They share
# three conventions:
#   - POSIX sh has no local variables. A function that finds out one text sets the variable that
#     has the function's own name (first_line sets $first_line); a function that finds out more
#     names in its comment what it sets.
#   - A function that fails returns non-zero, and its caller then does nothing more.
#   - `try CODE COMMAND ...` runs a command in a subshell. If it fails, the plan is held with CODE
#     and what the command printed.
# shellcheck disable=SC2034,SC2154 # variables that the parts set and read
set -u
umask 077
LC_ALL=C
export LC_ALL
unset SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE CURL_HOME OPENSSL_CONF

version=1
parts='base within serial identity tpm crypt approval talk clock versions facts inventory
  evidence plan files pairs fetch units data etcddisk etcd snapshot image kept upgrade'

root=$(readlink -f "${MUSTER_ROOT:-/}")
root=${root%/}
case $0 in
  */*) here=${0%/*} ;;
  *) here=. ;;
esac
state=$root/var/lib/muster
run=$root/run/muster
etc=$root/etc/muster
mode=${1:-}

for part in $parts; do
  # shellcheck source=/dev/null
  . "$here/muster-$part.sh"
done

# Sets the variables that come from agent.conf. Changes no file.
read_settings() {
  setting server
  server=$setting
  setting standby
  standby=$setting
  setting machine
  machine=$setting
  setting session
  session=$setting
  setting data
  data=$setting
  setting encrypt
  encrypt=$setting
  setting boot
  boot=$setting
  setting installed
  installed=$setting
  setting etcddisk
  etcd_data=$setting
  setting etcdencrypt
  etcd_encrypt=$setting
  setting etcd
  etcd_url=${setting:-http://127.0.0.1:2381}
  setting etcdclient
  etcd_client_url=${setting:-https://127.0.0.1:2379}
  setting api
  api_url=${setting:-https://127.0.0.1:6443}
}

# Sets from_boot_disk to yes if the kernel's arguments say that this boot came from the machine's
# own boot disk, else to nothing.
find_boot_origin() {
  from_boot_disk=
  case " $(cat "$root/proc/cmdline" 2>/dev/null)" in
    *' muster.kept='*) from_boot_disk=yes ;;
  esac
}

# Removes what the plan of the last boot has put on an installed system, or exits: static pods must
# not start before the boot host says so in this boot, as on a system in memory. Nothing of the
# cluster runs yet, because units are enabled until the next boot alone (run_unit).
forget_last_boot() {
  [ -n "$installed" ] && [ ! -e "$run/begun" ] || return 0
  rm -rf "$root/etc/kubernetes" && : >"$run/begun" || exit 1
}

# Makes /run/muster and takes the lock on file descriptor 9, or exits: two agents would overwrite
# each other's plan. Then removes what an agent that was killed may have left.
take_lock() {
  mkdir -p "$run"
  exec 9>"$run/lock"
  if ! flock -n 9; then
    say 'another agent runs already'
    exit 1
  fi
  rm -rf "$run/plan" "$run/ticket" "$run/key"
}

# Reports the facts and does the plan that the answer holds. Mounts the data filesystem and makes
# the machine's key first, where that has not been done. Fails if the poll must be repeated soon.
poll() {
  hold_code=$plan_hold_code
  hold_text=$plan_hold_text
  held=
  wanted_agent=
  look_at_disk
  if [ "$disk" = ours ] && [ -z "$mounted" ] && [ "$encrypted" != boot-host ]; then
    mount_data "$filesystem"
  fi
  look_at_etcd_disk
  mount_known_etcd
  choose_identity
  review_first_clock
  has_certificate || redeem || return 1
  unlock_data
  remember_identity
  get_configuration
  take_inventory
  post_facts
  wanted_agent=$answer_agent
  case $http_status in
    200 | 204) note_answer ;;
  esac
  case $http_status in
    200)
      keep_agent
      apply_plan
      ;;
    204) keep_agent ;;
    401)
      # The next poll uses the new certificate.
      redeem
      return 1
      ;;
    *)
      forget_failed_trial
      say "$asked_url: $http_status $answer_text"
      return 1
      ;;
  esac
}

# Notes that the server took the facts.
note_answer() {
  answered=yes
  inventory_arrived
}

# Handles SIGTERM: exits 0. If the whole machine goes down, it says so to the server first, so that
# the next boot need not wait until this one has been silent for a while.
leave() {
  trap '' TERM
  manager_state=$(systemctl is-system-running 2>/dev/null)
  if [ "$manager_state" = stopping ] && [ -s "$identity/agent.crt" ]; then
    first_line "$root/proc/sys/kernel/random/boot_id"
    ask /agent/leave \
      --cert "$identity/agent.crt" \
      --key "$identity/agent.key" \
      --connect-timeout 3 \
      --max-time 5 \
      --data-urlencode "bootid=$first_line"
  fi
  exit 0
}

# Does the plan that the first configuration brought, removes its file and exits. What the plan
# needs may still be on its way (a disk, the network), so it is tried for a minute; after that the
# failure goes to the server as a boot report.
do_inline_plan() {
  [ -e "$etc/inline.tar" ] || exit 0
  for pause in 2 4 8 16 30 0; do
    look_at_disk
    look_at_etcd_disk
    choose_identity
    if cp "$etc/inline.tar" "$run/body" && apply_plan; then
      rm -f "$etc/inline.tar" && exit 0
    fi
    sleep "$pause"
  done
  if [ -r "$etc/muster-report.sh" ]; then
    sh "$etc/muster-report.sh" failed "$plan_hold_code: $plan_hold_text" 9>&-
  fi
  exit 1
}

# Takes the next of the servers that agent.conf lists, after three polls in a row without an answer:
# the boot host may have been restored on another one. The one that did not answer becomes the last.
take_next_server() {
  [ -n "$standby" ] || return 0
  case $http_status$failures in
    000[3-6]) ;;
    *) return 0 ;;
  esac
  standby="$standby $server"
  server=${standby%% *}
  standby=${standby#* }
  say "the server does not answer; trying $server"
}

# Sleeps until the next poll: as long as the server asked for, after failures at least 1, 3, 7 and
# then 15 seconds, so that a machine whose plan fails is not taken for one without power after 40;
# never more than five minutes; and up to a quarter more, so that a thousand
# machines do not ask at the same moment. A machine that is held asks again in less than the time
# that the server asked for.
wait_for_next_poll() {
  if [ -n "$held" ]; then
    pause=${retry_after:-2}
    if [ "$pause" -lt 1 ] || [ "$pause" -gt 300 ]; then
      pause=2
    fi
    random=$(od -An -N1 -tu1 /dev/urandom)
    sleep "$((pause - 1)).$((random % 8))"
    return 0
  fi
  pause=${retry_after:-10}
  shortest=$(((1 << failures) - 1))
  [ "$shortest" -le 15 ] || shortest=15
  [ "$pause" -ge "$shortest" ] || pause=$shortest
  [ "$pause" -le 300 ] || pause=300
  random=$(od -An -N2 -tu2 /dev/urandom)
  sleep "$pause.$((random % 10))" || return 0
  sleep $((random % (pause / 4 + 1)))
}

if [ ! -r "$etc/agent.conf" ]; then
  say "there is no $etc/agent.conf"
  exit 1
fi
read_settings
find_boot_origin
identity=$run/agent
revision=0
checkpoint=0
failures=0
http_status=''
retry_after=''
held=''
wanted_agent=''
answered=''
shown_nonce=''
code_shown=0
verified_digest=''
seal_failed=''
unseal_failed=''
tpm_failures=0
data_key=''
data_token=''
tpm_fault=''
hold_code=''
hold_text=''
take_lock
forget_last_boot
find_own_build
first_line "$run/hold"
plan_hold_code=${first_line%% *}
plan_hold_text=${first_line#* }
set_first_clock
[ "$mode" != inline ] || do_inline_plan
trap leave TERM
while :; do
  answered=
  if poll; then
    failures=0
  else
    # A machine that is held got its answer: that is no failure.
    if [ -z "$held" ] && [ "$failures" -lt 6 ]; then
      failures=$((failures + 1))
    fi
    take_next_server
    do_kept_plan
  fi
  update_boot_disk
  [ -z "$answered" ] || (send_console)
  if [ "$mode" = once ]; then
    [ -z "$hold_code$held" ] && [ "$failures" = 0 ]
    exit
  fi
  take_wanted_agent
  wait_for_next_poll
done
