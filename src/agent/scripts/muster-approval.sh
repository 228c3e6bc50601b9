#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the code on the consoles, by which an operator
# recognises this machine's key. approval-code.ts computes the same on the server.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Digits and letters without I, L, O and U, which look or sound like others.
code_symbols=0123456789ABCDEFGHJKMNPQRSTVWXYZ

# Sets approval_code to the code for nonce $1: thirty bits of a hash over machine, key, CA and
# nonce.
approval_code() {
  openssl pkey -in "$identity/agent.key" -pubout -outform DER -out "$run/pin" || return 1
  sha256 "$run/pin" || return 1
  own_pin=$sha256
  sha256 "$etc/ca.crt" || return 1
  printf 'muster approval 1\n%s\n%s\n%s\n%s\n' "$machine" "$own_pin" "$sha256" "$1" \
    >"$run/approval" || return 1
  sha256 "$run/approval" || return 1
  code_bits=$((0x${sha256%"${sha256#????????}"}))
  approval_code=
  for code_shift in 27 22 17 12 7 2; do
    code_index=$(((code_bits >> code_shift) & 31))
    code_rest=$code_symbols
    while [ "$code_index" -gt 0 ]; do
      code_rest=${code_rest#?}
      code_index=$((code_index - 1))
    done
    approval_code=$approval_code${code_rest%"${code_rest#?}"}
    [ "$code_shift" != 17 ] || approval_code=$approval_code-
  done
}

# Shows the code for nonce $1 on all consoles: when the nonce is a new one, and again after thirty
# requests, because other programs write there too.
show_code() {
  case $1 in
    '' | *[!0-9a-f]*) return 1 ;;
  esac
  code_shown=$((code_shown + 1))
  if [ "$1" != "$shown_nonce" ]; then
    approval_code "$1" || return 1
    say 'the key waits for an operator; the console shows its code'
    shown_nonce=$1
  elif [ "$code_shown" -lt 30 ]; then
    return 0
  fi
  code_shown=0
  {
    printf '\n\n================================================================\n'
    printf '  Machine %s waits for an operator of Muster. Its code:\n\n' "$machine"
    printf '          %s\n\n' "$approval_code"
    printf '  Type it on the boot host if you read it on the console of\n'
    printf '  this machine:\n\n'
    printf '      muster machine approve %s %s\n' "$machine" "$approval_code"
    printf '================================================================\n\n'
  } >"$run/screen" || return 1
  show_on_consoles
}

# Says on the consoles that the code is not needed any more, if there was one.
end_code() {
  [ -n "$shown_nonce" ] || return 0
  shown_nonce=
  printf '\nMachine %s has its certificate; its code is not needed any more.\n\n' "$machine" \
    >"$run/screen" || return 1
  show_on_consoles
}

# Writes $run/screen to every console that the kernel uses; of the virtual ones to the first, where
# the login is. A serial line that nobody reads may block, so each is written in the background.
show_on_consoles() {
  consoles=console
  if [ -r "$root/sys/class/tty/console/active" ]; then
    read -r consoles <"$root/sys/class/tty/console/active"
  fi
  for console in $consoles; do
    [ "$console" != tty0 ] || console=tty1
    within 10 cp "$run/screen" "$root/dev/$console" >/dev/null 2>&1 &
  done
}
