#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the key of an encrypted data filesystem, and what
# lies outside of it, in two tokens of the LUKS2 header. With `tpm` the key is sealed by the
# machine's TPM. With `boot-host` only the boot host has the key and gives it to the agent, whose
# certificate and key are in the header.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

IDENTITY_TOKEN=0
TPM_TOKEN=1

# Writes token $1 of disk $2 to $run/data/token. Fails if there is none.
export_token() {
  mkdir -p "$run/data" || return 1
  within 20 cryptsetup token export --token-id "$1" "$root$2" >"$run/data/token" 2>/dev/null
}

# Replaces token $1 of the data disk by file $2. The header has two copies, so a power cut leaves
# the old token or the new one.
import_token() {
  if within 20 cryptsetup token export --token-id "$1" "$root$device" >/dev/null 2>&1; then
    write_within 120 cryptsetup token import --token-replace --token-id "$1" --json-file "$2" \
      "$root$device"
  else
    write_within 120 cryptsetup token import --token-id "$1" --json-file "$2" "$root$device"
  fi && write_within 600 sync "$root$device"
}

# Prints field $1 of the exported token. Values have no quotes; slashes may be escaped.
token_field() {
  sed -n "s/.*\"$1\": *\"\\([^\"]*\\)\".*/\\1/p" "$run/data/token" | tr -d '\134'
}

# Holds because the key is not to be had, for reason $1.
hold_key() {
  hold data-key "the data filesystem stays locked: $1"
}

# Asks the boot host for the key of filesystem $1, and writes it to $run/data/key. With $2 the boot
# host makes one if it has none. What the last answer set stays, because the plan came with it.
ask_data_key() {
  plan_status=$http_status
  plan_retry=$retry_after
  set -- "$1" "${2:-no}"
  ask /agent/data-key --cert "$identity/agent.crt" --key "$identity/agent.key" \
    --data-urlencode "filesystem=$1" --data-urlencode "make=$2"
  if [ "$http_status" != 200 ]; then
    first_line "$run/body"
    hold_key "the boot host does not give the key of $1: $http_status ${answer_text:-$first_line}"
    return 1
  fi
  http_status=$plan_status
  retry_after=$plan_retry
  mv -f "$run/body" "$run/data/key"
}

# Makes a key in $run/data/key that the TPM seals, and the token that holds it, $run/data/new-token.
make_sealed_key() {
  if ! find_tpm; then
    hold_key 'the machine has no TPM 2.0, or its image has no tpm2-tools'
    return 1
  fi
  openssl rand -base64 -out "$run/data/key" 32 || return 1
  if ! seal "$run/data/key"; then
    hold_key "${tpm_fault:-the TPM did not give the key back}"
    return 1
  fi
  {
    IFS= read -r sealed_public && IFS= read -r sealed_private
  } <"$run/tpm/sealed" || return 1
  printf '{"type":"muster-tpm","keyslots":[],"public":"%s","private":"%s"}' \
    "$sealed_public" "$sealed_private" >"$run/data/new-token"
}

# Makes the key of a new filesystem $1, which is encrypted as $2 says. Sets data_key, and for a TPM
# data_token.
make_data_key() {
  mkdir -p "$run/data" || return 1
  case $2 in
    tpm)
      make_sealed_key || return 1
      data_token=$run/data/new-token
      ;;
    *) ask_data_key "$1" yes || return 1 ;;
  esac
  data_key=$run/data/key
}

# Lets the TPM give back the key that the token in the header of disk $1 holds. A TPM may be busy
# for a moment.
unseal_data_key() {
  if ! find_tpm; then
    hold_key 'its key is sealed by a TPM, and this machine has none, or no tpm2-tools'
    return 1
  fi
  export_token $TPM_TOKEN "$1" || return 1
  mkdir -p "$run/tpm" || return 1
  printf '%s\n%s\n' "$(token_field public)" "$(token_field private)" >"$run/data/sealed" || return 1
  for unseal_pause in 1 3 0; do
    if unseal "$run/data/sealed"; then
      mv -f "$run/tpm/key" "$run/data/key"
      return
    fi
    sleep "$unseal_pause"
  done
  hold_key "$tpm_fault"
}

# Gets the key of filesystem $1, which is on disk $3 and encrypted as $2 says, and sets data_key.
get_data_key() {
  mkdir -p "$run/data" || return 1
  case $2 in
    tpm) unseal_data_key "$3" || return 1 ;;
    *) ask_data_key "$1" || return 1 ;;
  esac
  data_key=$run/data/key
}

# Removes data_key and data_token from /run.
forget_data_key() {
  rm -f "$run/data/key" "$run/data/new-token"
  data_key=
  data_token=
}

# Mounts a data filesystem whose key the boot host has, once the machine has a certificate.
unlock_data() {
  [ "$disk $encrypted$mounted" = 'ours boot-host' ] || return 0
  mount_data "$filesystem"
}

# Where the key has to come from the boot host: takes key and certificate from the header, so that
# the machine can ask for it. `recalled` remembers which certificate that was.
recall_identity() {
  [ "$disk $encrypted" = 'ours boot-host' ] || return 0
  if [ ! -s "$identity/agent.crt" ] && export_token $IDENTITY_TOKEN "$device" &&
    [ "$(token_field machine)" = "$machine" ]
  then
    recall_key || return 0
    token_field certificate | base64 -d >"$run/data/crt" || return 0
    replace "$run/data/crt" 600 "$identity/recalled" || return 0
    replace "$run/data/crt" 600 "$identity/agent.crt" || return 0
    rm -f "$run/data/token"
  fi
  keep_key_sealed
}

# Writes the key of the exported token, or what the TPM has sealed of it, to $identity.
recall_key() {
  token_field key | base64 -d >"$run/data/recalled" || return 1
  if [ -s "$run/data/recalled" ]; then
    replace "$run/data/recalled" 600 "$identity/agent.key" || return 1
  else
    token_field sealed | base64 -d >"$run/data/recalled" || return 1
    replace "$run/data/recalled" 600 "$identity/agent.sealed" || return 1
    link_key "$identity" || return 1
  fi
  rm -f "$run/data/recalled"
}

# Where the key has to come from the boot host: writes the agent's key and certificate to the
# header, if they changed. A renewed certificate is there before it is first used.
remember_identity() {
  [ "$encrypted $mounted" = 'boot-host yes' ] || return 0
  [ "$identity" = "$state/agent" ] || return 0
  [ -s "$identity/agent.crt" ] || return 0
  remembered=key
  remembered_file=$identity/agent.key
  if [ -h "$remembered_file" ]; then
    remembered=sealed
    remembered_file=$identity/agent.sealed
  fi
  identity_digest=$(cat "$remembered_file" "$identity/agent.crt" | sha256sum)
  first_line "$run/outside"
  [ "$first_line" != "$identity_digest" ] || return 0
  mkdir -p "$run/data" || return 1
  {
    printf '{"type":"muster-agent","keyslots":[],"machine":"%s","%s":"' "$machine" "$remembered"
    base64 -w0 "$remembered_file"
    printf '","certificate":"'
    base64 -w0 "$identity/agent.crt"
    printf '"}'
  } >"$run/data/identity" || return 1
  try data-key import_token $IDENTITY_TOKEN "$run/data/identity" || return 1
  rm -f "$run/data/identity"
  write_line "$run/outside" "$identity_digest"
}
