#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the plan's line `put-pair`, a certificate and its
# key that change as one.
#
# DIRECTORY/NAME.crt and DIRECTORY/NAME.key are links through DIRECTORY/.NAME/current, which is a
# link to DIRECTORY/.NAME/1 or 2: the directory with the two files. Renaming `current` changes both
# files at once, for programs that read them with every handshake. Everything is inside of
# DIRECTORY, because pods mount that, and a link that is mounted itself is resolved only once. The
# former directory is removed right away, because that is what programs that watch files notice.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Does plan line `put-pair MODE SHA256 PATH LEAF|SHA256`: puts the certificate at PATH (*.crt) with
# mode MODE. Its key next to it (*.key) is the machine's own key of LEAF, or a file of the plan.
put_pair() {
  pair=$root${3%.crt}
  pair_name=${pair##*/}
  pair_home=${pair%/*}/.$pair_name
  pair_mode=$1
  pair_key=$identity/keys/$4.key
  [ "${#4}" != 64 ] || pair_key=$stage/files/$4
  [ -s "$pair_key" ] || hold no-key "this machine has no key $4.key" || return 1
  if is_pair_in_place "$2"; then
    try write-failed remove_other_pairs
    return
  fi
  note_change "$3" || return 1
  if [ -f "$pair.crt" ] && [ ! -L "$pair.crt" ] && [ -f "$pair.key" ] && [ ! -L "$pair.key" ]; then
    # kubeadm wrote plain files. Links to copies of them replace them first.
    try write-failed turn_pair "$pair.crt" "$pair.key" || return 1
  elif [ ! -s "$pair_home/current/$pair_name.crt" ] || [ ! -s "$pair_home/current/$pair_name.key" ]
  then
    try write-failed turn_pair "$stage/files/$2" "$pair_key" || return 1
  fi
  try write-failed link_pair crt || return 1
  try write-failed link_pair key || return 1
  is_pair_in_place "$2" || try write-failed turn_pair "$stage/files/$2" "$pair_key"
}

# Whether certificate (SHA-256 $1) and key are in place, with their links.
is_pair_in_place() {
  is_pair_linked crt || return 1
  is_pair_linked key || return 1
  is_as_planned "$pair_home/current/$pair_name.crt" "$pair_mode" "$1" || return 1
  sha256 "$pair_key" || return 1
  is_as_planned "$pair_home/current/$pair_name.key" 600 "$sha256"
}

# Whether the pair's file that ends in $1 is the link that it has to be.
is_pair_linked() {
  [ -L "$pair.$1" ] && [ "$(readlink "$pair.$1")" = ".$pair_name/current/$pair_name.$1" ]
}

# Makes the pair's file that ends in $1 that link, in place of what is there.
link_pair() {
  ! is_pair_linked "$1" || return 0
  new_link=$pair_home/.muster-new.$1
  ln -sfn ".$pair_name/current/$pair_name.$1" "$new_link" || return 1
  mv -fT "$new_link" "$pair.$1" || return 1
  sync "${pair%/*}"
}

# Makes copies of certificate $1 and key $2 the current ones. Killed at any point, it leaves the
# former ones, or these.
turn_pair() {
  next=1
  [ "$(readlink "$pair_home/current")" != 1 ] || next=2
  (umask 022 && mkdir -p "$pair_home") || return 1
  rm -rf "${pair_home:?}/$next" || return 1
  mkdir "$pair_home/$next" || return 1
  cp "$1" "$pair_home/$next/$pair_name.crt" || return 1
  cp "$2" "$pair_home/$next/$pair_name.key" || return 1
  chmod "$pair_mode" "$pair_home/$next/$pair_name.crt" || return 1
  chmod 600 "$pair_home/$next/$pair_name.key" || return 1
  chmod 755 "$pair_home/$next" || return 1
  sync "$pair_home/$next"/* "$pair_home/$next" || return 1
  ln -sfn "$next" "$pair_home/.muster-new" || return 1
  mv -fT "$pair_home/.muster-new" "$pair_home/current" || return 1
  sync "$pair_home" || return 1
  remove_other_pairs
}

# Removes the directory that is not the current one: the former pair, or what an agent that was
# killed left of a new one.
remove_other_pairs() {
  other=1
  [ "$(readlink "$pair_home/current")" != 1 ] || other=2
  [ ! -e "$pair_home/$other" ] || rm -rf "${pair_home:?}/$other"
}
