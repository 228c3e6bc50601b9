#!/bin/sh
# Part of the agent (muster-agent.sh reads it in): containers and images of containerd or CRI-O, for
# an etcd that is a static pod.
# shellcheck disable=SC2034,SC2154 # variables that other parts set and read

# Where mount_image mounts an image.
image_root=$run/etcd-image

# Whether this machine runs CRI-O; else it runs containerd.
uses_crio() {
  [ -S "$root/var/run/crio/crio.sock" ]
}

# Runs ctr with arguments $1 ..., in the namespace of the containers that kubelet made. A pull of an
# image of etcd over a slow line takes minutes.
containerd() {
  write_within 1800 ctr --address "$root/run/containerd/containerd.sock" --namespace k8s.io "$@"
}

# Runs crictl with arguments $1 .... Its default timeout of two seconds is too short for a pod where
# much is read from disks for the first time. On failure prints the last line that crictl wrote,
# which is the reason.
cri() {
  write_within 1800 crictl --timeout 2m "$@" 2>"$run/crictl.log" && return 0
  tail -n 1 "$run/crictl.log" >&2
  return 1
}

# Prints the ids of the running containers of static pod etcd-$1.
pod_containers() {
  if uses_crio; then
    within 30 crictl ps -q --state running --name '^etcd$' \
      --label io.kubernetes.pod.namespace=kube-system \
      --label "io.kubernetes.pod.name=etcd-$1" 2>/dev/null
    return
  fi
  containerd tasks list 2>/dev/null | sed -n 's/^\([^ ]*\) .*RUNNING.*/\1/p' >"$run/tasks"
  [ -s "$run/tasks" ] || return 0
  label='labels."io.kubernetes'
  filter="$label.pod.namespace\"==kube-system"
  filter="$filter,$label.pod.name\"==etcd-$1"
  filter="$filter,$label.container.name\"==etcd"
  containerd containers list -q "$filter" 2>/dev/null | grep -Fxf "$run/tasks"
}

# Sends signal $2 to container $1. CRI-O ignores $2: it sends SIGTERM, and SIGKILL after 30 seconds.
end_container() {
  if uses_crio; then
    write_within 120 crictl stop --timeout 30 "$1"
  else
    containerd tasks kill --signal "$2" "$1"
  fi >/dev/null 2>&1
}

# Mounts the files of image $1 at $image_root, without starting a container: what is run from there
# is a process of the agent. An image that the machine does not have is pulled from where kubelet
# would get it.
mount_image() {
  ! findmnt -M "$image_root" >/dev/null || return 0
  mkdir -p "$image_root" || return 1
  if uses_crio; then
    mount_crio_image "$1"
    return
  fi
  ! containerd images mount "$1" "$image_root" || return 0
  containerd images pull --hosts-dir "$root/etc/containerd/certs.d" "$1" || return 1
  containerd images mount "$1" "$image_root"
}

# Unmounts what mount_image mounted, if anything, and removes the directory.
unmount_image() {
  if uses_crio; then
    if findmnt -M "$image_root" >/dev/null; then
      write_within 600 umount "$image_root" || return 1
    fi
    remove_image_pod || return 1
  elif [ -e "$image_root" ]; then
    containerd images unmount --rm "$image_root" || return 1
  fi
  [ ! -e "$image_root" ] || rmdir "$image_root"
}

# Mounts the files of image $1 with CRI-O. CRI-O mounts a container's files when it makes the
# container, so this makes a container that is never started, in a pod without processes. kubelet
# would remove that pod, but kubelet does not run now.
mount_crio_image() {
  remove_image_pod || return 1
  if ! cri inspecti -q "$1" >/dev/null 2>&1; then
    cri pull "$1" >/dev/null || return 1
  fi
  linux='"linux":{"security_context":{"namespace_options":{"network":2,"pid":1}}}'
  cat >"$run/pod.json" <<POD
{
  "metadata": {"name": "muster-etcd-image", "namespace": "muster", "uid": "muster-etcd-image"},
  "log_directory": "$run",
  $linux
}
POD
  cat >"$run/container.json" <<CONTAINER
{
  "metadata": {"name": "files"},
  "image": {"image": "$1"},
  "command": ["etcd"],
  "log_path": "etcd-image.log",
  $linux
}
CONTAINER
  image_pod=$(cri runp "$run/pod.json") || return 1
  image_container=$(cri create "$image_pod" "$run/container.json" "$run/pod.json") || return 1
  image_files=$(
    cri inspect --output go-template --template '{{.info.runtimeSpec.root.path}}' \
      "$image_container"
  ) || return 1
  write_within 60 mount --bind "$image_files" "$image_root"
}

# Removes the pod that mount_crio_image makes, including one that was left behind when an agent was
# killed or a boot was cut off.
remove_image_pod() {
  image_pods=$(cri pods -q --name '^muster-etcd-image$') || return 1
  for image_pod in $image_pods; do
    cri rmp --force "$image_pod" || return 1
  done
}

# Runs command $1 .... If the plan names an image, its programs are found before the machine's own.
with_etcd_programs() {
  if [ -n "$etcd_image" ]; then
    PATH=$image_root/usr/sbin:$image_root/usr/bin:$image_root/sbin:$image_root/bin:$PATH
    PATH=$image_root/usr/local/sbin:$image_root/usr/local/bin:$PATH
  fi
  "$@"
}
