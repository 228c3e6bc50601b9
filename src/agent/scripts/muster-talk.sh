#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): HTTPS to the boot server.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

carriage_return=$(printf '\r')

# Posts to path $1 with the further curl arguments $2 .... Writes the answer to $run/body and sets
# http_status (000 if there was no answer), answer_text (curl's complaint), retry_after (seconds,
# or nothing), answer_hold and answer_nonce (what the machine waits for, or nothing), answer_agent
# (the agent that the server wants here, or nothing) and asked_url.
# The answer's headers may also set clock, revision and checkpoint.
ask() {
  asked_url=$server$1
  shift
  rm -f "$run/headers" "$run/body"
  answer=$(
    curl -q --silent --show-error --http1.1 --proto =https --tlsv1.2 --noproxy '*' \
      --cacert "$etc/ca.crt" --capath "$run/none" --connect-timeout 10 --max-time 120 \
      --dump-header "$run/headers" --output "$run/body" --write-out '%{http_code}' \
      "$@" "$asked_url" 2>&1
  )
  curl_status=$?
  # The code is the last three characters; what is before it is curl's complaint.
  answer_text=${answer%???}
  http_status=${answer#"$answer_text"}
  retry_after=
  answer_hold=
  answer_nonce=
  answer_agent=
  [ "$curl_status" = 0 ] || http_status=000
  [ "$curl_status" != 60 ] || report_distrust
  [ -r "$run/headers" ] || return 0
  while IFS=': ' read -r header_name header_value; do
    header_value=${header_value%"$carriage_return"}
    case $header_name in
      [Mm]uster-[Cc]heckpoint) take_checkpoint ;;
      [Mm]uster-[Rr]evision) take_revision ;;
      [Mm]uster-[Aa]gent) take_agent_header ;;
      [Mm]uster-[Hh]old) answer_hold=$header_value ;;
      [Mm]uster-[Nn]once) answer_nonce=$header_value ;;
      *) ! is_number "$header_value" || take_header ;;
    esac
  done <"$run/headers"
}

# Sends what the kernel and the system printed since the last time: muster-report.sh puts it into
# files, of which a few are sent at once. In the first quarter of an hour it does so at every poll,
# and then every five minutes, because kubelet always prints something and each request is a TLS
# handshake. Runs in a subshell, because it changes what `ask` sets.
send_console() {
  [ -r "$etc/muster-report.sh" ] || return 0
  first_line "$root/proc/uptime"
  if [ "${first_line%%.*}" -gt 900 ] && [ -n "$(find "$run/console-sent" -mmin -5)" ]; then
    return 0
  fi 2>/dev/null
  : >"$run/console-sent"
  MUSTER_CONSOLE=$run/console MUSTER_CMDLINE=$root/proc/cmdline \
    sh "$etc/muster-report.sh" spool 2>/dev/null 9>&- || return 0
  first_line "$root/proc/sys/kernel/random/boot_id"
  console_parts=0
  for console_part in "$run"/console/part.*; do
    [ -s "$console_part" ] && [ "$console_parts" -lt 4 ] || return 0
    console_parts=$((console_parts + 1))
    ask /agent/console --cert "$identity/agent.crt" --key "$identity/agent.key" --max-time 20 \
      --data-urlencode "boot=$first_line" --data-urlencode "lines@$console_part"
    case $http_status in
      204 | 400 | 413) rm -f "$console_part" ;;
      *) return 0 ;;
    esac
  done
}

# Takes a header of an answer whose value is a number: sets retry_after, or may set the clock.
take_header() {
  case $header_name in
    [Rr]etry-[Aa]fter)
      retry_after=$header_value
      ;;
    [Mm]uster-[Tt]ime)
      follow_time "$header_value"
      ;;
  esac
}

# Remembers the revision of the server's store in header_value, NUMBER.PROOF, if its number is
# higher than that of the one in `revision`.
take_revision() {
  case $header_value in
    *[!A-Za-z0-9._-]* | *.*.*) return 0 ;;
    *.?*) ;;
    *) return 0 ;;
  esac
  is_number "${header_value%%.*}" || return 0
  [ "${header_value%%.*}" -gt "${revision%%.*}" ] || return 0
  revision=$header_value
  write_line "$identity/revision" "$revision"
}

# Remembers the checkpoint of the server's security log in header_value, NUMBER.HASH.SIGNATURE, if
# its number is higher than that of the one in `checkpoint`.
take_checkpoint() {
  case $header_value in
    *[!A-Za-z0-9._-]*) return 0 ;;
  esac
  is_number "${header_value%%.*}" || return 0
  [ "${header_value%%.*}" -gt "${checkpoint%%.*}" ] || return 0
  checkpoint=$header_value
  write_line "$identity/checkpoint" "$checkpoint"
}

# Reports, once in a boot and in the background, that the server's certificate is not valid here:
# the CA or the clock is wrong. Only a boot report can say so, because it needs no TLS.
report_distrust() {
  [ ! -e "$run/unbelieved" ] || return 0
  [ -r "$etc/muster-report.sh" ] || return 0
  touch "$run/unbelieved" || return 0
  distrust="the agent does not believe the certificate of $server"
  distrust="$distrust; its clock says $(date -u +%Y-%m-%dT%H:%MZ): $answer_text"
  sh "$etc/muster-report.sh" failed "$distrust" 9>&- &
}
