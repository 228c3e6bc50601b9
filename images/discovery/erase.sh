#!/bin/sh
# Part of the discovery system, which reads it in: the level `crypto` of a wipe (wipe.sh). A drive
# erases itself by its own command, or the headers of encrypted filesystems that Muster made are
# destroyed. What a drive can do is read first; how it says that it ended is read afterwards.
# shellcheck disable=SC2034,SC2154 # variables that the other parts set and read

# Seconds between two looks at a drive that erases itself.
erase_pause=5
# The longest that a drive may take, in seconds. Large disks overwrite all that they have.
erase_longest=172800
# For drives that give no estimate.
erase_unknown=7200
# A drive is locked with this while it erases itself (ATA). It is no secret: a drive that lost its
# power in the middle is opened with it again.
erase_password=muster

# erase_choose DISK: finds out how the disk is erased: by itself if the drive can, else by the
# headers of what Muster encrypted on it. Sets method, and the regions of the disk that are to be
# wiped. Fails with the reason in wiped.
erase_choose() {
  method=
  evidence=
  wiped=cannot-erase
  case $1 in
    nvme*) erase_nvme "$1" || return 1 ;;
    sd*) erase_ata || return 1 ;;
  esac
  if [ -n "$method" ]; then
    echo "0 $size" >"$wipe_work/regions"
    return 0
  fi
  erase_luks "$1"
}

# erase_disk DISK: carries out the method. Sets evidence to what the disk says afterwards. Fails
# with the reason in wiped.
erase_disk() {
  wiped=erase-refused
  case $method in
    nvme-sanitize-crypto) erase_sanitize "$1" 4 16 ;;
    nvme-sanitize-block) erase_sanitize "$1" 2 12 ;;
    nvme-format-crypto) erase_format "$1" 2 ;;
    nvme-format-erase) erase_format "$1" 1 ;;
    ata-erase-enhanced) erase_security "$1" --security-erase-enhanced "$(erase_word 90)" ;;
    ata-erase) erase_security "$1" --security-erase "$(erase_word 89)" ;;
    luks-header) wipe_written ;;
  esac
}

# erase_le FILE OFFSET OCTETS: prints a number as NVMe writes it, the lowest octet first.
erase_le() {
  value=0
  shift_by=0
  for octet in $(tail -c "+$(($2 + 1))" "$1" | head -c "$3" | od -An -v -tu1); do
    value=$((value + (octet << shift_by)))
    shift_by=$((shift_by + 8))
  done
  echo "$value"
}

# erase_read COMMAND OCTETS: has nvme-cli read a page of the drive as it is, into the file `page`.
erase_read() {
  within 30 nvme "$1" "$device" --raw-binary >"$wipe_work/page" 2>/dev/null || return 1
  [ "$(wc -c <"$wipe_work/page")" -ge "$2" ]
}

# erase_nvme DISK: sets method for an NVMe disk. A command that erases a whole drive is not used
# while the drive has other namespaces, which are disks of their own.
erase_nvme() {
  wiped=abilities-unread
  erase_read id-ctrl 4096 || return 1
  sanitizes=$(erase_le "$wipe_work/page" 328 4)
  formats=$(erase_le "$wipe_work/page" 256 2)
  how=$(erase_le "$wipe_work/page" 524 1)
  # The disk itself is always there.
  alone=
  [ "$(echo "$root/sys/block/${1%n[0-9]*}"n*)" != "$root/sys/block/$1" ] || alone=yes
  # Whether Format reaches no other namespace.
  only_this=$alone
  [ $((how & 3)) != 0 ] || only_this=yes
  wiped=shares-drive
  if [ $((sanitizes & 3)) != 0 ] && [ -n "$alone" ]; then
    method=nvme-sanitize-block
    [ $((sanitizes & 1)) = 0 ] || method=nvme-sanitize-crypto
    # A sanitize that a power cut interrupted goes on, and the drive takes no writes meanwhile.
    erase_settles "$1" 12 || return 1
  elif [ $((formats & 2)) != 0 ] && [ -n "$only_this" ]; then
    method=nvme-format-erase
    [ $((how & 4)) = 0 ] || method=nvme-format-crypto
  elif [ $((sanitizes & 3)) = 0 ] && [ $((formats & 2)) = 0 ]; then
    wiped=cannot-erase
  fi
}

