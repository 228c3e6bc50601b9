#!/bin/sh
# Builds the discovery system, which machines boot that no document knows: a Debian kernel and an
# initrd of busybox and a few scripts. It reports what the machine is made of and waits to be
# accepted. It writes to a disk only where a wipe is ordered, or where it installs a system
# (wipe.sh, erase.sh, install.sh). It tests machines (burn-in.sh), and operators
# look at them in it by SSH (rescue.sh).
#
#   images/discovery/build.sh [--kernel cloud|generic] [--cache DIR] [--force] [--print-directory]
#
# `generic` (default) knows the network cards and disk controllers of common servers, `cloud` those
# of virtual machines. The kernel is the host's own release's. Prints the directory with kernel,
# initrd and image.json as its last line. Needs no root.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
# shellcheck source=images/common.sh
. "$project/images/common.sh"
# shellcheck source=images/small.sh
. "$project/images/small.sh"
kernel=generic
# The parts of the agent that init.sh reads in.
parts='base within serial inventory'
small_arguments "$project" "$@"
small_kernel "$kernel"
modules="$modules virtio_blk virtio_scsi sd_mod ahci nvme"
if [ "$kernel" = generic ]; then
  modules="$modules ata_piix megaraid_sas mpt3sas mpi3mr hpsa smartpqi aacraid"
fi

# What mounts the file systems of a machine that is rescued.
rescue_modules='ext4 xfs btrfs vfat nls_cp437 nls_iso8859_1 nls_ascii nls_utf8'
# The programs of Debian: the SSH server of a rescue, what has drives erase and test themselves, and
# what tests memory.
program_packages='dropbear-bin nvme-cli hdparm smartmontools stressapptest'
programs='usr/sbin/dropbear usr/bin/dropbearkey usr/sbin/nvme sbin/hdparm usr/sbin/smartctl'
programs="$programs usr/bin/stressapptest"

need busybox=busybox-static cpio zstd xz=xz-utils
# program_libraries: prints the packages with the libraries of the programs, as apt knows them.
program_libraries() {
  next=$program_packages
  known=' '
  while [ -n "$next" ]; do
    # shellcheck disable=SC2086 # names, one a word
    found=$(apt-cache depends --important $next | sed -n 's/^ *|*Depends: \(lib[^ :]*\)$/\1/p')
    next=''
    for one in $found; do
      case $known in
        *" $one "*) continue ;;
      esac
      known="$known$one "
      next="$next $one"
    done
  done
  echo "$known"
}

# put_programs ROOT: puts the programs with their libraries into the tree. Libraries that this host
# has not installed come from their packages.
put_programs() {
  mkdir "$work/programs"
  tree=$work/programs/tree
  # shellcheck disable=SC2086 # names, one a word
  for one in $program_packages $libraries; do
    case $one in
      lib*) ! dpkg-query -W -f '${db:Status-Status}' "$one" 2>/dev/null | grep -qx installed ||
        continue ;;
    esac
    fetch_package "$one" "$work/programs"
  done
  for deb in "$work"/programs/*.deb; do
    dpkg-deb -x "$deb" "$tree"
  done
  beside=$(find "$tree" -name '*.so.*' -printf '%h\n' | sort -u | tr '\n' ':')
  for program in $programs; do
    [ -e "$tree/$program" ] || program=${program#usr/}
    [ -e "$tree/$program" ] || program=usr/$program
    install -m 755 "$tree/$program" "$1/bin/"
    LD_LIBRARY_PATH=$beside ldd "$tree/$program" | tee -a "$work/programs/needed" |
      grep -o '/[^ ]*' >>"$work/programs/libraries"
  done
  if grep 'not found' "$work/programs/needed" >&2; then
    exit 1
  fi
  mkdir -p "$1/lib" "$1/lib64" "$1/root" "$1/mnt"
  sort -u "$work/programs/libraries" | while read -r library; do
    case $library in
      */ld-linux*) install -m 755 "$library" "$1/lib64/" ;;
      *) install -m 644 "$library" "$1/lib/" ;;
    esac
  done
  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' >"$1/etc/passwd"
  printf '%s\n' 'root:x:0:' >"$1/etc/group"
  printf '%s\n' /bin/sh >"$1/etc/shells"
}

real=$(real_package "$package")
libraries=$(program_libraries)
recipe=$(
  cd "$project"
  {
    echo "$kernel $real"
    for part in $parts; do
      sha256sum "src/agent/scripts/muster-$part.sh"
    done
    sha256sum images/*.sh images/discovery/*.sh
    # shellcheck disable=SC2086 # names, one a word
    apt-cache policy $program_packages $libraries zlib1g | grep -e '^[a-z]' -e Candidate
  } | sha256sum | cut -c1-16
)
out=$cache/discovery-$kernel-$recipe
if [ -n "$key_only" ]; then
  echo "$out"
  exit 0
fi
built "$out" "$force"
only_builder "$out" "$force"
scratch discovery
started=$(date +%s)
echo "building the discovery system from $real: some 20 seconds, 30 to 100 MB to fetch" >&2
fetch_package "$real" "$work"
unpack_kernel "$work"/linux-image-*.deb "$work/kernel"
version=$(basename "$work"/kernel/boot/vmlinuz-* | sed 's/^vmlinuz-//')

root=$work/root
# shellcheck disable=SC2086 # names, one a word
small_root "$project" "$root" "$work/kernel" $modules
mkdir -p "$root/agent"
for part in $parts; do
  install -m 644 "$project/src/agent/scripts/muster-$part.sh" "$root/agent"
done
install -m 755 "$here/init.sh" "$root/init"
install -m 644 "$here/wipe.sh" "$root/wipe.sh"
install -m 644 "$here/erase.sh" "$root/erase.sh"
install -m 644 "$here/burn-in.sh" "$root/burn-in.sh"
install -m 644 "$here/install.sh" "$root/install.sh"
rm -f "$root/bin/lsblk"
install -m 755 "$here/lsblk.sh" "$root/bin/lsblk"
install -m 644 "$here/rescue.sh" "$root/rescue.sh"
install -m 755 "$here/look.sh" "$root/bin/look"
# shellcheck disable=SC2086 # names, one a word
put_modules "$work/kernel" "$root/rescue-modules" $rescue_modules
put_programs "$root"
small_files "$root" "$work/kernel" "$version"

# panic: a kernel that stops on unknown hardware starts over, and is counted.
cat >"$work/image.json" <<JSON
{
  "name": "discovery",
  "os": "discovery",
  "version": "1",
  "arch": "x86_64",
  "recipe": "$recipe",
  "configFormat": "none",
  "kernelVersion": "$version",
  "kernelArguments": ["console=ttyS0,115200n8", "console=tty0", "panic=60"],
  "kernel": $(describe "$work/vmlinuz" kernel),
  "initrd": $(describe "$work/initrd" initrd)
}
JSON
small_finish "$started"
