#!/bin/sh
# Brings what a make target needs from Debian and from npm: scripts/prepare.sh TARGET [PACKAGE...]
#
# Without PACKAGEs that is everything in debian-packages.txt. Says what is missing and what for
# before it installs anything. Asks for sudo once, and only on a terminal; root is not asked.
set -eu
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
target=$1
shift

# Prints message $* with the target it is about.
say() {
  echo "$target: $*" >&2
}

# Writes the rows of debian-packages.txt for the packages "$@" (all rows without any) to $list.
write_list() {
  if [ $# = 0 ]; then
    cp debian-packages.txt "$list"
  else
    : >"$list"
    for package in "$@"; do
      grep -E "^${package}[[:space:]]" debian-packages.txt >>"$list" || {
        say "debian-packages.txt does not list $package"
        exit 1
      }
    done
  fi
  # Any npm will do: it brings Node 26 from package-lock.json.
  command -v npm >/dev/null 2>&1 || echo 'npm stable install brings Node 26' >>"$list"
}

# Prints the missing packages with the purpose that debian-packages.txt gives for each.
explain_missing() {
  echo "$1" | while read -r package suite how; do
    awk -v package="$package" -v suite="$suite" -v how="$how" '
      $1 == package && $2 == suite {
        purpose = $0
        sub(/^[^ \t]+[ \t]+[^ \t]+[ \t]+[^ \t]+[ \t]+/, "", purpose)
        where = how == "unpack" ? " (unpacked into .cache/peers, not installed)" : ""
        printf "  %-20s %s%s\n", package, purpose, where
        exit
      }' "$list"
  done
}

# Leaves unless the command "$1" may be run with sudo.
ask_for_sudo() {
  echo "This installs them: $1"
  if ! [ -t 0 ] || ! command -v sudo >/dev/null 2>&1; then
    say "nobody can type a password here: run that command, then make $target again"
    exit 1
  fi
  printf 'Run it now? [Y/n] '
  read -r answer
  case $answer in
    '' | [Yy]*) ;;
    *) exit 1 ;;
  esac
}

# Installs the packages of $list that are missing, or exits.
install_packages() {
  missing=$(MUSTER_PACKAGES=$list scripts/packages.sh missing) || true
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null 2>&1; then
    say 'this host has no apt-get; Muster is developed and tested on Debian 12 and 13'
    exit 1
  fi
  echo "make $target needs these packages of Debian, which are not there yet:"
  explain_missing "$missing"
  install="env MUSTER_PACKAGES=$list scripts/packages.sh install"
  if [ "$(id -u)" = 0 ]; then
    echo "Installing them: $install"
  else
    install="sudo $install"
    ask_for_sudo "$install"
  fi
  $install
  if ! missing=$(MUSTER_PACKAGES=$list scripts/packages.sh missing); then
    say 'these packages are still missing after the installation:'
    echo "$missing" >&2
    exit 1
  fi
}

# Installs what package-lock.json lists, if it is not there.
install_node_modules() {
  if [ -x node_modules/.bin/node ] && [ -z "$(find package-lock.json -newer node_modules)" ]; then
    return 0
  fi
  echo 'Bringing Node 26 and the packages of package-lock.json into node_modules (npm ci) ...'
  npm ci --no-audit --no-fund
  touch node_modules
}

mkdir -p .cache
list=.cache/packages-$target.txt
write_list "$@"
install_packages
install_node_modules
