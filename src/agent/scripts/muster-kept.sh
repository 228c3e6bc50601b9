#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): what a machine with a boot disk, or one with an
# installed system, keeps to start while the boot server does not answer, which is the last plan
# that was done to its end and everything that it fetches.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# The directory of the kept plan (plan.tar), of wal (whether etcd had data) and of fetched files,
# which have their SHA-256 as names.
shelf=$state/kept

# yes while the kept plan is being done.
doing_kept_plan=''

# Whether this machine keeps plans: it starts from a disk, and its identity is on the data
# filesystem. A plan holds keys, so it is kept only where keys are.
keeps_plans() {
  [ -n "$boot$installed" ] && [ "$identity" = "$state/agent" ]
}

# Copies the kept file with SHA-256 $1 to $2, and sets sha256. Removes a kept file that no longer
# has its hash, and fails.
copy_from_shelf() {
  [ -e "$shelf/$1" ] || return 1
  if make_parent "$2" && cp "$shelf/$1" "$2" && sha256 "$2" && [ "$sha256" = "$1" ]; then
    return 0
  fi
  rm -f "$2" "$shelf/$1"
  return 1
}

# Keeps the plan in $run/body, which was done, and what it fetches; removes what it does not name.
# Does nothing if the plan was meant for one moment only. A machine that no longer starts from a
# disk removes what it kept, because it holds secrets.
keep_plan() {
  if [ -z "$boot$installed" ] && [ "$identity" = "$state/agent" ]; then
    try keep-failed rm -rf "$shelf" || return 1
  fi
  keeps_plans || return 0
  [ -z "$doing_kept_plan" ] || return 0
  moment='create-data|guard-new|guard-left|set-aside-etcd|end-etcd|restore-etcd|clear'
  moment="$moment|snapshot-etcd|restore-snapshot|create-etcd|clear-etcd|reboot"
  ! grep -Eq "^($moment) " "$stage/lines" || return 0
  keep_fetched_files || return 1
  try keep-failed write_line "$shelf/wal" "$wal" || return 1
  try keep-failed keep_own_agent || return 1
  try keep-failed replace "$run/body" 600 "$shelf/plan.tar" || return 1
  for kept_file in "$shelf"/*; do
    case $kept_names in
      *" ${kept_file##*/} "*) ;;
      *) rm -f "$kept_file" ;;
    esac
  done
}

# Takes file $1 of the machine out of the kept plan, so that a boot without the server does not
# bring it back and the disk no longer has what it held. Does nothing if the kept plan does not
# write that file.
forget_in_kept_plan() {
  [ -e "$shelf/plan.tar" ] || return 0
  unpacked=$run/kept
  rm -rf "$unpacked"
  mkdir -p "$unpacked/files" || return 1
  if tar -xf "$shelf/plan.tar" -C "$unpacked" && has_put "$1"; then
    take_out "$1" && pack_kept_plan || return 1
  fi
  rm -rf "$unpacked" "$run/kept.tar"
}

# Whether the plan in $unpacked puts file $1.
has_put() {
  while read -r verb first second third; do
    [ "$verb $third" != "put $1" ] || return 0
  done <"$unpacked/plan"
  return 1
}

# Takes the line that puts file $1 out of the plan in $unpacked, with the contents that no other
# line names. Writes the remaining lines to $unpacked/lines.
take_out() {
  tail -n +2 "$unpacked/plan" | while IFS= read -r kept_line; do
    case $kept_line in
      "put "*" $1") ;;
      *) printf '%s\n' "$kept_line" ;;
    esac
  done >"$unpacked/lines" || return 1
  for kept_file in "$unpacked"/files/*; do
    grep -qF " ${kept_file##*/} " "$unpacked/lines" || rm -f "$kept_file"
  done
}

