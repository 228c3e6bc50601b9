#!/bin/sh
# Starts the agent of a machine: the one that is on trial, else the one that was proven last, else
# the one of the first configuration, which is next to this file.
#
# /etc/muster/agents has a directory for each agent that the server sent (muster-upgrade.sh), named
# by the SHA-256 of its bundle, and these files of one line:
#
#     trial     DIGEST ATTEMPT STARTS       the agent that has to prove itself
#     current   DIGEST                      the agent that has proved itself
#     failed    DIGEST.ATTEMPT CODE TEXT    why a trial ended; written here, judged by the old agent
#
# An agent on trial has a time limit and three starts to report to the server, which makes it the
# current one. Otherwise the trial ends and the old agent runs again. This file is not replaced by
# an upgrade, so a bad agent cannot take it along. Needs coreutils.
set -u
umask 077
LC_ALL=C
export LC_ALL
# The lock of an agent that became this process; `watch` would keep it from the next one.
exec 9>&-

root=$(readlink -f "${MUSTER_ROOT:-/}")
root=${root%/}
etc=$root/etc/muster
agents=$etc/agents
# For how many seconds an agent on trial may be silent. Tests set another limit in agent.conf.
limit=$(sed -n 's/^trial=\([0-9]\{1,4\}\)$/\1/p' "$etc/agent.conf" 2>/dev/null)
limit=${limit:-120}

# Writes line $2 as file $1 of the agents' directory, whole or not at all.
write() {
  printf '%s\n' "$2" >"$agents/.new.$1" || return 1
  mv -f "$agents/.new.$1" "$agents/$1" || return 1
  sync "$agents"
}

# Ends the trial of agent $digest with text $1.
take_back() {
  write failed "$digest.$attempt silent $1"
  rm -f "$agents/trial"
}

# Whether agent $digest is still on trial.
is_on_trial() {
  trial_digest=
  if [ -r "$agents/trial" ]; then
    read -r trial_digest _ <"$agents/trial"
  fi
  [ "$trial_digest" = "$digest" ]
}

# Ends the trial, and process $1, when the time limit has passed. Returns early when the agent has
# reported or the process is gone.
watch() {
  seconds=0
  while [ "$seconds" -lt "$limit" ]; do
    sleep 1
    is_on_trial || return 0
    kill -0 "$1" 2>/dev/null || return 0
    seconds=$((seconds + 1))
  done
  take_back "It did not report to the server within $limit seconds."
  kill -TERM "$1"
  sleep 5
  ! kill -0 "$1" 2>/dev/null || kill -KILL "$1"
}

digest=''
starts=0
if [ -r "$agents/trial" ]; then
  read -r digest attempt starts <"$agents/trial"
fi
if [ -n "$digest" ]; then
  case ${starts:-3} in
    0 | 1 | 2)
      write trial "$digest $attempt $((starts + 1))"
      watch $$ </dev/null >/dev/null 2>&1 &
      exec sh "$agents/$digest/muster-agent.sh"
      ;;
  esac
  take_back 'It ended three times without a report to the server.'
fi
digest=''
if [ -r "$agents/current" ]; then
  read -r digest <"$agents/current"
fi
if [ -n "$digest" ] && [ -r "$agents/$digest/muster-agent.sh" ]; then
  exec sh "$agents/$digest/muster-agent.sh"
fi
exec sh "$etc/muster-agent.sh"
