#!/bin/sh
# An attacker on the rack's segment, for lab/tickets.yaml: a host with an address of its own that
# hears every broadcast, knows the victim's MAC address and asks for the victim's boot.
#
#     attacker.sh open                     joins the segment
#     attacker.sh race MAC                 asks before the machine does
#     attacker.sh listen MAC CAPTURE       tries every boot whose name was broadcast
#     attacker.sh replay MAC SESSION...    tries every URL of these sessions
#
# Prints what it got, and at the end how much that is: "nothing" or "N answers".
set -eu

server=http://10.77.0.1:8080
got=0

# Runs a command as the attacker.
inside() {
  ip netns exec attacker "$@"
}

# Asks for URL $1 with more arguments of curl; counts answers that are of use.
try() {
  url=$1
  shift
  status=$(inside curl -q -s -m 20 -o answer -w '%{http_code}' "$@" "$url") || status=000
  case $url in
    *script.ipxe*) grep -q '^kernel ' answer || return 0 ;;
    *) [ "$status" = 200 ] || return 0 ;;
  esac
  echo "got $url"
  got=$((got + 1))
}

# Tries everything below boot session $2, in the name of MAC address $1.
try_session() {
  try "$server/boot/$2/script.ipxe?mac=$1&macs=$1&arch=x86_64&platform=pcbios"
  for document in user-data meta-data vendor-data network-config ignition; do
    try "$server/boot/$2/$document"
  done
  for step in ready failed; do
    try "$server/boot/$2/report" -d "step=$step"
  done
}

# Prints the names of boots in capture $1, which holds what every host of the segment hears.
broadcast_names() {
  tcpdump -nAr "$1" 'dst host 255.255.255.255 and src port 67' 2>/dev/null |
    grep -ao 'boot/[A-Za-z0-9_-]\{22\}' | sed 's,boot/,,' | sort -u
}

# Joins the segment as a host with an address of its own.
open_attacker() {
  ip netns add attacker
  ip link add attacker type veth peer name eth0 netns attacker
  ip link set attacker master main up
  ip -n attacker link set eth0 address "$own" up
  ip -n attacker addr add 10.77.0.66/24 dev eth0
}

# Asks seven times in the name of MAC address $1: so many boots without a ready report would put the
# machine on hold.
race() {
  for attempt in 1 2 3 4 5 6 7; do
    try "$server/script.ipxe?mac=$1&arch=x86_64&platform=pcbios&attempt=$attempt"
    try "$server/script.ipxe?mac=$own&macs=$own,$1&arch=x86_64&platform=pcbios"
  done
}

# Tries, in the name of MAC address $1, every boot that capture $2 names.
listen() {
  # A packet is in the capture a second after it was sent.
  tries=0
  until names=$(broadcast_names "$2") && [ -n "$names" ]; do
    tries=$((tries + 1))
    if [ "$tries" -ge 10 ]; then
      echo 'no boot was broadcast'
      exit 1
    fi
    sleep 1
  done
  for name in $names; do
    try_session "$1" "$name"
  done
}

# Tries, in the name of MAC address $1, the sessions that follow.
replay() {
  mac=$1
  shift
  if [ "$#" -eq 0 ]; then
    echo 'no session to replay'
    exit 1
  fi
  for session; do
    try_session "$mac" "$session"
  done
}

own=52:54:00:66:66:66
do=$1
shift
case $do in
  open) open_attacker ;;
  race) race "$@" ;;
  listen) listen "$@" ;;
  replay) replay "$@" ;;
esac
if [ "$got" = 0 ]; then
  echo nothing
else
  echo "$got answers"
fi