# Makes the plan in $unpacked/lines the kept one.
pack_kept_plan() {
  sha256 "$unpacked/lines" || return 1
  {
    printf 'muster-plan 1 %s\n' "$sha256"
    cat "$unpacked/lines"
  } >"$unpacked/plan" || return 1
  tar -cf "$run/kept.tar" -C "$unpacked" plan files || return 1
  replace "$run/kept.tar" 600 "$shelf/plan.tar"
}

# Brings every file that the plan fetches to the shelf. Sets kept_names to the names of all files
# that belong there.
keep_fetched_files() {
  kept_names=' plan.tar wal agent agent.tar '
  while read -r verb first second third fourth fifth; do
    case $verb in
      fetch)
        fetched_hash=$second
        fetched_url=$fourth
        fetched_size=$fifth
        ;;
      unpack)
        fetched_hash=$first
        fetched_url=$third
        fetched_size=$fourth
        ;;
      *) continue ;;
    esac
    kept_names="$kept_names$fetched_hash "
    if [ ! -e "$shelf/$fetched_hash" ]; then
      get "$fetched_url" "$fetched_hash" "$shelf/$fetched_hash" "$fetched_size" || return 1
    fi
  done <"$stage/lines"
}

# Does the kept plan, if the last poll got no answer and no plan was done in this boot. A machine
# that started from its boot disk does so at once, because the server did not answer its firmware
# either; one that came from the network does it after three polls. A member of etcd that had data
# and has none does nothing.
do_kept_plan() {
  [ "$http_status" = 000 ] || return 0
  [ ! -e "$run/applied" ] || return 0
  keeps_plans || return 0
  [ -e "$shelf/plan.tar" ] || return 0
  [ -n "$from_boot_disk" ] || [ "$failures" -ge 3 ] || return 0
  look_at_wal
  first_line "$shelf/wal"
  if [ "$first_line" = present ] && [ "$wal" != present ]; then
    say 'the data of etcd are gone; nothing is done without the boot server'
    return 0
  fi
  use_kept_agent
  say 'the boot server does not answer; this machine does what it did last'
  doing_kept_plan=yes
  if cp "$shelf/plan.tar" "$run/body"; then
    apply_plan
  fi
  doing_kept_plan=''
}

# Gets the configuration of this boot for the boot disk, once in a boot. It comes over TLS, because
# somebody between here and the server could otherwise put another one on the disk. The server
# knows it while it knows the boot session.
get_configuration() {
  [ -n "$boot" ] || return 0
  [ -z "$from_boot_disk" ] || return 0
  [ ! -e "$run/boot/seed" ] || return 0
  setting kernel
  ask /agent/configuration --cert "$identity/agent.crt" --key "$identity/agent.key" \
    --data-urlencode "session=$session" --data-urlencode "url=${setting%% *}"
  if [ "$http_status" != 200 ]; then
    say "$asked_url: $http_status $answer_text"
    return 0
  fi
  rm -rf "$run/boot/seed.new"
  mkdir -p "$run/boot/seed.new/kept/seed" &&
    tar -xf "$run/body" -C "$run/boot/seed.new/kept/seed" &&
    mv "$run/boot/seed.new" "$run/boot/seed"
}

# Starts muster-boot.sh in the background, to bring what this machine booted from to its boot disk,
# once a plan was done and kept: then that boot is known to work. After a failure it waits some
# minutes.
update_boot_disk() {
  [ -n "$boot" ] && keeps_plans || return 0
  [ -z "$from_boot_disk" ] || return 0
  [ -e "$run/applied" ] || return 0
  [ -e "$shelf/plan.tar" ] || return 0
  first_line "$run/bootdisk"
  case $first_line in
    '') ;;
    'kept '*) return 0 ;;
    *) [ -n "$(find "$run/bootdisk" -mmin +3)" ] || return 0 ;;
  esac
  setting initrds
  initrds=$setting
  setting kernel
  kernel=$setting
  # shellcheck disable=SC2086 # words
  sh "$here/muster-boot.sh" keep "$boot" $kernel $initrds 9>&- </dev/null >/dev/null 2>&1 &
}
