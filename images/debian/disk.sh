#!/bin/sh
# Functions that make the image of a whole disk, which starts with BIOS and with UEFI. build.sh
# sources this file; it is never run.
#
#   1  1 MiB   the loader for BIOS (GRUB), which the boot code in the first sector starts
#   2  40 MiB  the EFI system partition, with GRUB at the fallback path
#   3          the root file system, which grows to the end of the disk
#
# Both loaders read the configuration from partition 3 of the disk that they were started from, and
# start the links /vmlinuz and /initrd.img there, which a new kernel's package moves.

# The first sectors of the partitions; the first one is in the octets that disk_boot_code writes.
bios_start=2048
esp_start=4096
root_start=86016

# Exits unless the tools are there and this is root, who alone can make files of other owners.
disk_needs() {
  need mke2fs=e2fsprogs mkfs.vfat=dosfstools mcopy=mtools sfdisk=fdisk
  [ "$(id -u)" = 0 ] || {
    echo 'build.sh: the image of a disk is built by root: sudo' >&2
    exit 1
  }
}

# disk_uuid RECIPE: prints the UUID of the root file system.
disk_uuid() {
  echo "$1" | sha256sum |
    sed 's/^\(.\{8\}\)\(.\{4\}\)\(.\{3\}\)\(.\{3\}\)\(.\{12\}\).*/\1-\2-4\3-8\4-\5/'
}

# disk_tree TREE RECIPE ARGUMENTS: adds what is special to systems on a disk to the files of the
# image.
disk_tree() {
  # An initrd for the disk of any machine.
  printf '%s\n' MODULES=most COMPRESS=zstd RESUME=none >"$1/etc/initramfs-tools/conf.d/muster"
  # The boot host has made the partition larger.
  printf '%s\n' 'resize_rootfs: true' >"$1/etc/cloud/cloud.cfg.d/30-muster-disk.cfg"
  printf '%s\n' "UUID=$(disk_uuid "$2") / ext4 errors=remount-ro 0 1" \
    'PARTLABEL=esp /boot/efi vfat umask=0077,noauto 0 0' >"$1/etc/fstab"
  mkdir -p "$1/boot/efi" "$1/boot/grub"
  # Both consoles, as the images for RAM have them. A board without a serial port ignores one.
  cat >"$1/grub.cfg" <<CFG
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
set timeout=1
menuentry 'Debian' {
  linux /vmlinuz root=UUID=$(disk_uuid "$2") ro console=tty0 console=ttyS0,115200n8 $3
  initrd /initrd.img
}
menuentry 'Debian, for one user' {
  linux /vmlinuz root=UUID=$(disk_uuid "$2") ro single console=ttyS0,115200n8 console=tty0 $3
  initrd /initrd.img
}
CFG
}

# disk_root DIRECTORY: makes the tree of the root file system from root.tar, kernel and initrd, and
# the loaders bios.img, boot.img and efi.img beside it.
# shellcheck disable=SC2154 # work, kernel_version: set by build.sh
disk_root() {
  mkdir "$1"
  tar -C "$1" --numeric-owner --xattrs --xattrs-include='*' -xpf "$work/root.tar"
  install -m 644 "$work/kernel" "$1/boot/vmlinuz-$kernel_version"
  install -m 644 "$work/initrd" "$1/boot/initrd.img-$kernel_version"
  ln -s "boot/vmlinuz-$kernel_version" "$1/vmlinuz"
  ln -s "boot/initrd.img-$kernel_version" "$1/initrd.img"
  mkdir -p "$1/boot/efi" "$1/boot/grub"
  mv "$1/grub.cfg" "$1/boot/grub/grub.cfg"
  cat >"$1/disk.sh" <<'DISK'
set -eu
# A disk wants what a system in memory never needs.
systemctl unmask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service fstrim.timer
modules='part_gpt ext2 normal linux serial terminal'
# shellcheck disable=SC2086 # names, one a word
grub-mkimage -O i386-pc -o /bios.img -p '(,gpt3)/boot/grub' biosdisk $modules
# shellcheck disable=SC2086 # names, one a word
grub-mkimage -O x86_64-efi -o /efi.img -p '(,gpt3)/boot/grub' fat $modules
cp /usr/lib/grub/i386-pc/boot.img /boot.img
# shellcheck disable=SC2046 # names, one a word
dpkg --purge $(dpkg-query -W -f '${Package}\n' 'grub*' | grep -v -x grub-common) grub-common
rm -f /disk.sh
touch /etc/.updated /var/.updated
DISK
  chroot "$1" sh /disk.sh >"$work/disk.log" 2>&1 || {
    cat "$work/disk.log" >&2
    exit 1
  }
  for file in bios.img efi.img boot.img; do
    mv "$1/$file" "$work/$file"
  done
}

# disk_boot_code FILE: puts the loader for BIOS into the image, as grub-bios-setup does: the boot
# code in the first sector gets the number of the loader's first sector (2048), and that one the
# number of the next (2049). A jump is taken out that trusts the firmware to name the right disk.
disk_boot_code() {
  printf '\000\010\000\000\000\000\000\000' |
    dd of="$work/boot.img" bs=1 seek=92 conv=notrunc status=none
  printf '\220\220' | dd of="$work/boot.img" bs=1 seek=102 conv=notrunc status=none
  printf '\001\010\000\000\000\000\000\000' |
    dd of="$work/bios.img" bs=1 seek=500 conv=notrunc status=none
  dd if="$work/boot.img" of="$1" bs=440 count=1 conv=notrunc status=none
  dd if="$work/bios.img" of="$1" bs=512 seek="$bios_start" conv=notrunc status=none
}

# disk_image RECIPE FILE: makes the image.
disk_image() {
  root=$work/root
  disk_root "$root"
  [ "$(stat -c %s "$work/bios.img")" -le 1048576 ]
  # Room for the metadata of the file system and for what the first boot writes.
  mib=$(($(du -sk --apparent-size "$root" | cut -f 1) * 9 / 8 / 1024 + 128))
  truncate -s $((root_start * 512 + mib * 1048576 + 1048576)) "$2"
  bios_type=21686148-6449-6E6F-744E-656564454649
  root_type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709
  printf '%s\n' 'label: gpt' \
    "start=$bios_start, size=2048, type=$bios_type, name=bios" \
    "start=$esp_start, size=81920, type=uefi, name=esp" \
    "start=$root_start, size=$((mib * 2048)), type=$root_type, name=root" |
    sfdisk -q "$2"
  disk_boot_code "$2"
  truncate -s 40M "$work/esp"
  mkfs.vfat -F 32 -s 1 -n ESP --invariant "$work/esp" >/dev/null
  mmd -i "$work/esp" ::/EFI ::/EFI/BOOT
  mcopy -i "$work/esp" "$work/efi.img" ::/EFI/BOOT/BOOTX64.EFI
  dd if="$work/esp" of="$2" bs=1M seek=$((esp_start / 2048)) conv=notrunc,sparse status=none
  # GRUB of Debian 12 reads no file system with the newest features.
  uuid=$(disk_uuid "$1")
  mke2fs -q -F -t ext4 -O ^metadata_csum_seed,^orphan_file -L root -U "$uuid" \
    -E "hash_seed=$uuid,offset=$((root_start * 512))" -d "$root" "$2" "${mib}M"
}
