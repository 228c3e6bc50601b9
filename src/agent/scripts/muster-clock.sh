#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): the machine's clock. The boot host tells its
# time, and may be wrong: a step of many hours is not taken against what this machine knows itself.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# A step of more than this needs that the machine's own clock is known to be wrong, in seconds.
# Certificates begin a day before they are issued, so smaller ones do no harm.
large_step=72000
# A step back is taken only for more than this, because programs expect that time does not go back.
large_step_back=10800

# Sets clock_moved to the seconds by which the boot host has moved the clock in this boot: this
# agent, or the initrd before it.
read_clock_moved() {
  first_line "$run/clock-moved"
  clock_moved=${first_line:-0}
  case ${clock_moved#-} in
    '' | *[!0-9]* | ????????????????*) clock_moved=0 ;;
  esac
}

# Sets the machine's clock to $1 seconds since 1970, if agent.conf allows that. Notes by how much,
# because a clock that was moved says nothing about whether the boot host is right.
set_clock() {
  setting clock
  [ "$setting" = set ] || return 0
  own_time=$(date +%s)
  say "the clock was $own_time and is set to $1"
  date -s "@$1" >/dev/null || return 0
  read_clock_moved
  mkdir -p "$run"
  printf '%s\n' "$((clock_moved + $1 - own_time))" >"$run/clock-moved"
}

# Sets the clock from the first configuration, because TLS fails with a wrong one. agent.conf names
# the time at which the server made it, and its age on this machine is right even if the clock is
# years off, provided that the file was written in this boot. A slow machine writes the file many
# minutes after it was made, so a clock that is ahead by less than half an hour is left alone. A
# configuration from the boot disk is of an earlier day, so it never sets the clock back.
set_first_clock() {
  setting time
  first_line "$root/proc/uptime"
  uptime=${first_line%%.*}
  is_number "$setting" || return 0
  is_number "$uptime" || return 0
  now=$(date +%s)
  settings_age=$((now - $(stat -c %Y "$etc/agent.conf")))
  [ "$settings_age" -ge 0 ] || return 0
  [ "$settings_age" -le "$uptime" ] || return 0
  true_time=$((setting + settings_age))
  behind=$((true_time - now))
  if [ "$behind" -gt 60 ]; then
    set_clock "$true_time"
  elif [ "$behind" -lt -1800 ] && [ -z "$from_boot_disk" ]; then
    set_clock "$true_time"
  fi
}

# Undoes a large step of the first configuration or the initrd, if the clock that the machine had
# before was right by what it knows itself: that is known only once its identity is there.
review_first_clock() {
  [ ! -e "$run/clock-reviewed" ] || return 0
  [ -s "$identity/agent.crt" ] || return 0
  read_clock_moved
  : >"$run/clock-reviewed"
  step=${clock_moved#-}
  [ "$step" -gt "$large_step" ] || return 0
  own_time=$(($(date +%s) - clock_moved))
  is_plausible "$own_time" || return 0
  say "the boot host had moved the clock by $clock_moved seconds against this machine's certificate"
  set_clock "$own_time"
}

# Takes the boot host's time $1 if the clock is more than a minute behind. It takes no large step
# while the own clock fits what this machine knows. It goes back only if the boot host itself had
# moved the clock ahead, or if the own clock cannot be right.
follow_time() {
  setting clock
  [ "$setting" = set ] || return 0
  own_time=$(date +%s)
  step=$(($1 - own_time))
  if [ "$step" -gt "$large_step" ]; then
    is_plausible "$own_time" || set_clock "$1"
  elif [ "$step" -gt 60 ]; then
    set_clock "$1"
  elif [ "$step" -lt "-$large_step_back" ]; then
    read_clock_moved
    if [ "$clock_moved" -ge $((-60 - step)) ]; then
      set_clock "$1"
    elif ! is_plausible "$own_time" && is_plausible "$1"; then
      set_clock "$1"
    fi
  fi
}

# Whether it may be $1 seconds since 1970, by what this machine knows itself: not before it got its
# certificate or last heard something new, and not after that certificate ends.
is_plausible() {
  [ -s "$identity/agent.crt" ] || return 1
  for known_file in "$identity/agent.crt" "$identity/revision"; do
    [ ! -e "$known_file" ] || [ "$1" -ge $(($(stat -c %Y "$known_file") - 3600)) ] || return 1
  done
  read_certificate_end
  [ "$1" -le "$certificate_end" ]
}

# Sets certificate_end to the seconds since 1970 at which the machine's certificate ends. openssl
# prints `notAfter=Nov 28 02:02:03 2027 GMT`. Its own comparison would go by the clock, which is in
# question here, and not every `date` reads such a text.
read_certificate_end() {
  certificate_end=0
  # shellcheck disable=SC2046 # words are wanted
  set -- $(openssl x509 -in "$identity/agent.crt" -noout -enddate)
  [ $# = 5 ] || return 0
  end_month=${1#notAfter=}
  case $end_month in
    Mar) end_month=0 ;;
    Apr) end_month=1 ;;
    May) end_month=2 ;;
    Jun) end_month=3 ;;
    Jul) end_month=4 ;;
    Aug) end_month=5 ;;
    Sep) end_month=6 ;;
    Oct) end_month=7 ;;
    Nov) end_month=8 ;;
    Dec) end_month=9 ;;
    Jan) end_month=10 ;;
    Feb) end_month=11 ;;
    *) return 0 ;;
  esac
  # The year begins in March, so that the day after February 28th is at its end.
  end_year=$4
  [ "$end_month" -lt 10 ] || end_year=$((end_year - 1))
  end_days=$((365 * end_year + end_year / 4 - end_year / 100 + end_year / 400))
  end_days=$((end_days + (153 * end_month + 2) / 5 + $2 - 719469))
  end_hours=${3%%:*}
  certificate_end=$((end_days * 86400 + (${end_hours#0} + 0) * 3600))
}
