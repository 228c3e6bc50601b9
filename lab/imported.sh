#!/bin/sh
# Makes a disk image of Debian as its publisher offers it (GPT, ext4, cloud-init, netplan, an fstab
# with the publisher's disks), and imports it:
#
#   lab/imported.sh [--cache DIR] [--force]
#
# The last line that is printed is the directory with the result. Needs root.
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

project=$(dirname "$(dirname "$(readlink -f "$0")")")
# shellcheck source=images/common.sh
. "$project/images/common.sh"
# shellcheck source=images/small.sh
. "$project/images/small.sh"
small_arguments "$project" "$@"
need mmdebstrap mke2fs=e2fsprogs sfdisk=fdisk
disk=$cache/publisher/debian-13.raw
out=$cache/debian-13-imported
if [ -n "$key_only" ]; then
  echo "$out"
  exit 0
fi
only_builder "$cache/publisher" "$force"
scratch publisher
if [ ! -f "$disk" ] || [ -n "$force" ]; then
  # shellcheck disable=SC2016 # apt expands these
  mirror=$(
    apt-get indextargets --format '$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages' |
      awk -F'|' '$1 == "main" { print $2; exit }'
  )
  packages=systemd-sysv,systemd-resolved,udev,dbus,cloud-init,netplan.io,openssh-server,sudo,curl
  packages=$packages,ca-certificates,openssl,iproute2,procps,kmod,e2fsprogs,fdisk,netbase
  echo "installing Debian 13 from $mirror: two minutes, 150 MB to fetch" >&2
  INITRD=No mmdebstrap --quiet --variant=minbase --format=directory \
    --include="$packages,initramfs-tools,linux-image-cloud-amd64" \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    trixie "$work/root" "deb $mirror trixie main" >&2
  uuid=11111111-2222-3333-4444-555555555555
  printf '%s\n' "UUID=$uuid / ext4 rw,discard,errors=remount-ro 0 1" \
    'UUID=ABCD-1234 /boot/efi vfat defaults 0 0' >"$work/root/etc/fstab"
  truncate -s 1G "$work/disk"
  # As in Debian's own images: the root is the first partition and begins last.
  printf '%s\n' 'label: gpt' 'start=262144, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709' \
    'start=2048, size=6144, type=21686148-6449-6E6F-744E-656564454649' \
    'start=8192, size=253952, type=uefi' | sfdisk -q "$work/disk"
  mke2fs -q -t ext4 -d "$work/root" -U "$uuid" -E offset=134217728 "$work/disk" 916479k
  mkdir -p "${disk%/*}"
  cp --sparse=always "$work/disk" "$disk.new"
  mv "$disk.new" "$disk"
fi
rm -rf "$out"
"$project/bin/muster" image import "$disk" --name debian-13-imported --to "$out" >&2
echo "$out"
