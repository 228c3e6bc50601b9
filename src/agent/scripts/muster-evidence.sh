#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): what it observes of the cluster's programs, as
# opposed to what it wrote to their files. Nothing here changes the machine.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Does plan line `probe LISTENER ADDRESS PORT [PROBE...]`: adds it to what every poll asks.
note_probe() {
  try write-failed mkdir -p "$run/probes" || return 1
  printf '%s\n' "$*" >>"$run/probes/listeners"
}

# Does plan line `read-encryption ADDRESS PORT PROBE`.
note_encryption() {
  try write-failed mkdir -p "$run/probes" || return 1
  printf '%s\n' "$*" >"$run/probes/encryption"
}

# Sets url_host to address $1 as URLs have it.
url_host() {
  case $1 in
    *:*) url_host="[$1]" ;;
    *) url_host=$1 ;;
  esac
}

# Sets key_identifier to the authority key identifier of the first certificate in file $1, hex in
# lower case, or to nothing.
find_key_identifier() {
  key_identifier=$(
    openssl x509 -in "$1" -noout -ext authorityKeyIdentifier 2>/dev/null |
      sed -n '/^ *\(keyid:\)\{0,1\}[0-9A-F][0-9A-F:]*$/ {
        s/^ *\(keyid:\)\{0,1\}//; s/://g; y/ABCDEF/abcdef/; p; q
      }'
  )
}

# Prints the status with which URL $1 answers, or 000. It may be any server: what it says about
# itself is no secret, and nothing is sent to it. Further arguments are curl's.
status_of() {
  curl -q --silent --insecure --noproxy '*' --max-time 2 \
    --output /dev/null --write-out '%{http_code}' "$@"
}

# Asks the listener at $2 (host:port) of program $1 with certificate and key in file
# probes/$3.pem, and sets answer to accepted, refused or unreachable. etcd ends a connection whose
# certificate it does not trust with an alert, with TLS 1.3 only after the handshake; the others
# answer 401. A listener that ends at that moment has not refused anything. etcd's peers take HTTP/2
# for gRPC alone.
ask_with_probe() {
  case $1 in
    etcd-*) probe_path=/version ;;
    *) probe_path=/healthz ;;
  esac
  probe_file=$run/probes/$3.pem
  probe_endpoint=$2
  set -- "$3" "https://$2$probe_path" --cert "$probe_file" --key "$probe_file"
  case $1 in
    # A client of the front proxy names a user, who has no rights.
    front-proxy-ca.*) set -- "$@" --header 'X-Remote-User: muster:probe' ;;
  esac
  shift
  answer=unreachable
  [ -r "$probe_file" ] || return 0
  probe_answer=$(
    curl -q --silent --show-error --insecure --noproxy '*' --max-time 6 --tlsv1.2 --http1.1 \
      --output /dev/null --write-out '%{http_code}' "$@" 2>&1
  )
  case $?$probe_answer in
    0401) answer=refused ;;
    0[1-5][0-9][0-9]) answer=accepted ;;
    *alert*'bad certificate'* | *alert*'unknown ca'*) answer=refused ;;
    # On a busy machine the connection has ended before curl sends, and the alert is lost with it.
    55* | 56*) ! is_alerted "$probe_endpoint" "$probe_file" || answer=refused ;;
  esac
}

# Whether the listener at $1 ends a connection with the certificate in file $2 by an alert. openssl
# sends nothing, so nothing keeps it from reading that.
is_alerted() {
  alert=$(within 3 openssl s_client -connect "$1" -cert "$2" -key "$2" -ign_eof 2>&1)
  case $alert in
    *'alert bad certificate'* | *'alert unknown ca'*) return 0 ;;
  esac
  return 1
}

# Asks the listener of `probe LISTENER ADDRESS PORT [PROBE...]`, and prints its line of the facts.
probe_listener() {
  url_host "$2"
  listener=$1
  endpoint=$url_host:$3
  shift 3
  shown_file=$run/probes/shown.$listener
  within 6 openssl s_client -connect "$endpoint" >"$shown_file" 2>/dev/null
  find_key_identifier "$shown_file"
  is_roots_port "${endpoint##*:}" || key_identifier=''
  printf '%s %s' "$listener" "${key_identifier:--}"
  for probe in "$@"; do
    answer=unreachable
    ! is_roots_port "${endpoint##*:}" || ask_with_probe "$listener" "$endpoint" "$probe"
    printf ' %s=%s' "$probe" "$answer"
  done
  echo
}

