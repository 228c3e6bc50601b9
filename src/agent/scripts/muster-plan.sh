#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): checks a plan as a whole, then does it line by
# line.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Sets names, and path if there is an image, of a restore with words $2 and so on; the first $1 are
# there without an image.
read_restore() {
  names_before=$1
  shift
  names=
  while [ "$names_before" -gt 0 ]; do
    names="$names $1"
    names_before=$((names_before - 1))
    shift
  done
  [ "$#" -gt 0 ] || return 0
  path=/$1
  names="$names ${1%%/*}"
}

# Whether line $1 is one that this agent knows, is complete, and has only words that are safe to use
# in commands: `path` must be absolute, and `names` (the words that are neither path nor URL) hold
# no slash and begin with neither a dot nor a dash.
is_known_line() {
  case $1 in
    'hold '?*' '?*) return 0 ;;
    *[!A-Za-z0-9@%+=:,._/\ -]* | */..*) return 1 ;;
  esac
  # shellcheck disable=SC2086 # words of the set above
  set -- $1
  path=/
  case "${1:-} $#" in
    'request 3' | 'load 3' | 'run 3' | 'reload 3') names="$2 $3" ;;
    'mount-data 2' | 'mount-etcd 2' | 'guard-new 2' | 'guard-left 2' | 'stop 2') names=$2 ;;
    'step 2' | 'set-aside-etcd 2' | 'end-etcd 2' | 'snapshot-etcd 2' | 'reboot 2') names=$2 ;;
    'marker 5' | 'clear 5' | 'marker-etcd 5' | 'clear-etcd 5') names="$2 $3 $4 $5" ;;
    'restore-etcd 9' | 'restore-etcd 10') read_restore 9 "$@" ;;
    'restore-snapshot 10' | 'restore-snapshot 11') read_restore 10 "$@" ;;
    'check '*) names=${2:-.} ;;
    'probe '[123]) return 1 ;;
    'probe '*) names=$* ;;
    'request 4' | 'read-encryption 4') names="$2 $3 $4" ;;
    'create-data '[34] | 'create-etcd '[34]) path=$2 names="$3 ${4:-}" ;;
    'bind 3' | 'bind-etcd 3' | 'directory 3') path=$3 names=$2 ;;
    'put 4' | 'fetch 5') path=$4 names="$2 $3" ;;
    'fetch 6') path=$4 names="$2 $3 $6" ;;
    'put-owned 6') path=$4 names="$2 $3 $5 $6" ;;
    'put-password 3' | 'secret 3') names="$2 $3" ;;
    'put-with-key 6') path=$4 names="$2 $3 $5 $6" ;;
    'put-pair 5') path=${4%.crt} names="$2 $3 $5 ${4##*.}" ;;
    'unpack 4' | 'link 4') path=$3 names=$2 ;;
    'unpack 5') path=$3 names="$2 $5" ;;
    'remove 2') path=$2 names='' ;;
    *) return 1 ;;
  esac
  case $path in
    /*) ;;
    *) return 1 ;;
  esac
  case " $names" in
    */* | *' -'* | *' .'*) return 1 ;;
  esac
}

