#!/bin/sh
# A kubelet without an API beside a real containerd, in new namespaces: kubelet-guest.sh KUBELET
# CONFIG SECONDS [FLAG …]. Prints `alive` if kubelet still runs after SECONDS, else its log.
set -eu
kubelet=$1
config=$2
seconds=$3
shift 3
mount --make-rprivate /
mount -t tmpfs tmpfs /var/log
exec 3<"$config"
mount -t tmpfs tmpfs /run
mkdir -p /run/kubelet /run/manifests
cat <&3 >/run/kubelet.yaml
ip link set lo up
cat >/run/containerd.toml <<'TOML'
version = 2
root = "/run/containerd-root"
state = "/run/containerd-state"
[grpc]
address = "/run/containerd.sock"
TOML
containerd --config /run/containerd.toml >/run/containerd.log 2>&1 &
waited=0
until [ -S /run/containerd.sock ] || [ "$waited" = 300 ]; do
  waited=$((waited + 1))
  sleep 0.1
done
status=0
timeout "$seconds" "$kubelet" --config=/run/kubelet.yaml --root-dir=/run/kubelet \
  --cert-dir=/run/kubelet/pki --hostname-override=cp1 "$@" >/run/kubelet.log 2>&1 || status=$?
[ "$status" != 124 ] || exec echo alive
cat /run/kubelet.log
