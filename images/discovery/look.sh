#!/bin/sh
# Mounts the file systems of all disks of the machine read-only below /mnt, for the operator of a
# rescue. Logs of file systems are not replayed, because that would write.
for path in /sys/block/*; do
  disk=${path##*/}
  for part in "$path" "$path/$disk"*; do
    name=${part##*/}
    [ -e "/dev/$name" ] || continue
    mkdir -p "/mnt/$name"
    for kind in 'ext4 ro,noload' 'xfs ro,norecovery' 'btrfs ro' 'vfat ro'; do
      if mount -t "${kind% *}" -o "${kind#* },nosuid,nodev,noexec" "/dev/$name" "/mnt/$name" \
        2>/dev/null
      then
        echo "/mnt/$name ${kind% *}"
        continue 2
      fi
    done
    rmdir "/mnt/$name"
  done
done
