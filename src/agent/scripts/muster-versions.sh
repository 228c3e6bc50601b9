#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): which versions run, for the facts. The version is
# what the running executable itself prints, so neither a file that was replaced meanwhile nor an
# image's tag is taken for what runs.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Sets running to a line `NAME VERSION` for each program of the cluster that runs on this host, and
# nothing for a program that does not tell its version. comm has at most 15 characters.
look_at_versions() {
  running=''
  for comm_file in "$root"/proc/[0-9]*/comm; do
    first_line "$comm_file"
    case $first_line in
      etcd | kubelet | containerd | crio | kube-apiserver | kube-scheduler) program=$first_line ;;
      kube-controller) program=kube-controller-manager ;;
      *) continue ;;
    esac
    case $running in
      *"$program "*) continue ;;
    esac
    is_of_this_host "${comm_file%/comm}" || continue
    version_of "${comm_file%/comm}" "$program"
    [ -z "$version_of" ] || running="$running$program $version_of
"
  done
}

# Sets version_of to the version of program $2, which runs as the process in directory $1 of /proc.
# The program is asked once for each process.
version_of() {
  version_of=''
  process_started=$(sed 's/.*) //' "$1/stat" 2>/dev/null | cut -d ' ' -f 20)
  process_id="${1##*/}.$process_started"
  first_line "$run/version.$2"
  case $first_line in
    "$process_id "*)
      version_of=${first_line#* }
      return 0
      ;;
    "$process_id") return 0 ;;
  esac
  version_of=$(print_version "$1/exe")
  write_line "$run/version.$2" "$process_id $version_of" 2>/dev/null
}

# Prints the version, like 1.36.3, that executable $1 prints for --version. It runs as nobody and
# without any privilege, because a process of that name may be anybody's.
print_version() {
  {
    exec 8<"$1"
  } 2>/dev/null || return 0
  within 5 /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \
    /proc/self/fd/8 --version 2>/dev/null |
    head -c 2000 |
    sed -n 's/^\(.*[^0-9.]\)\{0,1\}\([0-9]\{1,3\}\.[0-9]\{1,3\}\.[0-9]\{1,4\}\).*/\2/p' |
    head -n 1
  exec 8<&-
}

# Sets booted to the SHA-256 of the root image that this machine booted, or to nothing.
look_at_image() {
  booted=''
  for word in $(tr -dc '!-~ ' 2>/dev/null <"$root/proc/cmdline"); do
    case $word in
      muster.root.sha256=*) booted=${word#*=} ;;
    esac
  done
}
