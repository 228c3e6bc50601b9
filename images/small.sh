#!/bin/sh
# Functions that the scripts share which build small systems of busybox: images/probe/build.sh and
# images/discovery/build.sh source this file after common.sh; it is never run.

# small_arguments PROJECT WORD...: reads the arguments of a build.sh. Sets cache, force, key_only,
# and kernel if it is given. Exits with the usage of the script for another word.
# shellcheck disable=SC2034 # read by who calls
small_arguments() {
  cache=$(images_cache "$1")
  force=''
  key_only=''
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --kernel) kernel=${2:-} && shift ;;
      --cache) cache=${2:-} && shift ;;
      --force) force=1 ;;
      --print-directory) key_only=1 ;;
      *) sed -n 's/^#   //p' "$0" >&2 && exit 2 ;;
    esac
    shift
  done
}

# small_kernel cloud|generic: sets package to the kernel of a small system of busybox, and modules
# to those that it needs for its network.
# shellcheck disable=SC2034 # read by who calls
small_kernel() {
  modules='virtio_pci virtio_mmio virtio_net virtio_rng af_packet'
  case $1 in
    cloud) package=linux-image-cloud-amd64 ;;
    generic)
      package=linux-image-amd64
      modules="$modules e1000 e1000e igb igc ixgbe i40e ice r8169"
      modules="$modules tg3 bnxt_en bnx2x mlx4_en mlx5_core"
      ;;
    *) echo "build.sh: --kernel is cloud or generic" >&2 && exit 2 ;;
  esac
}

# busybox_root PROJECT ROOT: makes a tree of busybox and what the /init of all systems shares.
busybox_root() {
  mkdir -p "$2/bin" "$2/dev" "$2/etc" "$2/proc" "$2/run" "$2/sys"
  cp "$(command -v busybox)" "$2/bin/busybox"
  "$2/bin/busybox" --list | while read -r applet; do
    [ "$applet" = busybox ] || ln -s busybox "$2/bin/$applet"
  done
  install -m 644 "$1/images/early.sh" "$2/early.sh"
}

# small_root PROJECT ROOT KERNEL MODULE...: makes the tree of a small system: busybox, the modules
# of the unpacked kernel, and what its /init shares with that of other systems.
small_root() {
  project=$1
  root=$2
  tree=$3
  shift 3
  busybox_root "$project" "$root"
  put_modules "$tree" "$root/modules" "$@"
  install -m 755 "$project/images/udhcpc.sh" "$root/udhcpc.sh"
}

# small_files ROOT KERNEL VERSION: writes initrd and vmlinuz to the directory work.
# shellcheck disable=SC2154 # work: set by scratch
small_files() {
  archive "$1" | zstd -q -19 -o "$work/initrd"
  cp "$2/boot/vmlinuz-$3" "$work/vmlinuz"
}

# small_finish STARTED: puts the files from work to the directory out, and prints it.
# shellcheck disable=SC2154 # out: set by who calls
small_finish() {
  mkdir -p "$out"
  install -m 644 "$work/vmlinuz" "$out/kernel"
  install -m 644 "$work/initrd" "$out/initrd"
  # This file is written last, because its presence says that the others are complete.
  install -m 644 "$work/image.json" "$out/image.json"
  sizes="kernel $(kib kernel) KiB, initrd $(kib initrd) KiB"
  echo "built in $(($(date +%s) - $1)) s: $sizes" >&2
  echo "$out"
}

# kib FILE: prints the size of a file of the image in KiB.
kib() {
  echo $(($(stat -c %s "$out/$1") / 1024))
}
