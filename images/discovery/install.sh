#!/bin/sh
# Part of the discovery system (init.sh reads it in): installs a system on a disk of the machine.
# The boot host decides which disk it is, and sends a list of extents: offset, octets, SHA-256 and
# part.
# This part carries the steps out and reports each: pick, check, clear, write, verify, seed, first.
# Each step can be repeated. Octets that the disk has already are not fetched, and the first MiB is
# written last, when all others were read back past the page cache.
# shellcheck disable=SC2154 # root, run, url: set by who reads this in

piece=$run/piece
list=$run/install.list
# Octets that no disk may keep at both ends before something is written between them.
ends=1048576
# How often something is asked for before the installation begins again.
attempts=${MUSTER_ATTEMPTS:-10}

# Sends text $1 to the boot host, and sets answer to its first word and answer_rest to the others.
# answer is empty when there was none after some attempts.
install_say() {
  printf '%s\n' "$1" >"$run/install.said"
  install_send
}

# Sends what is in $run/install.said.
install_send() {
  tried=0
  while [ "$tried" -lt "$attempts" ]; do
    answer=
    answer_rest=
    if timeout 60 wget -q -O "$run/install.answer" --post-file "$run/install.said" "$url/install" \
      2>"$run/install.wget"; then
      read -r answer answer_rest <"$run/install.answer"
      return 0
    fi
    case $(cat "$run/install.wget") in
      *404*) answer=gone && return 0 ;;
    esac
    tried=$((tried + 1))
    sleep 1
  done
}

# Reports that step $1 is at $2. Fails unless the boot host says that it may go on.
install_step() {
  install_say "$*"
  [ "$answer" = go ]
}

# Reports that the installation cannot go on, for the reason with code $1 and text $2. Fails.
install_refused() {
  install_say "failed $1 $2"
  return 1
}

# Prints the size of the sectors of each disk.
install_sectors() {
  for disk in "$root"/sys/block/*; do
    [ ! -r "$disk/queue/logical_block_size" ] ||
      echo "sector ${disk##*/} $(cat "$disk/queue/logical_block_size")"
  done
}

# Sets block to the largest size of a block by which both octets $1 and $2 can be divided.
install_block() {
  for block in 1048576 65536 4096 512; do
    [ $(($1 % block + $2 % block)) != 0 ] || return 0
  done
}

# Prints $2 octets of the disk from $1 on, past the page cache.
disk_read() {
  install_block "$1" "$2"
  dd if="$device" iflag=direct bs="$block" skip=$(($1 / block)) count=$(($2 / block)) 2>/dev/null
}

# Writes $2 octets of file $3 to the disk from $1 on. They are on the disk when it returns.
disk_write() {
  install_block "$1" "$2"
  dd if="$3" of="$device" oflag=direct bs="$block" seek=$(($1 / block)) count=$(($2 / block)) \
    conv=notrunc,fsync 2>/dev/null
}

# Prints the SHA-256 of standard input.
sum() {
  sha256sum | cut -c 1-64
}

# Prints the SHA-256 of $1 zeros.
zeros() {
  head -c "$1" /dev/zero | sum
}

# Whether the disk has the octets with SHA-256 $3 at $1, $2 long.
disk_has() {
  [ "$(disk_read "$1" "$2" | sum)" = "$3" ]
}

# Whether both ends of the disk are empty, and it has no partitions.
disk_blank() {
  for part in "$root/sys/block/$name/$name"*; do
    [ ! -e "$part" ] || return 1
  done
  disk_has 0 "$ends" "$empty" && disk_has $((size - ends)) "$ends" "$empty"
}

# Whether every extent of part $1 is on the disk.
disk_holds() {
  while read -r at octets hash part; do
    [ "$part" != "$1" ] || disk_has "$at" "$octets" "$hash" || return 1
  done <"$list"
}

# Whether the disk shows the traces of this installation: its first sectors are empty, and so is the
# rest of the first MiB unless it was written already; or it has the whole image.
disk_begun() {
  if disk_has 0 4096 "$(zeros 4096)"; then
    while read -r at octets hash part; do
      if [ "$part" = first ] && [ "$at" != 0 ]; then
        disk_has "$at" "$octets" "$hash" && return 0
        disk_has "$at" "$octets" "$(zeros "$octets")" && return 0
      fi
    done <"$list"
  fi
  disk_holds image
}

# Prints what uses the disk, or nothing.
disk_users() {
  for holder in "$root/sys/block/$name"/holders/* "$root/sys/block/$name/$name"*/holders/*; do
    [ ! -e "$holder" ] || echo "${holder##*/}"
  done
  grep -h -o "^/dev/${name}[p0-9]* [^ ]*" "$root/proc/mounts" "$root/proc/swaps" 2>/dev/null
}

