#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the machine's keys, certificate requests and the
# certificate by which the server knows it.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Sets identity to the directory of the machine's keys: on the data filesystem if that is this
# machine's own, else below /run, where a reboot loses them. Moves keys from /run to a data
# filesystem that appeared later.
choose_identity() {
  identity=$run/agent
  mkdir -p "$identity/keys"
  if [ -n "$data" ] && [ -z "$mounted" ]; then
    recall_identity
    return 0
  fi
  first_line "$state/marker"
  # Nothing is written to another machine's disk, and its certificate is not used.
  case "$first_line " in
    ' ' | *" $machine ") store_identity ;;
  esac
  first_line "$state/agent/owner"
  [ "$first_line" = "$machine" ] || return 0
  store_newer_certificate || return 0
  rm -rf "$identity" && identity=$state/agent
  remove_unfinished_files
  keep_key_sealed
}

# Copies the identity below /run to the data filesystem, which has none. The rename makes it count.
store_identity() {
  [ ! -e "$state/agent" ] || return 0
  printf '%s\n' "$machine" >"$identity/owner" || return 1
  make_parent "$state/agent" || return 1
  rm -rf "$state/.agent" || return 1
  cp -RP "$identity" "$state/.agent" || return 1
  sync -f "$state" || return 1
  mv -T "$state/.agent" "$state/agent" || return 1
  sync "$state"
}

# Replaces key and certificate on the data filesystem by those below /run, if there are any. The
# disk came late, and by then this boot had redeemed its ticket: the server accepts only the newer
# certificate. If the agent is killed between the two files, the next poll does this again.
store_newer_certificate() {
  # The certificate in the header may be older than the one that the filesystem has.
  if cmp -s "$identity/recalled" "$identity/agent.crt"; then
    rm -f "$identity/agent.crt"
  fi
  if [ ! -s "$identity/agent.crt" ]; then
    # A key that has no certificate gives way to the one that is sealed on the data filesystem.
    [ ! -h "$identity/agent.key" ] || rm -f "$run/agent.key"
    return 0
  fi
  ! cmp -s "$identity/agent.crt" "$state/agent/agent.crt" || return 0
  store_newer_key || return 1
  replace "$identity/agent.crt" 600 "$state/agent/agent.crt" || return 1
  rm -f "$run"/pin.*
}

# Removes files that a power cut left half written, keys among them.
remove_unfinished_files() {
  for unfinished in \
    "$identity"/.muster-new.* \
    "$identity"/keys/.muster-new.* \
    "$state"/kept/.muster-new.*
  do
    [ ! -e "$unfinished" ] || rm -rf "$unfinished"
  done
}

# Makes a key by algorithm $1 in file $2, unless one is there.
make_key() {
  [ ! -s "$2" ] || return 0
  key_name=${2##*/}
  rm -f "$run/pin.${key_name%.key}"
  case $1 in
    ECDSA-P256)
      try key-failed openssl ecparam -genkey -name prime256v1 -noout -out "$run/key" || return 1
      ;;
    RSA-*)
      try key-failed openssl genpkey -quiet -algorithm RSA \
        -pkeyopt "rsa_keygen_bits:${1#RSA-}" -out "$run/key" || return 1
      ;;
  esac
  try key-failed replace "$run/key" 600 "$2" || return 1
  rm -f "$run/key"
}

# Writes a certificate request of key file $1 to file $2. The server decides which names the
# certificate gets.
make_request() {
  printf '[req]\ndistinguished_name=dn\n[dn]\n' >"$run/req.cnf" || return 1
  try key-failed openssl req -new -sha256 -config "$run/req.cnf" \
    -key "$1" -subj "/CN=$machine" -out "$2"
}

# Does plan line `request LEAF ALGORITHM [PIN]`: makes the key if there is none, or instead of the
# one with that pin, and a request, which the next poll sends.
request() {
  key=$identity/keys/$1.key
  try key-failed mkdir -p "$run/requests" || return 1
  if [ -n "$3" ] && [ -s "$key" ] && key_pin "$1" && [ "$key_pin" = "$3" ]; then
    try key-failed rm -f "$run/pin.$1" "$key" || return 1
  fi
  make_key "$2" "$key" || return 1
  make_request "$key" "$run/requests/$1"
}

# Sets key_pin to the SHA-256 of the public key of LEAF $1. Every poll reports the pins of all keys,
# a dozen on a control plane, so each is computed once and kept below /run.
key_pin() {
  first_line "$run/pin.$1"
  key_pin=$first_line
  [ -z "$key_pin" ] || return 0
  openssl pkey -in "$identity/keys/$1.key" -pubout -outform DER -out "$run/pin" || return 1
  sha256 "$run/pin" || return 1
  key_pin=$sha256
  write_line "$run/pin.$1" "$key_pin"
}

# Whether the machine has a certificate that is of our CA and for its own key.
has_certificate() {
  [ -s "$identity/agent.crt" ] && is_our_certificate "$identity/agent.crt"
}

# Whether certificate $1 is of our CA and for our key. While the CA is rotated, a bridge behind the
# certificate may lead to our CA. The server judges whether it has expired, because this machine's
# clock may be wrong. Sets verified_digest, so that openssl is asked again
# only after CA, key or certificate changed.
is_our_certificate() {
  given_digest=$(cat "$etc/ca.crt" "$identity/agent.key" "$1" | sha256sum)
  [ "$given_digest" != "$verified_digest" ] || return 0
  openssl verify -no_check_time -CAfile "$etc/ca.crt" -untrusted "$1" "$1" >/dev/null 2>&1 ||
    return 1
  certified_key=$(openssl x509 -in "$1" -noout -pubkey)
  own_key=$(openssl pkey -in "$identity/agent.key" -pubout)
  [ "$certified_key" = "$own_key" ] || return 1
  verified_digest=$given_digest
}

# Asks the server for a certificate, and stores it. Makes the key first if there is none. The boot
# has a ticket only where Muster gives the machine its address; elsewhere the server goes by session
# and address alone. Sets held if the machine has to wait.
redeem() {
  make_agent_key || return 1
  make_request "$identity/agent.key" "$run/agent.csr" || return 1
  setting ticket
  set -- --data-urlencode "session=$session" --data-urlencode "csr@$run/agent.csr"
  if [ -n "$setting" ]; then
    # The ticket is passed in a file, because everyone on the machine can read command lines.
    printf '%s' "$setting" >"$run/ticket" || return 1
    set -- "$@" --data-urlencode "ticket@$run/ticket"
  fi
  ask_with_tpm "$@"
  asked=$?
  rm -f "$run/ticket"
  [ "$asked" = 0 ] || return 1
  case $http_status in
    200) ;;
    202)
      held=$answer_hold
      [ "$held" != approval ] || show_code "$answer_nonce"
      return 1
      ;;
    *)
      say "no certificate for this boot: $http_status $answer_text"
      return 1
      ;;
  esac
  if ! is_our_certificate "$run/body"; then
    say 'the certificate for this boot is not one of our CA for our key'
    return 1
  fi
  end_code
  replace "$run/body" 600 "$identity/agent.crt"
}
