/**
 * The unit that pulls the machine's images before kubelet starts. Without it, kubelet would pull
 * images while it starts the first pods. kube-apiserver would exit and restart for as long as
 * etcd's image is being pulled, and a slow machine would never get out of that loop.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { podImages } from '../resolve/artifacts.ts';
import { nameInContainerd } from './containerd.ts';
import { put, sections } from './lines.ts';
import { RUNTIMES } from './runtime.ts';

export const IMAGES_SERVICE = 'muster-images.service';
const UNIT = `/etc/systemd/system/${IMAGES_SERVICE}`;
const SCRIPT = '/etc/muster/images.sh';

/**
 * Pulls the image `$1` if the machine does not have it, with the programs that come with the
 * runtime.
 */
export const PULL: Readonly<Record<ResolvedCluster['runtime'], string>> = {
  containerd: `# crictl lets containerd pull. ctr pulls by itself and hands every octet over to containerd, which
# costs a slow processor twice as much.
pull() {
  if command -v crictl >/dev/null; then
    crictl inspecti "$1" >/dev/null 2>&1 || crictl pull "$1"
  else
    ctr --namespace k8s.io images list -q | grep -qxF "$1" ||
      ctr --namespace k8s.io images pull --hosts-dir /etc/containerd/certs.d "$1" >/dev/null
  fi
}`,
  'cri-o': `pull() {
  crictl inspecti "$1" >/dev/null 2>&1 || crictl pull "$1"
}`,
};

/** The script. It continues when an image cannot be pulled, and kubelet retries that image. */
const script = (runtime: ResolvedCluster['runtime'], images: readonly string[]): string => `#!/bin/sh
# Pulls the images that this machine runs, in the order in which it needs them.
set -u

# pull IMAGE: pulls the image unless it is here.
${PULL[runtime]}

failed=0
for image in ${images.join(' \\\n  ')}; do
  pull "$image" || failed=1
done
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
      // A registry that never completes its answer must not keep kubelet from starting.
      ['Type=oneshot', 'RemainAfterExit=yes', `ExecStart=/bin/sh ${SCRIPT}`, 'TimeoutStartSec=900'],
    ],
  );

/** The lines of the script and the unit that pull the machine's images. */
export const imagesLines = (resolved: ResolvedCluster, machine: ClusterMachine): readonly PlanLine[] => [
  put(SCRIPT, script(resolved.runtime, podImages(resolved, machine).map(nameInContainerd))),
  put(UNIT, unit(RUNTIMES[resolved.runtime].unit)),
];
