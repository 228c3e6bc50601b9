#!/bin/sh
# Part of muster-disk.sh, which reads it in: a data filesystem that is encrypted (LUKS2). Needs
# cryptsetup 2.6.
# shellcheck disable=SC2034,SC2154 # variables that the other part sets and reads

# Where the filesystem is once it was opened.
mapped_node=$root/dev/mapper/$mapped_name
# How many sectors LUKS2 takes before the filesystem.
HEADER_SECTORS=32768
# The number of the token in the header that says how a TPM gives the key back (muster-crypt.sh).
TPM_TOKEN=1
# How long cryptsetup may take: it wipes and writes 16 MiB of headers.
CRYPTSETUP_SECONDS=120

# Sets encrypted to tpm if the header says how a TPM gives the key back, else to boot-host.
look_at_header() {
  encrypted=boot-host
  if within 20 cryptsetup token export --token-id $TPM_TOKEN "$node" >/dev/null 2>&1; then
    encrypted=tpm
  fi
}

# Makes node $2 a LUKS2 device with UUID $1, whose key is in $key_file, and opens it. The key is 32
# random octets, so a derivation that takes time and memory would add nothing.
encrypt() {
  write_within $CRYPTSETUP_SECONDS cryptsetup luksFormat --batch-mode --type luks2 \
    --uuid "$1" --label "$own_label" --offset $HEADER_SECTORS \
    --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file "$key_file" "$2" || return 1
  if [ -n "$token_file" ]; then
    write_within $CRYPTSETUP_SECONDS cryptsetup token import --token-id $TPM_TOKEN \
      --json-file "$token_file" "$2" || return 1
  fi
  write_within 600 sync "$2" || return 1
  write_within $CRYPTSETUP_SECONDS cryptsetup open --type luks2 --key-file "$key_file" "$2" \
    "$mapped_name"
}

# Closes the data filesystem that an earlier run opened and did not finish.
close_left_over() {
  [ -e "$mapped_node" ] || return 0
  write_within $CRYPTSETUP_SECONDS cryptsetup close "$mapped_name"
}

# Opens the encrypted filesystem on $node with $key_file, unless it is open.
open_data() {
  [ -z "$mapped" ] || return 0
  if [ -z "$key_file" ]; then
    fail "the filesystem on $device is encrypted, and its key is not here"
  fi
  write_within $CRYPTSETUP_SECONDS cryptsetup open --type luks2 --key-file "$key_file" \
    "$node" "$mapped_name" 2>&1
}
