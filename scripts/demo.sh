#!/bin/sh
# make demo: from a fresh Debian 12 or 13 with git and make to three machines that boot from the
# network, two of them switched on through their BMCs. Says what is missing before it installs
# anything, asks once, and touches neither the host's network nor its services: the machines, their
# network and the boot server live in a namespace of their own.
#
# On a terminal, or with KEEP=1, everything then runs on until Ctrl-C, with the page of the boot
# server on PAGE_PORT (8444) of 127.0.0.1. KEEP=0 ends it, as without a terminal.
set -eu
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"

# Booting machines takes only these packages of debian-packages.txt.
scripts/prepare.sh demo libatomic1 mount iproute2 tcpdump perl-base curl qemu-system-x86 ovmf ipxe \
  ipxe-qemu mmdebstrap squashfs-tools cryptsetup-bin uidmap cpio busybox-static zstd xz-utils

image=$(images/debian/build.sh --print-directory)
if ! [ -f "$image/image.json" ]; then
  echo 'Building the Debian image, once: some 250 MB to fetch, 190 MB in .cache/images,' \
    'one to three minutes.'
fi
# Debian lets everybody have namespaces and network cables of their own. Where a host does not, it
# takes root.
run='bin/muster lab run lab/demo.yaml'
page_port=${PAGE_PORT:-8444}
keep=${KEEP:-}
if [ -z "$keep" ] && [ -t 0 ]; then
  keep=1
fi
if [ "${keep:-0}" != 0 ]; then
  make --no-print-directory page
  run="$run --keep --page $page_port"
  # Ctrl-C ends the rack in good order; the text below comes after that.
  trap : INT
else
  keep=''
fi
# Whether this user may have a network of its own.
may_have_network() {
  [ "$(id -u)" != 0 ] || return 0
  [ -w /dev/net/tun ] || return 1
  unshare --user --map-root-user --net true 2>/dev/null
}
if ! may_have_network; then
  if ! [ -t 0 ] || ! command -v sudo >/dev/null 2>&1; then
    echo "This host lets only root have a network of its own: run sudo make demo" >&2
    exit 1
  fi
  run="sudo $run"
  echo "This host lets only root have a network of its own: $run"
fi
code=0
$run || code=$?
# Ctrl-C before the end.
[ "$code" != 130 ] || exit 130

if [ "$code" = 0 ]; then
  cat <<DONE
Consoles, events and a capture of the network are in .cache/lab/demo. To try next:

  bin/muster lab run lab/unknown-machine.yaml   a machine nobody knows is held, accepted, and boots
  bin/muster validate profiles                  the documents to start your own configuration from
DONE
  if [ -z "$keep" ]; then
    cat <<DONE
  make demo KEEP=1                              the same rack, left running, with a link to its
                                                page: https://127.0.0.1:$page_port/#invitation=CODE
DONE
  fi
else
  echo 'Not everything held.' \
    'Consoles, events and a capture of the network are in .cache/lab/demo' >&2
fi
exit "$code"
