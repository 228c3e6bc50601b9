#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the plan's lines about files that the plan
# itself carries, directories and links.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

own_ids=$(id -u):$(id -g)

# Whether $1 is a plain file with mode $2 and SHA-256 $3 that belongs to the agent's user. May set
# sha256.
is_as_planned() {
  [ -f "$1" ] || return 1
  [ ! -L "$1" ] || return 1
  [ "$(stat -c '%a %u:%g' "$1")" = "$2 $own_ids" ] || return 1
  sha256 "$1" || return 1
  [ "$sha256" = "$3" ]
}

# Copies file $1 to path $3 of the machine with mode $2, unless it is there.
put() {
  sha256 "$1" || hold write-failed "$1 cannot be read" || return 1
  ! is_as_planned "$root$3" "$2" "$sha256" || return 0
  note_change "$3" || return 1
  try write-failed replace "$1" "$2" "$root$3"
}

# Copies file $1 to path $3 of the machine with mode $2 for user $4 and group $5, unless it is
# there.
put_owned() {
  sha256 "$1" || hold write-failed "$1 cannot be read" || return 1
  if [ -f "$root$3" ] && [ ! -L "$root$3" ] &&
    [ "$(stat -c '%a %U:%G' "$root$3")" = "$2 $4:$5" ]
  then
    wanted_digest=$sha256
    sha256 "$root$3" || return 1
    [ "$sha256" != "$wanted_digest" ] || return 0
  fi
  note_change "$3" || return 1
  try write-failed replace "$1" "$2" "$root$3" "$4:$5"
}

# Sets user_hash to the password hash of user $1, or to nothing.
find_user_hash() {
  user_hash=
  [ -r "$root/etc/shadow" ] || return 0
  while IFS=: read -r shadow_user shadow_hash _; do
    [ "$shadow_user" != "$1" ] || user_hash=$shadow_hash
  done <"$root/etc/shadow"
}

# Does plan line `put-password USER SHA256`: gives user $1 the password hash in file $2, unless it
# has that one. The hash is in no argument list: printf belongs to the shell.
put_password() {
  first_line "$2"
  find_user_hash "$1"
  [ "$user_hash" != "$first_line" ] || return 0
  try password-failed change_password "$1" "$first_line"
}

# Gives user $1 the password hash $2.
change_password() {
  printf '%s:%s\n' "$1" "$2" | chpasswd -e ${root:+-R "$root"}
}

# Does plan line `secret NAME:KEY TAG`: adds the words $1 to what the next polls report.
note_secret() {
  printf '%s\n' "$1" >>"$run/secrets"
}

# Does plan line `put-with-key MODE SHA256 PATH LEAF pem|base64`: a file of the plan, followed by
# the key of LEAF.
put_with_key() {
  leaf_key=$identity/keys/$4.key
  [ -s "$leaf_key" ] || hold no-key "this machine has no key $4.key" || return 1
  join_key "$stage/files/$2" "$leaf_key" "$5" || hold write-failed "no room in $run" || return 1
  put "$stage/with-key" "$1" "$3"
}

# Writes file $1 and then key $2 to $stage/with-key; the key unchanged or as one line of base64
# ($3).
join_key() {
  cat "$1" >"$stage/with-key" || return 1
  if [ "$3" != base64 ]; then
    cat "$2" >>"$stage/with-key"
    return
  fi
  base64 -w 0 "$2" >>"$stage/with-key" || return 1
  echo >>"$stage/with-key"
}

# Makes directory $2 with mode $1.
make_directory() {
  make_parent "$2/" || return 1
  [ "$(stat -c %a "$2")" = "$1" ] || chmod "$1" "$2"
}

# Makes $2 a link to $3: with $1 always, or with $1 absent only if nothing is there.
link() {
  if [ "$1" = absent ]; then
    [ ! -e "$2" ] || return 0
    [ ! -L "$2" ] || return 0
  fi
  if [ -L "$2" ] && [ "$(readlink "$2")" = "$3" ]; then
    return 0
  fi
  new_link=${2%/*}/.muster-new.${2##*/}
  make_parent "$2" || return 1
  note_change "$2" || return 1
  try write-failed ln -sfn "$3" "$new_link" || return 1
  try write-failed mv -fT "$new_link" "$2"
}

# Removes path $1 of the machine: a file, a link or an empty directory. A file goes from the kept
# plan, too.
remove() {
  try keep-failed forget_in_kept_plan "$1" || return 1
  if [ -d "$root$1" ] && [ ! -L "$root$1" ]; then
    try write-failed rmdir "$root$1"
  elif [ -e "$root$1" ] || [ -L "$root$1" ]; then
    note_change "$1" || return 1
    try write-failed rm -f "$root$1"
  fi
}
