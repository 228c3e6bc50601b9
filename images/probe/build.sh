#!/bin/sh
# Builds the probe system: a Debian kernel and an initrd of busybox and two scripts, about 10 MB
# that boot in seconds and report what they received. It serves scenarios about protocols, and a
# first look at a rack.
#
#   images/probe/build.sh [--kernel cloud|generic] [--cache DIR] [--force] [--print-directory]
#
# `cloud` knows the network cards of virtual machines, `generic` also the common ones of servers.
# The kernel is the host's own release's. Prints the directory with kernel, initrd and image.json as
# its last line. Needs no root.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
# shellcheck source=images/common.sh
. "$project/images/common.sh"
# shellcheck source=images/small.sh
. "$project/images/small.sh"
kernel=cloud
small_arguments "$project" "$@"
small_kernel "$kernel"

need busybox=busybox-static cpio zstd xz=xz-utils
real=$(real_package "$package")
recipe=$(
  cd "$project"
  {
    echo "$kernel $real"
    sha256sum images/*.sh images/probe/*.sh src/ignition/report/muster-report.sh
  } | sha256sum | cut -c1-16
)
out=$cache/probe-$kernel-$recipe
if [ -n "$key_only" ]; then
  echo "$out"
  exit 0
fi
built "$out" "$force"
only_builder "$out" "$force"
scratch probe
started=$(date +%s)
echo "building the probe system from $real: some 10 seconds, 30 to 100 MB to fetch" >&2
fetch_package "$real" "$work"
unpack_kernel "$work"/linux-image-*.deb "$work/kernel"
version=$(basename "$work"/kernel/boot/vmlinuz-* | sed 's/^vmlinuz-//')

root=$work/root
# shellcheck disable=SC2086 # names, one a word
small_root "$project" "$root" "$work/kernel" $modules
install -m 755 "$here/init.sh" "$root/init"
mkdir -p "$root/etc/muster"
install -m 755 "$project/src/ignition/report/muster-report.sh" "$root/etc/muster/muster-report.sh"
small_files "$root" "$work/kernel" "$version"

cat >"$work/image.json" <<JSON
{
  "name": "probe",
  "os": "probe",
  "version": "1",
  "arch": "x86_64",
  "recipe": "$recipe",
  "configFormat": "cloud-init",
  "kernelVersion": "$version",
  "kernelArguments": ["console=tty0", "console=ttyS0,115200n8"],
  "kernel": $(describe "$work/vmlinuz" kernel),
  "initrd": $(describe "$work/initrd" initrd)
}
JSON
small_finish "$started"
