#!/bin/sh
# make demo: from a fresh Debian 12 or 13 with git and make to three machines that boot from the
# network. Says what is missing before it installs anything, asks once, and touches neither the
# host's network nor its services: the machines, their network and the boot server live in a
# namespace of their own.
set -eu
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
list=.cache/demo-packages.txt

# Of debian-packages.txt only what booting machines takes.
needed='iproute2 tcpdump perl-base curl qemu-system-x86 ovmf ipxe ipxe-qemu mmdebstrap squashfs-tools uidmap cpio busybox-static zstd xz-utils'

mkdir -p .cache
for package in $needed; do
  grep -E "^${package}[[:space:]]" debian-packages.txt || {
    echo "demo.sh: debian-packages.txt does not list $package" >&2
    exit 1
  }
done >"$list"
# npm brings Node 24 from package-lock.json; any npm will do.
command -v npm >/dev/null 2>&1 || echo 'npm stable install brings Node 24' >>"$list"

if ! command -v apt-get >/dev/null 2>&1; then
  echo 'demo.sh: this host has no apt-get; the demo is made for Debian 12 and 13' >&2
  exit 1
fi
missing=$(MUSTER_PACKAGES=$list scripts/packages.sh missing) || true
if [ -n "$missing" ]; then
  command="env MUSTER_PACKAGES=$list scripts/packages.sh install"
  echo 'The demo needs these packages of Debian, which are not installed:'
  echo "$missing" | awk '{ print "  " $1 }'
  if [ "$(id -u)" = 0 ]; then
    echo "Installing them: $command"
  else
    command="sudo $command"
    echo "This installs them: $command"
    if ! [ -t 0 ] || ! command -v sudo >/dev/null 2>&1; then
      echo 'There is nobody to ask for the password here: run that command, then make demo again.' >&2
      exit 1
    fi
    printf 'Run it now? [Y/n] '
    read -r answer
    case $answer in '' | [Yy]*) ;; *) exit 1 ;; esac
  fi
  $command
  if ! missing=$(MUSTER_PACKAGES=$list scripts/packages.sh missing); then
    echo "demo.sh: still missing after the installation:" >&2
    echo "$missing" >&2
    exit 1
  fi
fi

if ! [ -x node_modules/.bin/node ] || [ -n "$(find package-lock.json -newer node_modules)" ]; then
  echo 'Bringing Node 24 and the packages of package-lock.json into node_modules (npm ci) ...'
  npm ci --no-audit --no-fund --loglevel=error
  touch node_modules
fi

image=$(images/debian/build.sh --print-directory)
if ! [ -f "$image/image.json" ]; then
  echo 'Building the Debian image, once: some 250 MB to fetch, 190 MB in .cache/images, one to three minutes.'
fi
# Debian lets everybody have namespaces and network cables of their own. Where a host does not, it
# takes root.
run='bin/muster lab run lab/demo.yaml'
if [ "$(id -u)" != 0 ] && ! { [ -w /dev/net/tun ] && unshare --user --map-root-user --net true 2>/dev/null; }; then
  if ! [ -t 0 ] || ! command -v sudo >/dev/null 2>&1; then
    echo "This host lets only root have a network of its own: run sudo make demo" >&2
    exit 1
  fi
  run="sudo $run"
  echo "This host lets only root have a network of its own: $run"
fi
code=0
$run || code=$?

if [ "$code" = 0 ]; then
  cat <<DONE
Consoles, events and a capture of the network are in .cache/lab/demo. To try next:

  bin/muster lab run lab/unknown-machine.yaml   a machine nobody knows is held, accepted, and boots
  bin/muster lab run --keep lab/demo.yaml       the same rack, left running so that you can look around in it
  bin/muster validate profiles                  the documents to start your own configuration from
DONE
else
  echo "Not everything held. Consoles, events and a capture of the network are in .cache/lab/demo" >&2
fi
exit "$code"
