#!/bin/sh
# The probe system: boots, takes its lease on the interface that BOOTIF names, fetches its
# first-boot documents, reports like a whole system does, and prints what it received as one line on
# the console: MUSTER-PROBE {json}. Then it stays up, or does what probe.do= on the command line
# says: `reboot` (before it reports anything but its kernel; for the loop guard) or `poweroff`.
# probe.copy=/dev/ttyS1 names a second place for that line.
export PATH=/bin:/etc/muster

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
exec </dev/console >/dev/console 2>&1
echo 'muster: probe system'

# Prints the value of kernel argument $1; of several the last, as the kernel does.
argument() {
  value=
  # shellcheck disable=SC2013 # words are wanted
  for word in $(cat /proc/cmdline); do
    case $word in
      "$1"=*) value=${word#*=} ;;
    esac
  done
  printf '%s' "$value"
}

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
now=$(argument muster.time)
if [ -n "$now" ] && [ "$before" -lt "$now" ]; then
  date -u -s "@$now" >/dev/null
fi

while read -r module; do
  insmod "/modules/$module"
done </modules/order
url=$(argument muster.url)
mac=$(argument BOOTIF | tr 'A-Z-' 'a-z:')
mac=${mac#01:}

nic=
tries=0
while [ -z "$nic" ] && [ "$tries" -lt 30 ]; do
  for path in /sys/class/net/*; do
    [ -e "$path/device" ] || continue
    if [ -z "$mac" ] || [ "$(cat "$path/address")" = "$mac" ]; then
      nic=${path##*/}
      break
    fi
  done
  tries=$((tries + 1))
  [ -n "$nic" ] || sleep 1
done

failure=
if [ -z "$nic" ]; then
  failure="no network card has the address $mac"
else
  ip link set lo up
  tries=0
  until udhcpc -i "$nic" -n -q -f -t 4 -T 3 -A 1 -O 42 -O 26 -s /udhcpc.sh; do
    tries=$((tries + 1))
    if [ "$tries" -ge 6 ]; then
      failure="no DHCP answer on $nic"
      break
    fi
  done
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
