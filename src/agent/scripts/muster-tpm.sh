#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the machine's TPM 2.0, by tpm2-tools. The TPM
# proves to the server which machine this is, and seals the agent's key, so that a copied disk holds
# no key. A machine without a TPM, or without the tools, works as if this part were not there.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Sets tcti to how tpm2-tools reach the TPM. Fails if there is no TPM or no tools for it.
find_tpm() {
  setting tpm
  tcti=$setting
  if [ -z "$tcti" ] && [ -c "$root/dev/tpmrm0" ]; then
    tcti=device:$root/dev/tpmrm0
  fi
  [ -n "$tcti" ] && command -v tpm2_activatecredential >/dev/null
}

# Runs tpm2_$1 with the arguments from $2 on in $run/tpm. If it fails, sets tpm_fault to what it
# printed.
# Only the kernel's resource manager frees a TPM's memory, which has room for three objects.
tpm() {
  tpm_tool=tpm2_$1
  shift
  tpm_output=$(
    cd "$run/tpm" &&
      within 120 env TSS2_LOG=all+NONE TPM2TOOLS_TCTI="$tcti" "$tpm_tool" -Q "$@" 2>&1
  ) || {
    tpm_fault="$tpm_tool: $tpm_output"
    return 1
  }
  case $tcti in
    device:*/tpmrm*) ;;
    *) within 30 env TPM2TOOLS_TCTI="$tcti" tpm2_flushcontext -Q -t ;;
  esac
}

# Prints file $2 of $run/tpm in base64 after the word $1, unless it is empty.
print_field() {
  [ -s "$run/tpm/$2" ] || return 0
  printf '%s ' "$1"
  base64 -w0 "$run/tpm/$2"
  echo
}

# Writes what the TPM shows of itself to $run/tpm/shown, once in a boot: its endorsement key, the
# vendor's certificate for it if there is one, and an attestation key. The certificate decides which
# of a TPM's endorsement keys is used, so a machine always shows the same one; without certificates
# that is the key on P-256.
show_tpm() {
  find_tpm || return 1
  [ ! -s "$run/tpm/shown" ] || return 0
  rm -rf "$run/tpm" && mkdir -p "$run/tpm" || return 1
  endorsement=ecc
  if ! tpm nvread 0x01c0000a -o certificate; then
    rm -f "$run/tpm/certificate"
    if tpm nvread 0x01c00002 -o certificate; then
      endorsement=rsa
    else
      rm -f "$run/tpm/certificate"
    fi
  fi
  tpm createek -G "$endorsement" -c ek.ctx -u ek || return 1
  tpm createak -C ek.ctx -G ecc -g sha256 -s ecdsa -c ak.ctx -u ak -n ak.name || return 1
  {
    print_field ek ek &&
      print_field ak ak &&
      print_field certificate certificate
  } >"$run/tpm/shown.new" || return 1
  mv -f "$run/tpm/shown.new" "$run/tpm/shown"
}

# Opens the credential in $run/body, which the server sealed to the endorsement key and the
# attestation key, and sets tpm_proof to the proof for this boot session and the agent's key with
# pin $1.
open_credential() {
  base64 -d <"$run/body" >"$run/tpm/credential" || return 1
  tpm startauthsession --policy-session -S session || return 1
  if tpm policysecret -S session -c e; then
    tpm activatecredential -c ak.ctx -C ek.ctx -P session:session -i credential -o secret
    opened=$?
  else
    opened=1
  fi
  tpm flushcontext session
  # The attestation key was used. Without this, a power cut would now count as a guess of its
  # password, and after a few of them the TPM would open nothing.
  tpm shutdown -c
  [ "$opened" = 0 ] || return 1
  hmac "$run/tpm/secret" "muster tpm 1 $session $1"
  rm -f "$run/tpm/secret" "$run/tpm/credential"
  tpm_proof=$hmac
}

