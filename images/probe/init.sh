#!/bin/sh
# The probe system: boots, takes its lease on the interface that BOOTIF names, fetches its
# first-boot documents, reports like a whole system does, and prints what it received as one line on
# the console: MUSTER-PROBE {json}. Then it stays up, or does what probe.do= on the command line
# says: `reboot` (before it reports anything but its kernel; for the loop guard) or `poweroff`.
# probe.copy=/dev/ttyS1 names a second place for that line.
export PATH=/bin:/etc/muster

# shellcheck source=images/early.sh
. /early.sh
early_mounts
exec </dev/console >/dev/console 2>&1
echo 'muster: probe system'

# Prints standard input as the inside of a JSON string.
quoted() {
  tr -d '\000-\010\013-\037' |
    sed 's/\\/\\\\/g; s/"/\\"/g; s/	/\\t/g' |
    awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }'
}

# Prints lines NAME=VALUE on standard input as a JSON object of strings.
object() {
  printf '{'
  comma=
  while IFS='=' read -r name value; do
    printf '%s"%s":"%s"' "$comma" "$name" "$(printf '%s' "$value" | quoted)"
    comma=,
  done
  printf '}'
}

before=$(date +%s)
early_clock
early_modules
url=$(argument muster.url)
boot_card
failure=
if [ -z "$nic" ]; then
  failure="no network card has the address $mac"
elif ! take_lease "$nic" -q -f; then
  failure="no DHCP answer on $nic"
fi

export MUSTER_TRIES=5 MUSTER_PAUSE=2
[ -n "$failure" ] || muster-report.sh kernel "probe, $(uname -r)"
if [ "$(argument probe.do)" = reboot ]; then
  echo 'muster: probe reboots without a ready report, as probe.do says'
  reboot -f
fi

documents=
for name in user-data meta-data vendor-data network-config ignition; do
  [ -z "$failure" ] || break
  tries=0
  # 404 is an answer (this document is not for this machine); any other failure may be temporary.
  until timeout 10 wget -q -O "/run/$name" "$url/$name" 2>/run/wget; do
    case $(cat /run/wget) in
      *404*)
        rm -f "/run/$name"
        break
        ;;
    esac
    tries=$((tries + 1))
    if [ "$tries" -ge 10 ]; then
      failure="$name: $(tail -n 1 /run/wget)"
      break
    fi
    sleep 2
  done
  [ -f "/run/$name" ] || continue
  hash=$(sha256sum "/run/$name")
  document="{\"sha256\":\"${hash%% *}\",\"text\":\"$(quoted <"/run/$name")\"}"
  documents="$documents${documents:+,}\"$name\":$document"
done

{
  printf '{"mac":"%s","nic":"%s",' "$(cat "/sys/class/net/$nic/address" 2>/dev/null)" "$nic"
  printf '"clock":{"before":%s,"now":%s},' "$before" "$(date +%s)"
  printf '"cmdline":"%s",' "$(quoted </proc/cmdline)"
  printf '"addresses":"%s",' "$(ip -4 -o addr show scope global | awk '{ print $2, $4 }' | quoted)"
  printf '"lease":%s,' "$(object </run/lease 2>/dev/null || echo '{}')"
  printf '"documents":{%s},"failure":"%s"}' "$documents" "$(printf '%s' "$failure" | quoted)"
} >/run/probe.json

if [ -z "$failure" ]; then
  muster-report.sh configured
  muster-report.sh ready "probe with $(awk -F= '$1 == "ip" { print $2 }' /run/lease)"
elif [ -f /run/lease ]; then
  muster-report.sh failed "$failure" /run/probe.json
fi
printf 'MUSTER-PROBE %s\n' "$(cat /run/probe.json)"
# On a console the kernel's messages can fall into the middle of the line, so probe.copy= names a
# place where nothing else writes.
copy=$(argument probe.copy)
[ -z "$copy" ] || printf 'MUSTER-PROBE %s\n' "$(cat /run/probe.json)" >"$copy"
[ -z "$failure" ] || echo "muster: probe failed: $failure"
[ "$(argument probe.do)" != poweroff ] || poweroff -f
while :; do
  sleep 3600
done
