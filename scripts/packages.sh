#!/bin/sh
# Brings what debian-packages.txt lists. Usage: scripts/packages.sh missing|install
#
#   missing   prints the packages that are not there, one a line; exit 1 if there are any
#   install   installs or unpacks them; needs root
#
# Packages of a newer suite come from the host's own mirror through a source list that is used for
# this one call; the host's own lists of sources stay as they are. Daemons are unpacked into
# .cache/peers, never installed: Debian would start them.
set -eu
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# apt downloads as a user of its own, who may not be able to read this directory.
as_root='-o APT::Sandbox::User=root'
peers=.cache/peers
list=${MUSTER_PACKAGES:-debian-packages.txt}
# shellcheck source=/dev/null
. /etc/os-release

# Prints the list without comments.
rows() {
  sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list"
}

# Whether package $1 is installed.
installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Whether package $2 is new enough for suite $1. Some Debian 12 hosts have QEMU 7.2, which is too
# old: there, a package from backports must be of that suite.
new_enough() {
  [ "$1" = backports ] || return 0
  [ "${VERSION_CODENAME:-}" = bookworm ] || return 0
  dpkg-query -W -f '${Version}' "$2" 2>/dev/null | grep -q bpo
}

# Where package $1 of suite $2 is unpacked.
place() {
  case $2 in
    stable | backports) echo "$peers/$1" ;;
    *) echo "$peers/$1-$2" ;;
  esac
}

# Prints the rows of the list that are not there.
missing() {
  rows | while read -r package suite how _; do
    if [ "$how" = unpack ]; then
      [ -e "$(place "$package" "$suite")/.unpacked" ] || echo "$package $suite $how"
    elif ! installed "$package" || ! new_enough "$suite" "$package"; then
      echo "$package $suite $how"
    fi
  done
}

# The host's sources and, on bookworm, its backports from the same mirror.
sources() {
  parts=.cache/apt-sources
  rm -rf "$parts"
  mkdir -p "$parts"
  for file in /etc/apt/sources.list.d/*; do
    [ -f "$file" ] && cp "$file" "$parts/"
  done
  if [ "${VERSION_CODENAME:-}" = bookworm ]; then
    # shellcheck disable=SC2016 # apt expands it
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -n 1)
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keyring] $mirror bookworm-backports main" >"$parts/muster-backports.list"
  fi
  echo "$parts"
}

# Installs and unpacks what is missing.
install() {
  if [ "$(id -u)" != 0 ]; then
    echo "packages.sh: installing needs root; run: sudo scripts/packages.sh install" >&2
    exit 1
  fi
  wanted=$(missing)
  [ -n "$wanted" ] || exit 0
  apt-get -qq update || true
  parts=$(sources)
  with="-o Dir::Etc::SourceParts=$PWD/$parts"
  # shellcheck disable=SC2086 # $with is two words on purpose, package lists as well
  {
    apt-get -qq $with update || true
    stable=$(echo "$wanted" | awk '$2 == "stable" && $3 == "install" { print $1 }')
    newer=$(echo "$wanted" | awk '$2 == "backports" && $3 == "install" { print $1 }')
    [ -z "$stable" ] || apt-get $with install -y -qq --no-install-recommends $stable >/dev/null
    if [ -n "$newer" ]; then
      release=
      [ "${VERSION_CODENAME:-}" != bookworm ] || release="-t bookworm-backports"
      apt-get $with install -y -qq --no-install-recommends $release $newer >/dev/null
    fi
    for package in $(echo "$wanted" | awk '$3 == "unpack" && $2 != "trixie" { print $1 }'); do
      unpack "$package"
    done
    for package in $(echo "$wanted" | awk '$3 == "unpack" && $2 == "trixie" { print $1 }'); do
      unpack_newer "$package" trixie
    done
  }
}

# A daemon and the libraries that it needs and the host lacks, side by side: run it with
# LD_LIBRARY_PATH (test/peers/unpacked.ts).
unpack() {
  into=$peers/$1
  rm -rf "$into" "$into.deb"
  mkdir -p "$into" "$into.deb"
  # What an installation would bring, without its recommendations, is what has to be unpacked.
  # shellcheck disable=SC2086 # two words
  packages=$(
    apt-get $with install -s --no-install-recommends "$1" 2>/dev/null |
      awk '$1 == "Inst" { print $2 }'
  )
  # shellcheck disable=SC2086 # one package a word
  (cd "$into.deb" &&
    apt-get -qq $as_root -o "Dir::Etc::SourceParts=$OLDPWD/$parts" download ${packages:-$1})
  for deb in "$into.deb"/*.deb; do
    dpkg-deb -x "$deb" "$into"
  done
  rm -rf "$into.deb"
  : >"$into/.unpacked"
}

# One package of a newer suite, without what it needs: for programs that bring everything with them.
# The suite's list of packages is kept apart, so that nothing else is taken from there.
unpack_newer() {
  into=$(place "$1" "$2")
  lists=$PWD/.cache/apt-$2
  rm -rf "$into" "$into.deb" "$lists"
  mkdir -p "$into" "$into.deb" "$lists/parts" "$lists/lists/partial"
  # shellcheck disable=SC2016 # apt expands it
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $VERSION_CODENAME" | head -n 1)
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "deb [signed-by=$keyring] $mirror $2 main" >"$lists/parts/newer.list"
  apart="$as_root -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$lists/parts"
  apart="$apart -o Dir::State::Lists=$lists/lists"
  # shellcheck disable=SC2086 # options, one a word
  apt-get -qq $apart update
  # shellcheck disable=SC2086 # options, one a word
  (cd "$into.deb" && apt-get -qq $apart download "$1")
  dpkg-deb -x "$into.deb"/*.deb "$into"
  rm -rf "$into.deb" "$lists"
  : >"$into/.unpacked"
}

case "${1:-}" in
missing)
  out=$(missing)
  [ -z "$out" ] || {
    echo "$out"
    exit 1
  }
  ;;
install) install ;;
*)
  echo "usage: scripts/packages.sh missing|install" >&2
  exit 2
  ;;
esac
