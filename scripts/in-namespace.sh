#!/bin/sh
# Runs a command where it can build networks without touching the host's: own network, mounts and
# processes, an empty /run. Nothing that it starts survives it, and nothing in it can set the host's
# clock, which no namespace keeps apart. Needs root.
set -eu
if [ "$(id -u)" != 0 ]; then
  if ! [ -t 0 ] || ! command -v sudo >/dev/null 2>&1; then
    echo "in-namespace.sh: needs root (network namespaces); run it with sudo" >&2
    exit 1
  fi
  kept=PATH,CI,MUSTER_TEST_STAGE,MUSTER_ARTIFACTS,MUSTER_FORMER_ARTIFACTS,MUSTER_EVERY_EFFECT
  exec sudo --preserve-env="$kept" "$0" "$@"
fi
export PATH="$PATH:/usr/sbin:/sbin"
# shellcheck disable=SC2016 # expanded by the inner shell
exec setpriv --bounding-set=-sys_time \
  unshare --net --mount --pid --fork --kill-child --mount-proc sh -c '
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/netns /run/muster /run/lock
  ip link set lo up
  exec "$@"' in-namespace "$@"
