#!/bin/sh
# Runs a program that sees one directory of files, no network, no other process and no capability.
# Usage: confine.sh MOUNTPOINT FILES PROGRAM USER ARGUMENT…, in namespaces of its own (unshare) with
# the right to mount. USER is a numeric user to become, or empty to stay.
set -eu
root=$1 files=$2 program=$3 user=$4
shift 4
# Where the host lacks memory, the kernel ends this and not the server.
echo 1000 >/proc/self/oom_score_adj
mount -t tmpfs -o size=128m,nr_inodes=4k,mode=0755,nosuid,nodev none "$root"
cp -r "$files/." "$root"
mkdir -p "$root/dev" "$root/tmp"
# The publisher's kubelet is linked with the C library; the other programs are static.
for library in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1 \
  /lib/*-linux-gnu/libc.so.6 /lib/*-linux-gnu/libpthread.so.0 /lib/*-linux-gnu/libdl.so.2 \
  /lib/*-linux-gnu/libresolv.so.2 /lib/*-linux-gnu/libm.so.6 /lib/*-linux-gnu/librt.so.1; do
  if [ -e "$library" ]; then
    mkdir -p "$root${library%/*}"
    cp "$library" "$root$library"
  fi
done
: >"$root/program"
: >"$root/dev/null"
if [ -n "$user" ]; then
  chown -R "$user:$user" "$root"
fi
mount --bind "$program" "$root/program"
mount --bind /dev/null "$root/dev/null"
# The user that it becomes may not look into the directory above.
cd "$root"
set -- unshare --user --map-user=65534 --map-group=65534 --root=. --wd=/tmp -- /program "$@"
if [ -n "$user" ]; then
  set -- setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"
fi
exec prlimit --cpu=10 --data=402653184 --fsize=100663296 --core=0 --nofile=1024 --nproc=512 -- "$@"