# Writes $run/probes/seen: what the listeners show and accept that the plan names. All are asked at
# the same time, because one that hangs takes seconds.
look_at_listeners() {
  [ ! -e "$run/probes/seen" ] || rm -f "$run"/probes/seen*
  [ -s "$run/probes/listeners" ] || return 0
  probers=''
  while read -r probe_words; do
    # shellcheck disable=SC2086 # words of the set that is_known_line accepts
    (probe_listener $probe_words) >"$run/probes/seen.${probe_words%% *}" 9>&- &
    probers="$probers $!"
  done <"$run/probes/listeners"
  # shellcheck disable=SC2086 # process ids
  wait $probers
  cat "$run"/probes/seen.* >"$run/probes/seen"
}

# Sets encryption to the SHA-256 of the encryption configuration that the API server says it has
# loaded, or to nothing. Only the plan asks for that, because all metrics are read for it. The
# probe is a client of the front proxy, and names a group that may read metrics.
look_at_encryption() {
  encryption=''
  [ -s "$run/probes/encryption" ] || return 0
  read -r probe_address probe_port probe <"$run/probes/encryption"
  is_roots_port "$probe_port" || return 0
  url_host "$probe_address"
  encryption=$(
    curl -q --silent --insecure --noproxy '*' --max-time 6 --tlsv1.2 \
      --cert "$run/probes/$probe.pem" --key "$run/probes/$probe.pem" \
      --header 'X-Remote-User: muster:probe' --header 'X-Remote-Group: system:monitoring' \
      "https://$url_host:$probe_port/metrics" |
      grep '^apiserver_encryption_config_controller_last_config_info{' |
      sed -n 's/.*[{,]hash="sha256:\([0-9a-f]\{64\}\)".*/\1/p' |
      head -n 1
  )
}

# Sets kubelet_issuer to the authority key identifier of kubelet's client certificate, or to
# nothing.
look_at_kubelet_client() {
  kubelet_issuer=''
  client_file=$root/var/lib/kubelet/pki/kubelet-client-current.pem
  [ -s "$client_file" ] || return 0
  find_key_identifier "$client_file"
  kubelet_issuer=$key_identifier
}

# Prints `PROGRAM ready|alive REVISION`: program $1 runs with revision $2 and is ready if URL $3
# answers 200.
print_program() {
  [ -n "$2" ] || return 0
  program_port=${3##*:}
  program_status=$(status_of "$3")
  is_roots_port "${program_port%%/*}" || program_status=000
  case $program_status in
    200) echo "$1 ready $2" ;;
    *) echo "$1 alive $2" ;;
  esac
}

# Prints the line of haproxy, if it runs. It answers with the revision of the configuration that it
# has loaded, on a socket in its own /tmp: a reload does not change its environment.
print_balancer() {
  [ -n "$balancer" ] || return 0
  balancer_revision=$(
    curl -q --silent --max-time 2 --unix-socket "$balancer/root/tmp/muster-balancer" \
      http://localhost/ |
      head -c 64
  )
  case $balancer_revision in
    '' | *[!0-9a-f]*) echo 'haproxy alive -' ;;
    *) echo "haproxy ready $balancer_revision" ;;
  esac
}

# Sets programs to the lines of the programs that run besides etcd and API server.
look_at_programs() {
  programs=$(
    print_program kube-controller-manager "$manager_revision" https://127.0.0.1:10257/healthz
    print_program kube-scheduler "$scheduler_revision" https://127.0.0.1:10259/healthz
    print_program kubelet "$kubelet_revision" http://127.0.0.1:10248/healthz
    print_balancer
  )
}

# Writes $run/journal: the end of the newest log of static pod $1 whose container has ended. While
# its process runs ($2 is not empty), that is the log before the newest one. kubelet numbers them,
# in the directory that its configuration names.
read_pod_log() {
  pod_nth=1
  [ -z "$2" ] || pod_nth=2
  pod_logs=$(
    sed -n 's/^podLogsDir: *//p' "$root/var/lib/kubelet/config.yaml" 2>/dev/null | tr -d "\"'"
  )
  pod_log=$(
    find "$root${pod_logs:-/var/log/pods}" -path "*/kube-system_$1-*/$1/*.log" -mmin -15 \
      -exec ls -t {} + 2>/dev/null |
      sed -n "${pod_nth}p"
  )
  [ -n "$pod_log" ] || return 1
  tail -c 32768 "$pod_log" | tail -n 200 | sed 's/^[^ ]* std[a-z]* [FP] //' >"$run/journal"
}