# erase_limit SECONDS: prints how long a drive may take that estimates so many seconds.
erase_limit() {
  limit=$(($1 * 2 + 300))
  case $1 in
    0 | 4294967295) limit=$erase_unknown ;;
  esac
  [ "$limit" -le "$erase_longest" ] || limit=$erase_longest
  echo "$limit"
}

# erase_settles DISK OFFSET: waits until no sanitize is under way, at most as long as the drive's
# estimate at this offset of its page allows. Sets sstat to how the last one ended.
erase_settles() {
  wiped=status-unread
  erase_read sanitize-log 20 || return 1
  limit=$(erase_limit "$(erase_le "$wipe_work/page" "$2" 4)")
  begun=$(date +%s)
  while :; do
    sstat=$(erase_le "$wipe_work/page" 2 2)
    [ $((sstat & 7)) = 2 ] || return 0
    done_of=$(erase_le "$wipe_work/page" 0 2)
    wiped=erase-late
    [ $(($(date +%s) - begun)) -lt "$limit" ] || return 1
    (wipe_said "$1: it erases itself, $((done_of * 100 / 65536)) %") >&2
    sleep "$erase_pause"
    wiped=status-unread
    erase_read sanitize-log 20 || return 1
  done
}

# erase_sanitize DISK ACTION OFFSET: has an NVMe drive sanitize itself.
erase_sanitize() {
  write_within 60 nvme sanitize "$device" --sanact="$2" >&2 || return 1
  erase_settles "$1" "$3" || return 1
  evidence=$(printf 'sstat=0x%04x' "$sstat")
  wiped=erase-failed
  [ $((sstat & 7)) = 1 ] || [ $((sstat & 7)) = 4 ]
}

# erase_format DISK SES: has an NVMe drive format the namespace with this kind of secure erase. The
# drive gives no estimate.
erase_format() {
  erase_long "$1" "$erase_unknown" nvme format "$device" --ses="$2" --force \
    --timeout=$((erase_unknown * 1000)) || return 1
  wiped=status-unread
  erase_read id-ns 4096 || return 1
  left_of=$(erase_le "$wipe_work/page" 32 1)
  evidence=$(printf 'fpi=0x%02x' "$left_of")
  wiped=erase-failed
  [ $((left_of & 127)) = 0 ]
}

# erase_long NAME SECONDS PROGRAM...: runs a program that may take hours, and tells the boot host
# meanwhile, which otherwise ends the boot session. What it says is in the file `said`.
erase_long() {
  name=$1
  limit=$2
  shift 2
  rm -f "$wipe_work/ended"
  {
    write_within "$limit" "$@"
    echo $? >"$wipe_work/ended.new"
    mv "$wipe_work/ended.new" "$wipe_work/ended"
  } >"$wipe_work/said" 2>&1 &
  since=$(date +%s)
  while [ ! -e "$wipe_work/ended" ]; do
    sleep "$erase_pause"
    (wipe_said "$name: for $((($(date +%s) - since) / 60)) min") >&2
  done
  read -r exit_code <"$wipe_work/ended"
  [ "$exit_code" = 0 ] || tail -n 5 "$wipe_work/said" >&2
  [ "$exit_code" != 124 ] || wiped=erase-late
  return "$exit_code"
}

# erase_identify: reads what an ATA drive says of itself, as words of 16 bits, one a line.
erase_identify() {
  within 30 hdparm --Istdout "$device" 2>/dev/null | sed '/:/d' | tr -s ' \t' '\n' |
    grep -x '[0-9a-fA-F]\{4\}' >"$wipe_work/words"
  [ "$(wc -l <"$wipe_work/words")" = 256 ]
}

# erase_word N: prints a word of what the drive said.
erase_word() {
  echo $((0x$(sed -n "$(($1 + 1))p" "$wipe_work/words")))
}

