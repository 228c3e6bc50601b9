#!/bin/sh
# Part of the discovery system, which reads it in: tests the parts of a machine as the boot host
# ordered, and reports what was measured. The boot host judges that. It writes to no disk.
# shellcheck disable=SC2034,SC2154 # variables that the other parts set and read

# Octets of one step of reading, and how many steps are read before the time is looked at.
burn_step=4194304
burn_steps=64
# How many packets are sent to the boot host, and for how many seconds files are fetched from it.
burn_packets=200
burn_fetches=10
# Seconds that a drive may take for its short self-test.
burn_self_test=900

# burn_clock: prints the time since the machine started in hundredths of a second.
burn_clock() {
  read -r up _ </proc/uptime
  echo "${up%.*}${up#*.}"
}

# burn_ms BEGUN: prints the milliseconds since that time.
burn_ms() {
  echo $((($(burn_clock) - $1) * 10))
}

# burn_complaints: prints how often the kernel said that hardware erred.
burn_complaints() {
  dmesg | grep -ci 'hardware error'
}

# burn_in PLAN REPORT: carries out the order in file PLAN, and writes what was measured to REPORT: a
# line for each part, and `end`.
burn_in() {
  wipe_plan=$1
  wipe_work=$2.work
  mkdir -p "$wipe_work"
  : >"$2"
  if ! order_fits "$1"; then
    printf 'refused\tother-machine\nend\n' >>"$2"
    return 0
  fi
  seconds=$(sed -n 's/^test [^ ]* //p' "$1")
  {
    burn_memory
    burn_disks
    burn_network
    echo end
  } >>"$2"
}

# burn_memory: tests most of the memory that is free.
burn_memory() {
  mib=$(awk '/^MemAvailable:/ { print int($2 / 1024 * 0.8) }' /proc/meminfo)
  mib=${burn_mib:-$mib}
  before=$(burn_complaints)
  begun=$(burn_clock)
  code=tested
  erase_long memory $((seconds * 2 + 300)) stressapptest -M "$mib" -s "$seconds" || code=failed
  errors=$(sed -n 's/^.*Stats: Found \([0-9]*\) hardware incidents.*$/\1/p' "$wipe_work/said")
  [ -n "$errors" ] || code=failed
  printf 'memory\t%s\t%s\t%s\t%s\n' "$code" $((mib * 1048576)) "$(burn_ms "$begun")" \
    $((${errors:-0} + $(burn_complaints) - before))
}

# burn_disks: tests each disk, and prints a line for it.
burn_disks() {
  lsblk --pairs >"$wipe_work/disks"
  while read -r line <&3; do
    name=$(wipe_field NAME "$line")
    device=$root/dev/$name
    disk_serial "$name"
    serial=$disk_serial
    size=$(($(wipe_number "$root/sys/block/$name/size") * 512))
    code=$(wipe_why "$line" "$serial")
    health=unread
    self_test=none
    at=0
    took=0
    if [ -z "$code" ]; then
      burn_health
      burn_self_test_of "$name"
      burn_read "$name"
    fi
    printf 'disk\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$code" "$size" "$at" "$took" \
      "$health" "$self_test" "$serial" "$(wipe_field WWN "$line")" "$(wipe_field MODEL "$line")"
  done 3<"$wipe_work/disks"
}

# burn_health: sets health to what the drive says of itself: passed, failed or unread.
burn_health() {
  within 60 smartctl --health "$device" >"$wipe_work/said" 2>/dev/null
  # ATA and NVMe say it in one way, SCSI in another.
  if grep -q 'result: PASSED$\|Health Status: OK$' "$wipe_work/said"; then
    health=passed
  elif grep -q 'self-assessment test result: \|SMART Health Status: ' "$wipe_work/said"; then
    health=failed
  fi
}

