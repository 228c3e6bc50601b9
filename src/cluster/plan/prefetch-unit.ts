/**
 * The unit that pulls images ahead of their use, while an upgrade is under way. Without it, each
 * pod would be away for as long as its new image is being pulled, and an image that nobody has
 * would be noticed only when the old pod has ended.
 */
import { createHash } from 'node:crypto';
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { podImages } from '../resolve/artifacts.ts';
import { nameInContainerd } from './containerd.ts';
import { PULL } from './images-unit.ts';
import { digestOf, put, sections } from './lines.ts';
import { RUNTIMES } from './runtime.ts';
import { pinImages } from './supplies.ts';

const PREFETCH_SERVICE = 'muster-prefetch.service';
const UNIT = `/etc/systemd/system/${PREFETCH_SERVICE}`;
const SCRIPT = '/etc/muster/prefetch.sh';

/** MiB that have to be free where images are kept, besides what they need. */
const FREE_MIB = 1024;

/** The images that a machine fetches ahead, as its runtime names them. */
export function aheadImages(
  resolved: ResolvedCluster,
  machine: ClusterMachine,
  { digestOf }: { readonly digestOf: (reference: string) => string | undefined },
): readonly string[] {
  const pinned = pinImages(resolved, digestOf);
  return [...podImages(pinned, machine), pinned.images.pause].map(nameInContainerd);
}

/** The digest by which a machine reports that it has the images. */
export const imagesList = (images: readonly string[]): string =>
  createHash('sha256').update(images.join('\n')).digest('hex').slice(0, 16);

const script = (runtime: ResolvedCluster['runtime'], images: readonly string[]): string => `#!/bin/sh
# Pulls images that this machine will need, and reports whether all of them are here.
set -u

# pull IMAGE: pulls the image unless it is here.
${PULL[runtime]}

report() {
  echo "${imagesList(images)} $1" >/run/muster/prefetched
}

free=$(df -Pk /var/lib/containerd /var/lib/containers 2>/dev/null | awk 'NR > 1 { print int($4 / 1024) }' |
  sort -n | head -n 1)
if [ "\${free:-${FREE_MIB}}" -lt ${FREE_MIB} ]; then
  report "failed only $free MiB are free for images"
  exit 1
fi
for image in ${images.join(' \\\n  ')}; do
  if ! pull "$image"; then
    report "failed $image cannot be pulled"
    exit 1
  fi
done
report ok
`;

const unit = (runtime: string): string =>
  sections(
    ['Unit', ['Description=Images that an upgrade needs, pulled by Muster ahead of it', `After=${runtime}`]],
    // The agent does not wait for it: it has to report meanwhile. Missing images are tried again.
    [
      'Service',
      [
        'Type=exec',
        'RemainAfterExit=yes',
        `ExecStart=/bin/sh ${SCRIPT}`,
        'Restart=on-failure',
        'RestartSec=30',
      ],
    ],
  );

/** The lines of the script and the unit, and the one that runs it once for each list. */
export function prefetchLines(resolved: ResolvedCluster, images: readonly string[]): readonly PlanLine[] {
  const files = [
    put(SCRIPT, script(resolved.runtime, images)),
    put(UNIT, unit(RUNTIMES[resolved.runtime].unit)),
  ];
  return [...files, { do: 'run', unit: PREFETCH_SERVICE, digest: digestOf(files, () => true) }];
}