# Fetches the $2 octets from $1 on with SHA-256 $3 into the file piece.
install_fetch() {
  if [ "$3" = "$empty_piece" ]; then
    head -c "$2" /dev/zero >"$piece"
    return
  fi
  tried=0
  while [ "$tried" -lt "$attempts" ]; do
    if timeout 300 wget -q -O "$piece" "$url/install/at/$1" 2>/dev/null; then
      [ "$(sum <"$piece")" != "$3" ] || return 0
      wrong=1
    fi
    tried=$((tried + 1))
    sleep 1
  done
  [ -z "$wrong" ] ||
    install_refused image_changed "the octets at $1 do not have the hash of the list"
  return 1
}

# Brings the extents of part $1 to the disk, and counts in written those that it did not have yet.
install_part() {
  done=0
  total=$(grep -c " $1\$" "$list")
  while read -r at octets hash part; do
    [ "$part" = "$1" ] || continue
    if ! disk_has "$at" "$octets" "$hash"; then
      install_fetch "$at" "$octets" "$hash" || return 1
      if ! disk_write "$at" "$octets" "$piece"; then
        install_refused disk_faulty "writing at $at failed"
        return 1
      fi
      written=$((written + 1))
      # Nothing that makes the disk start follows what is not there.
      if [ "$1" = first ] && ! disk_has "$at" "$octets" "$hash"; then
        install_refused disk_faulty "the octets at $at are others than those that were written"
        return 1
      fi
    fi
    done=$((done + 1))
    [ $((done % 32)) != 0 ] || install_step write progress "$done of $total" || return 1
  done <"$list"
}

# Looks at what is on the disk, and whether it may go.
install_check() {
  install_step check begin || return 1
  users=$(disk_users | tr '\n' ' ')
  if [ -n "$users" ]; then
    install_refused disk_in_use "disk $serial ($name) is used by $users"
    return 1
  fi
  found=blank
  if ! disk_blank; then
    found=$mode
    case $mode in
      released) ;;
      claimed) disk_begun || found= ;;
      *) found= ;;
    esac
  fi
  if [ -z "$found" ]; then
    ends_it="muster machine install ${known_as:-NAME} --release $serial"
    install_refused disk_has_data \
      "it is $name, serial $serial; if its data may go: $ends_it"
    return 1
  fi
  install_step check end "$found"
}

# Empties both ends of the disk, where partition tables are: until the end of the installation no
# firmware finds a system on the disk.
install_clear() {
  install_step clear begin || return 1
  head -c "$ends" /dev/zero >"$piece"
  if ! disk_write 0 "$ends" "$piece" ||
    ! disk_write $((size - ends)) "$ends" "$piece" ||
    ! disk_has 0 "$ends" "$empty" ||
    ! disk_has $((size - ends)) "$ends" "$empty"; then
    install_refused disk_faulty 'it does not keep zeros'
    return 1
  fi
  install_step clear end
}

# Reads back all extents of part $1.
install_verify() {
  disk_holds "$1" && return 0
  install_refused disk_faulty "the octets at $at are others than those that were written"
  return 1
}

# Installs the system. Succeeds when the machine is to reboot.
install_once() {
  {
    echo pick
    inventory_disks
    install_sectors
  } >"$run/install.said" 2>/dev/null
  install_send
  [ "$answer" != reboot ] || return 0
  [ "$answer" = disk ] || return 1
  # shellcheck disable=SC2086 # words
  set -- $answer_rest
  name=$1 serial=$2 mode=$3
  device=$root/dev/$name
  size=$(($(cat "$root/sys/block/$name/size") * 512))
  wrong=
  written=0
  empty=$(zeros "$ends")
  empty_piece=$(zeros 4194304)
  timeout 60 wget -q -O "$list" "$url/install/list" 2>/dev/null || return 1
  [ "$(sum <"$list")" = "$4" ] || return 1
  install_check || return 1
  install_clear || return 1
  install_step write begin || return 1
  install_part image || return 1
  install_step write end "$written written" || return 1
  install_step verify begin || return 1
  # What was there was read past the page cache a moment ago; what was written is read now.
  [ "$written" = 0 ] || install_verify image || return 1
  install_step verify end || return 1
  install_step seed begin || return 1
  install_part own || return 1
  install_verify own || return 1
  install_step seed end || return 1
  install_step first begin || return 1
  install_part first || return 1
  install_say 'first end'
  [ "$answer" = reboot ]
}