# Prints `PROGRAM WORDS` if program $1 should run here and has ended: as a static pod, or as unit
# $2. $3 is its revision while its process runs, $4 is `ready` when it works. The words are the last
# complaint that it wrote.
print_ended() {
  [ "${4:-}" != ready ] || return 0
  : >"$run/journal"
  if [ -e "$root/etc/kubernetes/manifests/$1.yaml" ]; then
    read_pod_log "$1" "$3" || return 0
  elif [ -n "$2" ] && [ -z "$3" ] && [ -e "$root/etc/systemd/system/$2" ]; then
    systemctl is-enabled --quiet "$2" 2>/dev/null || return 0
    journalctl --quiet --no-pager --boot --output cat --since -15min --lines 200 \
      "_SYSTEMD_UNIT=$2" >"$run/journal" 2>/dev/null
  fi
  # Most polls end here: what follows starts eight programs.
  [ -s "$run/journal" ] || return 0
  ended_words=$(last_complaint | tr -cd '\040-\176')
  [ -z "$ended_words" ] || echo "$1 $ended_words"
}

# Sets ended to the last words of the programs that should run here and have ended.
look_at_ended() {
  etcd_works=''
  [ "$etcd" != serving ] || etcd_works=ready
  manager_state=''
  scheduler_state=''
  while read -r ended_name ended_state _; do
    case $ended_name in
      kube-controller-manager) manager_state=$ended_state ;;
      kube-scheduler) scheduler_state=$ended_state ;;
    esac
  done <<PROGRAMS
$programs
PROGRAMS
  ended=$(
    print_ended etcd muster-etcd.service "$etcd_revision" "$etcd_works"
    print_ended kube-apiserver '' "$api_revision" "$api"
    print_ended kube-controller-manager '' "$manager_revision" "$manager_state"
    print_ended kube-scheduler '' "$scheduler_revision" "$scheduler_state"
    print_ended kubelet kubelet.service "$kubelet_revision" "${kubelet_revision:+ready}"
    print_ended haproxy muster-balancer.service "$balancer"
    print_ended containerd containerd.service "$runtime_runs"
    print_ended crio crio.service "$runtime_runs"
  )
}

# Prints `KEY COUNT` for each key of the service-account tokens that pods have, the most used first.
# A token's first part is base64url of JSON, which names the key; it is the same text for all tokens
# of one key, so each such text is decoded once.
print_token_keys() {
  set -- "$root"/var/lib/kubelet/pods/*/volumes/kubernetes.io~projected/*/..data/*
  [ -e "$1" ] || return 0
  cut -s -d . -f 1 "$@" 2>/dev/null |
    grep '^eyJ[A-Za-z0-9_-]*$' |
    sort |
    uniq -c |
    while read -r token_count token_head; do
      case $((${#token_head} % 4)) in
        2) token_head=$token_head== ;;
        3) token_head=$token_head= ;;
      esac
      token_part=${token_head%%=*}
      token_key=$(
        printf '%s' "$token_head" |
          tr _- /+ |
          base64 -d 2>/dev/null |
          sed -n 's/.*"kid":"\([A-Za-z0-9_.-]\{1,128\}\)".*/\1/p'
      )
      echo "${token_key:--} $token_count $token_part"
    done |
    sort
}

# Prints the lines of print_token_keys, which are sorted by key, with one line for each key; what
# is beyond the sixteenth key is counted with those that have no name.
sum_token_keys() {
  sum_key=''
  sum=0
  keys=0
  nameless=0
  while read -r token_key token_count _; do
    if [ "$token_key" = - ]; then
      nameless=$((nameless + token_count))
    elif [ "$token_key" = "$sum_key" ]; then
      sum=$((sum + token_count))
    elif [ "$keys" -ge 16 ]; then
      nameless=$((nameless + token_count))
    else
      [ -z "$sum_key" ] || echo "$sum_key $sum"
      keys=$((keys + 1))
      sum_key=$token_key
      sum=$token_count
    fi
  done
  [ -z "$sum_key" ] || echo "$sum_key $sum"
  [ "$nameless" = 0 ] || echo "- $nameless"
}

# Prints `KEY UID` for at most sixteen pods with a token of each key, from the lines of
# print_token_keys; nothing while all tokens are of one key. A pod's directory has its UID as name.
print_token_pods() {
  [ "$(wc -l <"$1")" -gt 1 ] || return 0
  head -n 16 "$1" |
    while read -r token_key token_count token_part; do
      grep -lsF "$token_part." \
        "$root"/var/lib/kubelet/pods/*/volumes/kubernetes.io~projected/*/..data/* |
        sed -n "s|^.*/kubelet/pods/\([0-9a-f-]*\)/volumes/.*|$token_key \1|p" |
        sort -u |
        head -n 16
    done |
    sort -u
}

# Sets tokens to the lines that say how many tokens have which key, and token_pods to those that say
# in which pods they are.
look_at_tokens() {
  tokens=''
  token_pods=''
  print_token_keys >"$run/tokens"
  [ -s "$run/tokens" ] || return 0
  tokens=$(sum_token_keys <"$run/tokens")
  token_pods=$(print_token_pods "$run/tokens")
}
