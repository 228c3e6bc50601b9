#!/bin/sh
# Functions that the scripts which build images share. images/*/build.sh and torture/guest.sh source
# this file; it is never run.

# need TOOL[=PACKAGE]...: exits if a tool is missing, and names the packages to install.
need() {
  missing=''
  packages=''
  for tool; do
    command -v "${tool%=*}" >/dev/null 2>&1 && continue
    missing="$missing ${tool%=*}"
    packages="$packages ${tool#*=}"
  done
  [ -n "$missing" ] || return 0
  echo "${0##*/}: missing:$missing; install with: apt-get install$packages" >&2
  exit 1
}

# images_cache PROJECT: prints where images are kept by default: in a checkout, else in this user's
# cache directory. Root's is outside of /var/cache/muster, which belongs to the service.
images_cache() {
  if [ -e "$1/package-lock.json" ]; then
    echo "$1/.cache/images"
  elif [ "$(id -u)" = 0 ]; then
    echo /var/cache/muster-images
  else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/muster/images"
  fi
}

# real_package PACKAGE: prints the package that a kernel's metapackage depends on today, by apt's
# own mirror.
real_package() {
  real=$(
    apt-cache depends --important "$1" 2>/dev/null |
      awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }'
  )
  if [ -z "$real" ]; then
    echo "${0##*/}: apt knows no $1; run: apt-get update" >&2
    exit 1
  fi
  echo "$real"
}

# fetch_package PACKAGE DIRECTORY: downloads its .deb. By default apt, run as root, downloads as the
# user _apt, who may not write to a private directory.
fetch_package() {
  (cd "$2" && apt-get download -qq -o APT::Sandbox::User=root "$1" >&2)
}

# unpack_kernel DEB DIRECTORY: unpacks a kernel package, and its modules so that busybox can insert
# them.
unpack_kernel() {
  dpkg-deb -x "$1" "$2"
  find "$2" -name '*.ko.xz' -exec xz -d {} +
}

# put_modules KERNEL TARGET MODULE...: copies modules and the modules that they depend on to TARGET,
# and lists their files in TARGET/order, in the order in which they must be inserted. A module that
# is built into the kernel has no file.
put_modules() {
  tree=$1
  target=$2
  shift 2
  mkdir -p "$target"
  in_order "$tree" "$@" | awk '!seen[$0]++' | while read -r file; do
    cp "$file" "$target/"
    basename "$file"
  done >"$target/order"
}

# in_order TREE MODULE...: prints the files of modules, each after those that it depends on, which
# its .modinfo section names.
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

# archive DIRECTORY: prints a cpio archive. The same input gives the same octets: times, order,
# owners and inode numbers are fixed.
archive() (
  find "$1" -exec touch -h -d @0 {} +
  cd "$1" || exit 1
  find . -print0 | LC_ALL=C sort -z |
    cpio --null --quiet --create --format=newc --owner=0:0 --reproducible
)

# describe FILE NAME: prints the file's entry for image.json.
describe() {
  sha256=$(sha256sum "$1" | cut -d' ' -f1)
  printf '{"name": "%s", "sha256": "%s", "size": %s}' "$2" "$sha256" "$(stat -c %s "$1")"
}

# built DIRECTORY FORCE: prints the directory and exits 0 if it holds a finished image. With FORCE
# it does nothing.
built() {
  [ -z "$2" ] || return 0
  [ -f "$1/image.json" ] || return 0
  echo "$1"
  exit 0
}

# refuse_others DIRECTORY: exits if somebody else than this user and root could put a link into the
# directory, or put another directory in its place, because a build would follow it. Above it a
# directory may have the sticky bit: nobody moves there what belongs to others.
refuse_others() {
  above=$(readlink -f "$1")
  others=''
  while :; do
    case $(stat -c %u "${above:-/}") in
      0 | "$(id -u)") ;;
      *) others='it belongs to another user' ;;
    esac
    case $(stat -c %A "${above:-/}") in
      d????????[tT]) [ "$above" != "$(readlink -f "$1")" ] || others='others may write to it' ;;
      d????w???? | d???????w?) others='others may write to it' ;;
    esac
    if [ -n "$others" ]; then
      echo "${0##*/}: images are not built below ${above:-/}: $others; name another --cache" >&2
      exit 1
    fi
    [ -n "$above" ] || return 0
    above=${above%/*}
  done
}

# only_builder DIRECTORY FORCE: takes the lock of the image. A second builder waits here, and then
# uses what the first has built.
only_builder() {
  mkdir -p "$(dirname "$1")"
  refuse_others "$(dirname "$1")"
  if [ -L "$1.lock" ]; then
    echo "${0##*/}: $1.lock is a link; remove it" >&2
    exit 1
  fi
  exec 9>>"$1.lock"
  flock 9
  built "$1" "$2"
}

# scratch NAME: sets work to a new directory that is removed when the script ends. Files that are
# made from now on get the modes that images shall have.
scratch() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/muster-$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  chmod 755 "$work"
  umask 022
}