# Posts the form fields $@ of curl to redeem. A machine with a TPM shows it, and opens the challenge
# that the server then seals to it. A TPM that fails three times is left out: the server decides
# whether it does without.
ask_with_tpm() {
  if [ "$tpm_failures" -ge 3 ] || ! find_tpm; then
    ask /agent/redeem "$@"
    return 0
  fi
  if ! show_tpm; then
    tpm_failed
    return 1
  fi
  set -- "$@" --data-urlencode "tpm@$run/tpm/shown"
  ask /agent/redeem "$@"
  [ "$http_status" = 202 ] && [ "$answer_hold" = tpm ] || return 0
  openssl pkey -in "$identity/agent.key" -pubout -outform DER -out "$run/pin" || return 1
  sha256 "$run/pin" || return 1
  if ! open_credential "$sha256"; then
    tpm_failed
    return 1
  fi
  tpm_failures=0
  printf '%s' "$tpm_proof" >"$run/tpm/proof" || return 1
  ask /agent/redeem "$@" --data-urlencode "proof@$run/tpm/proof"
  rm -f "$run/tpm/proof"
}

# Says what the TPM did not do, and counts it.
tpm_failed() {
  tpm_failures=$((tpm_failures + 1))
  rm -f "$run/tpm/shown"
  say "the TPM: ${tpm_fault:-it gave no answer}"
}

# Sets octet to the escape of printf for the octet of number $1.
escape_octet() {
  octet=\\$(($1 >> 6))$(($1 >> 3 & 7))$(($1 & 7))
}

