#!/bin/sh
# What the scripts that build images share; sourced by images/*/build.sh and torture/guest.sh, never
# run.

# need TOOL[=PACKAGE]...: ends with what is missing, and the packages that have it.
need() {
  missing='' packages=''
  for tool; do
    command -v "${tool%=*}" >/dev/null 2>&1 && continue
    missing="$missing ${tool%=*}" packages="$packages ${tool#*=}"
  done
  [ -z "$missing" ] && return
  echo "${0##*/}: missing:$missing; install with: apt-get install$packages" >&2
  exit 1
}

# images_cache PROJECT: where images are kept unless somebody says: beside a checkout, else where
# caches of this user are.
images_cache() {
  if [ -e "$1/package-lock.json" ]; then
    echo "$1/.cache/images"
  elif [ "$(id -u)" = 0 ]; then
    echo /var/cache/muster/images
  else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/muster/images"
  fi
}

# real_package PACKAGE: the package of today that a kernel's metapackage stands for. It comes from
# apt's own mirror.
real_package() {
  real=$(apt-cache depends --important "$1" 2>/dev/null | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
  if [ -z "$real" ]; then
    echo "${0##*/}: apt knows no $1; run: apt-get update" >&2
    exit 1
  fi
  echo "$real"
}

# fetch_package PACKAGE DIRECTORY: its .deb.
fetch_package() {
  # apt as root would fetch as the user _apt, who may not look into a private directory
  (cd "$2" && apt-get download -qq -o APT::Sandbox::User=root "$1" >&2)
}

# unpack_kernel DEB DIRECTORY: a kernel package with its modules as busybox inserts them.
unpack_kernel() {
  dpkg-deb -x "$1" "$2"
  find "$2" -name '*.ko.xz' -exec xz -d {} +
}

# put_modules KERNEL TARGET MODULE...: copies modules and what they depend on (their .modinfo
# section says what that is) to TARGET; TARGET/order has their files' names in the order in which
# they must be inserted. One that is built in has no file.
put_modules() {
  tree=$1 target=$2
  shift 2
  mkdir -p "$target"
  in_order "$tree" "$@" | awk '!seen[$0]++' | while read -r file; do
    cp "$file" "$target/"
    basename "$file"
  done >"$target/order"
}

in_order() {
  tree=$1
  shift
  for module; do
    file=$(find "$tree" -name "$(echo "$module" | sed 's/[-_]/[-_]/g').ko" | head -n 1)
    [ -n "$file" ] || continue
    # shellcheck disable=SC2046 # names, one a word
    (in_order "$tree" $(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p' | tr ',' ' '))
    echo "$file"
  done
}

# archive DIRECTORY: a cpio archive on standard output. Same input, same octets: fixed times, order,
# owners and inode numbers.
archive() {
  find "$1" -exec touch -h -d @0 {} +
  (cd "$1" && find . -print0 | LC_ALL=C sort -z | cpio --null --quiet --create --format=newc --owner=0:0 --reproducible)
}

# describe FILE NAME: the file as image.json names it.
describe() {
  printf '{"name": "%s", "sha256": "%s", "size": %s}' "$2" "$(sha256sum "$1" | cut -d' ' -f1)" "$(stat -c %s "$1")"
}

# built DIRECTORY FORCE: prints it and ends when a finished image is there already.
built() {
  if [ -n "$2" ] || [ ! -f "$1/image.json" ]; then return; fi
  echo "$1"
  exit 0
}

# only_builder DIRECTORY FORCE: whoever comes second waits and takes what the first has built.
only_builder() {
  mkdir -p "$(dirname "$1")"
  exec 9>"$1.lock"
  flock 9
  built "$1" "$2"
}

# scratch NAME: $work, a directory that goes when the script ends, with the modes that images shall
# have.
scratch() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/muster-$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  chmod 755 "$work"
  umask 022
}
