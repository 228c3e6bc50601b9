#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): fetches the agent that the server names and puts
# it on trial. muster-start.sh starts it, and starts this one again if the new one stays silent.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

agents=$etc/agents

# Sets own_build to the digest by which the server knows this agent: the name of its directory, or
# what the first configuration says about the agent in it.
find_own_build() {
  case $here in
    "$agents"/*) own_build=${here##*/} ;;
    *)
      setting agent
      own_build=$setting
      ;;
  esac
}

# Takes header Muster-Agent, DIGEST.ATTEMPT, from header_value.
take_agent_header() {
  header_digest=${header_value%%.*}
  case $header_digest in
    *[!0-9a-f]*) return 0 ;;
  esac
  [ "${#header_digest}" = 64 ] || return 0
  is_number "${header_value#*.}" || return 0
  answer_agent=$header_value
}

# Must be called when the server has accepted a poll. An agent on trial has proved itself by that,
# and other agents that the server sent before are removed. An agent that was taken back counts as
# refused now, because the server can be reached with the old one.
keep_agent() {
  first_line "$agents/failed"
  if [ -n "$first_line" ]; then
    write_line "$agents/refused" "$first_line" && rm -f "$agents/failed"
  fi
  first_line "$agents/trial"
  [ -n "$first_line" ] || return 0
  [ "${first_line%% *}" = "$own_build" ] || return 0
  write_line "$agents/current" "$own_build" || return 1
  rm -f "$agents/trial" "$agents/refused"
  if keeps_plans && [ -e "$shelf/plan.tar" ]; then
    keep_own_agent
  fi
  for other_agent in "$agents"/*/; do
    other_agent=${other_agent%/}
    [ "$other_agent" = "$here" ] || rm -rf "$other_agent"
  done
}

# Must be called when a poll was not accepted. If the old agent does not reach the server either,
# the trial says nothing about the new one, which may be tried again.
forget_failed_trial() {
  rm -f "$agents/failed"
}

# Notes that the agent the server names was refused with code $1 and text $2.
refuse_agent() {
  say "the agent $wanted_agent is refused: $2"
  write_line "$agents/refused" "$wanted_agent $1 $2"
}

# Puts the agent that the last poll named on trial in place of this process, unless it is this one
# or was refused in this attempt. If it cannot be fetched, the next poll tries again.
take_wanted_agent() {
  [ -n "$wanted_agent" ] || return 0
  wanted_build=${wanted_agent%.*}
  [ "$wanted_build" != "$own_build" ] || return 0
  first_line "$agents/refused"
  [ "${first_line%% *}" != "$wanted_agent" ] || return 0
  [ -r "$etc/muster-start.sh" ] || return 0
  ask /agent/bundle --cert "$identity/agent.crt" --key "$identity/agent.key" \
    --data-urlencode "digest=$wanted_build"
  if [ "$http_status" != 200 ]; then
    say "$asked_url: $http_status $answer_text"
    return 0
  fi
  if ! sha256 "$run/body" || [ "$sha256" != "$wanted_build" ]; then
    refuse_agent wrong-hash "What the server sent has the SHA-256 $sha256."
    return 0
  fi
  if ! upgrade_output=$(unpack_agent "$run/body" "$wanted_build" 2>&1); then
    refuse_agent write-failed "It could not be unpacked: $(printf '%.200s' "$upgrade_output")"
    return 0
  fi
  write_line "$agents/trial" "$wanted_build ${wanted_agent#*.} 0" || return 0
  say "the agent $wanted_build begins its trial"
  exec sh "$etc/muster-start.sh"
}

# Unpacks bundle $1 as agent $2, whole or not at all.
unpack_agent() {
  make_parent "$agents/$2" || return 1
  rm -rf "$agents/.new" "${agents:?}/$2"
  mkdir "$agents/.new" || return 1
  tar --no-same-owner -xf "$1" -C "$agents/.new" || return 1
  [ -s "$agents/.new/muster-agent.sh" ] || return 1
  sync -f "$agents/.new" || return 1
  mv -T "$agents/.new" "$agents/$2"
}

# Keeps this agent next to the kept plan, which an older agent may not understand: a machine that
# starts from its boot disk has the agent of the day when that disk was last written.
keep_own_agent() {
  first_line "$shelf/agent"
  [ "${first_line%% *}" != "$own_build" ] || return 0
  (cd "$here" && tar -cf "$run/agent.tar" muster-*.sh) || return 1
  sha256 "$run/agent.tar" || return 1
  # Without its line the archive does not count, so an archive never has another one's line.
  rm -f "$shelf/agent"
  replace "$run/agent.tar" 600 "$shelf/agent.tar" || return 1
  rm -f "$run/agent.tar"
  write_line "$shelf/agent" "$own_build $sha256"
}

# Replaces this process by the agent that was kept with the plan, if that is another one.
use_kept_agent() {
  first_line "$shelf/agent"
  kept_build=${first_line%% *}
  [ -n "$kept_build" ] || return 0
  [ "$kept_build" != "$own_build" ] || return 0
  [ -r "$etc/muster-start.sh" ] || return 0
  sha256 "$shelf/agent.tar" || return 0
  [ "$sha256" = "${first_line#* }" ] || return 0
  unpack_agent "$shelf/agent.tar" "$kept_build" 2>/dev/null || return 0
  write_line "$agents/current" "$kept_build" || return 0
  say "the agent $kept_build made the kept plan, and does it"
  exec sh "$etc/muster-start.sh"
}
