/**
 * The unit that pulls what the machine runs before kubelet starts it. kubelet would pull all at
 * once with what it has started already: an apiserver without its etcd ends and is started again
 * while etcd's image still comes, and a slow machine does not get out of that.
 */
import type { PlanLine } from '../../agent/plan.ts';
import { podImages } from '../spec/artifacts.ts';
import type { ClusterMachine, ResolvedCluster } from '../spec/resolved-cluster.ts';
import { nameInContainerd } from './containerd.ts';
import { put, sections } from './lines.ts';
import { RUNTIMES } from './runtime.ts';

export const IMAGES_SERVICE = 'muster-images.service';
const UNIT = `/etc/systemd/system/${IMAGES_SERVICE}`;
const SCRIPT = '/etc/muster/images.sh';

/** Pulls image `$1` unless it is there, by the programs that come with the runtime. */
const PULL: Readonly<Record<ResolvedCluster['runtime'], string>> = {
  containerd: `# crictl lets containerd pull; ctr does it by itself and hands over every octet, which takes twice as much of a slow processor.
pull() {
  if command -v crictl >/dev/null; then
    crictl inspecti "$1" >/dev/null 2>&1 || crictl pull "$1"
  else
    ctr --namespace k8s.io images list -q | grep -qxF "$1" ||
      ctr --namespace k8s.io images pull --hosts-dir /etc/containerd/certs.d "$1" >/dev/null
  fi
}`,
  'cri-o': 'pull() { crictl inspecti "$1" >/dev/null 2>&1 || crictl pull "$1"; }',
};

/** One that cannot be pulled now keeps none of the others; kubelet tries it on. */
const script = (runtime: ResolvedCluster['runtime'], images: readonly string[]): string => `#!/bin/sh
# Pulls what this machine runs, in the order in which it is needed. What is there is left alone.
set -u
failed=0
${PULL[runtime]}
for image in ${images.join(' ')}; do pull "$image" || failed=1; done
exit $failed
`;

const unit = (runtime: string) =>
  sections(
    [
      'Unit',
      [
        'Description=Images of what this machine runs, pulled by Muster before kubelet starts it',
        `Wants=network-online.target ${runtime}`,
        `After=network-online.target ${runtime}`,
      ],
    ],
    [
      'Service',
      // A registry that never ends its answer must not keep kubelet from what is there.
      ['Type=oneshot', 'RemainAfterExit=yes', `ExecStart=/bin/sh ${SCRIPT}`, 'TimeoutStartSec=900'],
    ],
  );

export const imagesLines = (resolved: ResolvedCluster, machine: ClusterMachine): readonly PlanLine[] => [
  put(SCRIPT, script(resolved.runtime, podImages(resolved, machine).map(nameInContainerd))),
  put(UNIT, unit(RUNTIMES[resolved.runtime].unit)),
];