# Sets hmac to the HMAC-SHA-256 (RFC 2104) of text $2 with the 32 octets in file $1 as its key.
# openssl takes the key only as an argument, which every process on the machine can read.
# shellcheck disable=SC2059 # the pads are formats on purpose: printf writes their octets
hmac() {
  inner_pad=
  outer_pad=
  for number in $(od -An -v -tu1 "$1"); do
    escape_octet $((number ^ 54))
    inner_pad=$inner_pad$octet
    escape_octet $((number ^ 92))
    outer_pad=$outer_pad$octet
  done
  # The key has half the length of a block; zeros follow it.
  for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    inner_pad=$inner_pad\\066\\066
    outer_pad=$outer_pad\\134\\134
  done
  inner=$(
    {
      printf "$inner_pad"
      printf '%s' "$2"
    } | sha256sum
  )
  inner=${inner%% *}
  inner_octets=
  while [ -n "$inner" ]; do
    escape_octet "$((0x${inner%"${inner#??}"}))"
    inner_octets=$inner_octets$octet
    inner=${inner#??}
  done
  hmac=$(
    {
      printf "$outer_pad"
      printf "$inner_octets"
    } | sha256sum
  )
  hmac=${hmac%% *}
}

# Neither the sealing key nor what is sealed counts as a guess of a password after a power cut
# (`noda`): after a few such cuts the TPM would refuse to give any key back.
sealed_attributes='fixedtpm|fixedparent|userwithauth|noda'

# Loads the key of the TPM under which keys are sealed. It is derived, so it is the same each time
# until the TPM is cleared.
load_sealing_key() {
  mkdir -p "$run/tpm" || return 1
  tpm createprimary -C o -G ecc -c primary.ctx \
    -a "$sealed_attributes|restricted|decrypt|sensitivedataorigin"
}

# Loads what file $1 says is sealed, and writes it to $run/tpm/key, as DER.
unseal() {
  {
    IFS= read -r sealed_public && IFS= read -r sealed_private
  } <"$1" || return 1
  printf '%s' "$sealed_public" | base64 -d >"$run/tpm/sealed.pub" || return 1
  printf '%s' "$sealed_private" | base64 -d >"$run/tpm/sealed.priv" || return 1
  load_sealing_key || return 1
  tpm load -C primary.ctx -u sealed.pub -r sealed.priv -c sealed.ctx || return 1
  rm -f "$run/tpm/key"
  tpm unseal -c sealed.ctx -o key
}

# Seals file $1, of at most 128 octets, so that only this machine's TPM gives it back, and writes
# what the TPM needs for that to $run/tpm/sealed. Fails if the TPM does not give it back now.
seal() {
  load_sealing_key || return 1
  rm -f "$run/tpm/sealed.pub" "$run/tpm/sealed.priv"
  tpm create -C primary.ctx -a "$sealed_attributes" -i "$1" -u sealed.pub -r sealed.priv || return 1
  {
    base64 -w0 "$run/tpm/sealed.pub" && echo
    base64 -w0 "$run/tpm/sealed.priv" && echo
  } >"$run/tpm/sealed" || return 1
  unseal "$run/tpm/sealed" || return 1
  cmp -s "$1" "$run/tpm/key" || return 1
  rm -f "$run/tpm/key"
}

# Seals the agent's key, file $1, so that only this machine's TPM gives it back: $identity then has
# agent.sealed, and agent.key is a link to the key below /run. The key counts as sealed only after
# the TPM gave it back once. Fails if the TPM does not do that; the key is then kept as it is.
seal_key() {
  mkdir -p "$run/tpm" || return 1
  openssl ec -in "$1" -outform DER -out "$run/tpm/plain" 2>/dev/null || return 1
  seal "$run/tpm/plain" || return 1
  rm -f "$run/tpm/plain"
  [ "$1" = "$run/agent.key" ] || replace "$1" 600 "$run/agent.key" || return 1
  replace "$run/tpm/sealed" 600 "$identity/agent.sealed" && link_key "$identity"
}

# Makes agent.key in directory $1 a link to the key below /run.
link_key() {
  ln -sfn "$run/agent.key" "$1/.muster-new.agent.key" &&
    mv -fT "$1/.muster-new.agent.key" "$1/agent.key" &&
    sync "$1"
}

# Replaces the key on the data filesystem by the one below /run; a sealed key stays sealed.
store_newer_key() {
  if [ -h "$identity/agent.key" ]; then
    replace "$identity/agent.sealed" 600 "$state/agent/agent.sealed" && link_key "$state/agent"
  else
    replace "$identity/agent.key" 600 "$state/agent/agent.key" && rm -f "$state/agent/agent.sealed"
  fi
}

# Brings a sealed key back below /run, and seals a key that is not sealed yet. What fails is not
# tried again until the agent is started again; a machine whose TPM does not give the key back makes
# a new one and asks for a certificate.
keep_key_sealed() {
  if [ -h "$identity/agent.key" ]; then
    [ ! -s "$run/agent.key" ] || return 0
    [ -z "$unseal_failed" ] || return 0
    find_tpm || tcti=
    mkdir -p "$run/tpm"
    # A TPM may be busy for a moment, for example with a test of itself.
    for unseal_pause in 1 3 0; do
      [ -n "$tcti" ] || break
      if unseal "$identity/agent.sealed" &&
        openssl ec -inform DER -in "$run/tpm/key" -out "$run/agent.key" 2>/dev/null
      then
        rm -f "$run/tpm/key"
        return 0
      fi
      sleep "$unseal_pause"
    done
    unseal_failed=yes
    say "the TPM does not give back the agent's key: ${tpm_fault:-there is no TPM}"
  elif [ -s "$identity/agent.key" ] && [ -z "$seal_failed" ]; then
    find_tpm || return 0
    seal_key "$identity/agent.key" || refuse_sealing
  fi
}

# Says why the key is kept without being sealed, once.
refuse_sealing() {
  seal_failed=yes
  say "the agent's key is not sealed: ${tpm_fault:-the TPM did not give it back}"
}

# Makes the agent's key, unless there is one. With a TPM it is sealed before it is on any disk.
make_agent_key() {
  [ ! -s "$identity/agent.key" ] || return 0
  if [ -z "$seal_failed" ] && find_tpm; then
    rm -f "$run/agent.key"
    make_key ECDSA-P256 "$run/agent.key" || return 1
    if seal_key "$run/agent.key"; then
      return 0
    fi
    refuse_sealing
    replace "$run/agent.key" 600 "$identity/agent.key" && rm -f "$run/agent.key"
    return
  fi
  make_key ECDSA-P256 "$identity/agent.key"
}