# burn_self_test_of DISK: has the drive do its short self-test. Sets self_test to passed, failed,
# late, or none if it has none or was interrupted.
burn_self_test_of() {
  self_test=none
  ask_test=burn_ata_test
  case $1 in
    nvme*)
      ask_test=burn_nvme_test
      erase_read id-ctrl 4096 || return 0
      [ $(($(erase_le "$wipe_work/page" 256 2) & 16)) != 0 ] || return 0
      within 60 nvme device-self-test "$device" --self-test-code=1 >/dev/null 2>&1 || return 0
      ;;
    *) within 60 smartctl --test=short "$device" >/dev/null 2>&1 || return 0 ;;
  esac
  begun=$(date +%s)
  while :; do
    self_test=none
    # Sets self_test, and succeeds when the test has ended.
    "$ask_test" && return 0
    self_test=late
    [ $(($(date +%s) - begun)) -lt "$burn_self_test" ] || return 0
    (wipe_said "$1: it tests itself") >&2
    sleep "$erase_pause"
  done
}

# burn_ata_test: reads how a self-test is. The high four bits of the status are 15 while it runs, 0
# when it ended well, 1 and 2 when it was interrupted (ACS).
burn_ata_test() {
  status=$(within 60 smartctl --capabilities "$device" 2>/dev/null |
    sed -n 's/^Self-test execution status: *( *\([0-9]*\)).*/\1/p')
  case $((${status:-16} / 16)) in
    0) self_test=passed ;;
    1 | 2) ;;
    15) return 1 ;;
    *) self_test=failed ;;
  esac
}

# burn_nvme_test: the same for NVMe: the log page of self-tests says in its first octet whether one
# runs, and begins the newest result at octet 4.
burn_nvme_test() {
  within 30 nvme self-test-log "$device" --output-format=binary >"$wipe_work/page" 2>/dev/null ||
    return 0
  [ $(($(erase_le "$wipe_work/page" 0 1) & 15)) = 0 ] || return 1
  case $(($(erase_le "$wipe_work/page" 4 1) & 15)) in
    0) self_test=passed ;;
    5 | 6 | 7) self_test=failed ;;
  esac
}

# burn_read DISK: reads the disk from its beginning, past the caches, until its end or until the
# time is over. Sets code to read or to what failed, at to the octets that were read, and took.
burn_read() {
  begun=$(burn_clock)
  took=0
  code='read'
  sector=$(wipe_number "$root/sys/block/$1/queue/logical_block_size")
  [ "$sector" -ge 512 ] || sector=512
  while [ $((size - at)) -ge "$sector" ] && [ "$took" -lt $((seconds * 1000)) ]; do
    block=$sector
    [ $((size - at)) -lt "$burn_step" ] || block=$burn_step
    count=$(((size - at) / block))
    [ "$count" -le "$burn_steps" ] || count=$burn_steps
    dd if="$device" of=/dev/null iflag=direct,skip_bytes bs="$block" skip="$at" count="$count" \
      2>"$wipe_work/said" || code=read-error
    grep -q "^$count+0 records in" "$wipe_work/said" || code=read-error
    took=$(burn_ms "$begun")
    [ "$code" = read ] || return 0
    at=$((at + block * count))
    (wipe_said "$1: $((at / 1073741824)) GiB read") >&2
  done
}

# burn_counted: prints the errors that the network card has counted.
burn_counted() {
  card=$root/sys/class/net/$nic/statistics
  echo $(($(wipe_number "$card/rx_errors") + $(wipe_number "$card/tx_errors")))
}

# burn_network: sends packets to the boot host and back, and fetches files from it.
burn_network() {
  host=${url#http://}
  host=${host%%[:/]*}
  before=$(burn_counted)
  ping -q -c "$burn_packets" -i 0.05 -W 2 -s 1400 "$host" >"$wipe_work/said" 2>/dev/null
  came=$(sed -n 's/^.* \([0-9]*\) packets received.*$/\1/p' "$wipe_work/said")
  path=$(sed -n 's/^fetch //p' "$wipe_plan")
  code=fetched
  octets=0
  took=0
  begun=$(burn_clock)
  while [ "$took" -lt $((burn_fetches * 1000)) ] && [ "$code" = fetched ]; do
    got=$(timeout 60 wget -q -O - "${url%/boot/*}$path" 2>/dev/null | wc -c)
    [ "$got" -gt 0 ] || code=fetch-error
    octets=$((octets + got))
    took=$(burn_ms "$begun")
  done
  printf 'network\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$nic" "$code" "$octets" "$took" \
    "$burn_packets" $((burn_packets - ${came:-0})) $(($(burn_counted) - before))
}