# Whether the plan's lines, which go to $stage/lines, have the digest that its first line names.
has_plan_digest() {
  first_line "$stage/plan"
  plan_digest=${first_line#muster-plan 1 }
  tail -n +2 "$stage/plan" >"$stage/lines" || return 1
  sha256 "$stage/lines" || return 1
  [ "$sha256" = "$plan_digest" ]
}

# Checks every line of the plan, and writes the files that its lines name to $stage/sums.
check_lines() {
  while IFS= read -r line; do
    is_known_line "$line" || hold unknown-line "agent $version does not know: $line" || return 1
    case $line in
      put*)
        file_digest=${line#* * }
        file_digest=${file_digest%% *}
        echo "$file_digest  files/$file_digest" >>"$stage/sums" || return 1
        ;;
    esac
    case $line in
      'put-pair '*)
        file_digest=${line##* }
        [ "${#file_digest}" != 64 ] ||
          echo "$file_digest  files/$file_digest" >>"$stage/sums" || return 1
        ;;
    esac
  done <"$stage/lines"
}

# Whether every file of the plan has the hash that its line names.
has_file_digests() {
  [ -s "$stage/sums" ] || return 0
  (cd "$stage" && sha256sum -c sums >/dev/null 2>&1)
}

# Checks the plan that was unpacked into $stage: its digest, every line, every file. Holds it if any
# of that is wrong, so that no part of a bad plan is done.
check_plan() {
  has_plan_digest || hold bad-plan 'the plan does not have the digest that it names' || return 1
  touch "$stage/sums"
  check_lines || return 1
  has_file_digests || hold bad-plan 'a file of the plan does not have its hash'
}

# Unpacks and checks the plan in $run/body. From here on it counts as not applied.
prepare_plan() {
  mkdir -p "$stage" || return 1
  try bad-plan tar -xf "$run/body" -C "$stage" || return 1
  check_plan || return 1
  rm -rf "$run/applied" "$run/requests" "$run/secrets"
  rm -f "$run/probes/listeners" "$run/probes/encryption"
}

# Does the lines of the plan in their order, up to the first that fails; then, if none did, writes
# down that the plan was applied. The lines are read from descriptor 3, because commands may read
# their standard input.
do_lines() {
  while IFS= read -r line <&3; do
    if ! do_line "$line"; then
      hold failed "not done: $line"
      break
    fi
  done 3<"$stage/lines" || hold write-failed "cannot read $stage"
  [ -z "$hold_code" ] || return 0
  keep_plan || return 0
  try write-failed write_line "$run/applied" "$plan_digest"
}

# Does the plan in $run/body and removes it. Sets hold_code and hold_text, and plan_hold_code and
# plan_hold_text for the next polls. Fails if the plan was held for another reason than a line of
# its own.
apply_plan() {
  stage=$run/plan
  hold_code=''
  hold_text=''
  held_by_line=''
  rm -rf "$stage"
  if prepare_plan; then
    do_lines
  else
    hold write-failed "no room in $run"
  fi
  rm -rf "$stage" "$run/body"
  plan_hold_code=$hold_code
  plan_hold_text=$hold_text
  if [ -z "$hold_code" ]; then
    rm -f "$run/hold"
    return 0
  fi
  write_line "$run/hold" "$hold_code $hold_text"
  [ -n "$held_by_line" ]
}

# Does plan line `hold CODE TEXT`, which is $1.
hold_by_line() {
  held_by_line=yes
  hold_words=${1#hold }
  hold "${hold_words%% *}" "${hold_words#* }"
}

# Does line $1 of the plan, which is_known_line accepted. src/agent/README.md lists the lines.
do_line() {
  line=$1
  # shellcheck disable=SC2086 # words of the set that is_known_line accepts
  set -- $1
  verb=$1
  shift
  case $verb in
    hold) hold_by_line "$line" ;;
    request) request "$1" "$2" "${3:-}" ;;
    create-* | mount-* | bind* | marker* | clear*) do_disk_line "$verb" "$@" ;;
    guard-new) guard_new "$1" ;;
    guard-left) guard_left "$1" ;;
    restore-etcd) restore_etcd "$@" ;;
    snapshot-etcd) snapshot_etcd "$1" ;;
    reboot) reboot_once "$1" ;;
    restore-snapshot) restore_snapshot "$@" ;;
    set-aside-etcd) set_aside_etcd "$1" ;;
    end-etcd) end_etcd "$1" ;;
    check) check_machine "$@" ;;
    directory) try write-failed make_directory "$1" "$root$2" ;;
    put) put "$stage/files/$2" "$1" "$3" ;;
    put-owned) put_owned "$stage/files/$2" "$1" "$3" "$4" "$5" ;;
    put-password) put_password "$1" "$stage/files/$2" ;;
    secret) try write-failed note_secret "$1 $2" ;;
    put-with-key) put_with_key "$1" "$2" "$3" "$4" "$5" ;;
    put-pair) put_pair "$@" ;;
    fetch) fetch "$1" "$2" "$root$3" "$4" "${5:-}" ;;
    unpack) unpack "$1" "$root$2" "$3" "${4:-}" ;;
    link) link "$1" "$root$2" "$3" ;;
    remove) remove "$1" ;;
    load) load "$1" "$2" ;;
    run) run_unit restart "$1" "$2" ;;
    reload) run_unit reload "$1" "$2" ;;
    stop) stop_unit "$1" ;;
    probe) note_probe "$@" ;;
    read-encryption) note_encryption "$@" ;;
    step) try write-failed write_line "$run/step" "$1" ;;
  esac
}

# Does a line about the data disk or the etcd disk: verb $1 with the words $2 ....
do_disk_line() {
  disk_verb=$1
  shift
  case $disk_verb in
    create-data) create_data "$1" "$2" "${3:-}" ;;
    mount-data) mount_data "$1" ;;
    bind) bind "$1" "$2" ;;
    marker) write_marker "$1 $2 $3 $4" ;;
    clear) clear_data "$1 $2 $3 $4" ;;
    create-etcd) create_etcd "$1" "$2" "${3:-}" ;;
    mount-etcd) mount_etcd "$1" ;;
    bind-etcd) bind_etcd "$1" "$2" ;;
    marker-etcd) write_etcd_marker "$1 $2 $3 $4" ;;
    clear-etcd) clear_etcd "$1 $2 $3 $4" ;;
  esac
}

# Does plan line `check NAME WORD ...`. A check that passed is not made again in this boot, because
# what the plan starts uses ports and disk itself.
check_machine() {
  passed_mark=$run/passed.$(printf '%s.' "$@" | tr / _)
  [ ! -e "$passed_mark" ] || return 0
  try "$1" sh "$here/muster-check.sh" "$@" || return 1
  try write-failed touch "$passed_mark"
}
