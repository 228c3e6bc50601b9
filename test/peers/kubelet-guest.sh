#!/bin/sh
# A kubelet without an API beside a real containerd, in new namespaces: kubelet-guest.sh KUBELET
# CONFIG SECONDS [FLAG …]. Prints `alive` if kubelet still runs SECONDS after it said that it
# started, else its log.
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
# kubelet writes its certificate to where it is when it has no directory for it.
cd /run
"$kubelet" --config=/run/kubelet.yaml --root-dir=/run/kubelet --cert-dir=/run/kubelet/pki \
  --hostname-override=cp1 "$@" >/run/kubelet.log 2>&1 &
pid=$!
# A process that ended has no executable any more, even before it is waited for.
waited=0
until grep -q 'Started kubelet' /run/kubelet.log || [ "$waited" = 1200 ]; do
  readlink "/proc/$pid/exe" >/dev/null || break
  waited=$((waited + 1))
  sleep 0.1
done
[ "$waited" -lt 1200 ] || exec echo 'failed to start in time'
sleep "$seconds"
! readlink "/proc/$pid/exe" >/dev/null || exec echo alive
cat /run/kubelet.log
