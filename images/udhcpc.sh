#!/bin/sh
# Called by udhcpc with the lease in the environment: configures the interface, and keeps everything
# that was received in /run/lease.
# shellcheck disable=SC2154 # set by udhcpc
case $1 in
  deconfig)
    ip addr flush dev "$interface"
    ip link set dev "$interface" up
    ;;
  bound | renew)
    ip addr flush dev "$interface"
    ip addr add "$ip/${mask:-24}" dev "$interface"
    for gateway in ${router:-}; do
      ip route replace default via "$gateway" dev "$interface" && break
    done
    names='ip|mask|subnet|broadcast|router|dns|ntpsrv|domain|hostname|mtu|lease|serverid'
    names="$names|siaddr|sname|boot_file|vendor|opt[0-9]+"
    env | grep -E "^($names)=" | sort >/run/lease
    ;;
esac