# erase_ata: sets method for a drive that knows the commands of ATA. Word 82 says whether it has
# passwords, word 128 what is so of them (ACS).
erase_ata() {
  erase_identify || return 0
  [ $(($(erase_word 82) & 2)) != 0 ] || return 0
  # Our own password is there if the power was cut while it erased itself.
  if [ $(($(erase_word 128) & 2)) != 0 ]; then
    for order in unlock disable; do
      write_within 60 hdparm --user-master u "--security-$order" "$erase_password" "$device" >&2
    done
    wiped=abilities-unread
    erase_identify || return 1
  fi
  state=$(erase_word 128)
  wiped=password-set
  [ $((state & 6)) = 0 ] || return 1
  wiped=frozen
  [ $((state & 8)) = 0 ] || return 0
  method=ata-erase
  [ $((state & 32)) = 0 ] || method=ata-erase-enhanced
}

# erase_security DISK COMMAND ESTIMATE: has an ATA drive erase itself. The estimate is in units of
# two minutes, and says in its highest bit in which of two forms it is written (ACS).
erase_security() {
  minutes=$((($3 & 255) * 2))
  [ $(($3 & 32768)) = 0 ] || minutes=$((($3 & 32767) * 2))
  write_within 60 hdparm --user-master u --security-set-pass "$erase_password" "$device" >&2 ||
    return 1
  erase_long "$1" "$(erase_limit $((minutes * 60)))" \
    hdparm --user-master u "$2" "$erase_password" "$device"
  exit_code=$?
  # A drive that erased itself has forgotten its password.
  failure=$wiped
  wiped=status-unread
  erase_identify || return 1
  state=$(erase_word 128)
  evidence=$(printf 'security=0x%04x' "$state")
  if [ $((state & 2)) != 0 ]; then
    write_within 60 hdparm --user-master u --security-disable "$erase_password" "$device" >&2
  fi
  wiped=$failure
  [ "$exit_code" = 0 ] || return 1
  wiped=erase-failed
  [ $((state & 7)) = 1 ]
}

# erase_luks DISK: sets method for a disk with encrypted filesystems that Muster made
# (muster-luks.sh): all is wiped but what is encrypted, with the headers that hold its keys.
erase_luks() {
  : >"$wipe_work/regions"
  {
    echo "0 $size"
    for part in "$root/sys/block/$1"/*/start; do
      [ ! -e "$part" ] ||
        echo "$(($(wipe_number "$part") * 512)) $(($(wipe_number "${part%/start}/size") * 512))"
    done
  } | sort -n >"$wipe_work/parts"
  from=0
  while read -r at length; do
    erase_is_ours "$at" || continue
    method=luks-header
    evidence="${evidence:+$evidence,}luks=$luks_uuid"
    after=$((at + length))
    wipe_region "$from" $((at + wipe_end - from)) "$size" >>"$wipe_work/regions"
    from=$after
    # A header at the beginning of the disk: the whole disk is one filesystem.
    [ "$at" != 0 ] || break
  done <"$wipe_work/parts"
  [ "$from" -ge "$size" ] || wipe_region "$from" $((size - from)) "$size" >>"$wipe_work/regions"
  [ -n "$method" ]
}

# erase_is_ours OFFSET: whether there is a header of LUKS2 there that Muster made: it has our label,
# and what it encrypts begins where the regions end. Sets luks_uuid.
erase_is_ours() {
  dd if="$device" iflag=direct,skip_bytes bs=16384 skip="$1" count=1 2>/dev/null \
    >"$wipe_work/header" || return 1
  [ "$(head -c 8 "$wipe_work/header" | od -An -v -tx1 | tr -d ' \n')" = 4c554b53babe0002 ] ||
    return 1
  case $(erase_text 24 48) in
    MUSTER-DATA | MUSTER-ETCD) ;;
    *) return 1 ;;
  esac
  grep -q "\"offset\":\"$wipe_end\"" "$wipe_work/header" || return 1
  luks_uuid=$(erase_text 168 40 | tr -cd 'a-f0-9-')
}

# erase_text OFFSET OCTETS: prints a text of the header.
erase_text() {
  tail -c "+$(($1 + 1))" "$wipe_work/header" | head -c "$2" | tr -d '\000'
}
