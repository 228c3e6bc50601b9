/**
 * What a change of documents changes for machines when they boot next, and not before: the image,
 * and what its first-boot configuration is made from. Pure.
 */
import { type Case, casesIn, sameCases } from '../../ignition/cases.ts';
import { narrowestDisk } from '../../resources/boot-disk.ts';
import type { CandidateSet } from '../../resources/candidate.ts';
import { imageOf } from './check-machines.ts';

export const NEXT_BOOT = ['image', 'boot', 'kernel-arguments', 'configuration', 'disks'] as const;
type Aspect = (typeof NEXT_BOOT)[number];

/** What changes on machines that change alike. */
export interface NextBoot {
  readonly machines: readonly string[];
  readonly changes: readonly Aspect[];
  /** Their system is on their disks, so they change when it is installed anew, and not before. */
  readonly installed?: true;
  /** Names of the Images, where they boot another one or other files of the same one. */
  readonly image?: { readonly from?: string | undefined; readonly to?: string | undefined };
}

const ASPECTS: Readonly<Record<Aspect, (one: Case) => unknown>> = {
  image: ({ image }) => image && [image.spec.kernel, image.spec.initrds, image.spec.root, image.spec.disk],
  boot: ({ profile }) => [profile?.spec.boot, profile?.spec.home],
  'kernel-arguments': ({ image, profile }) => [image?.spec.kernelArguments, profile?.spec.kernelArguments],
  configuration: ({ machine, profile, cluster, image }) => [
    machine.spec.config,
    profile?.spec.config,
    cluster?.spec.config,
    image?.spec.configFormat,
  ],
  disks: ({ machine, profile, cluster }) => {
    const layers = [machine.spec, profile?.spec, cluster?.spec];
    return (['dataDisk', 'etcdDisk', 'bootDisk'] as const).map((field) => narrowestDisk(field, layers));
  },
};

const isInstalled = (cases: readonly Case[]): boolean =>
  cases.length > 0 && cases.every(({ profile }) => profile?.spec.home === 'disk');

/** Whether two machines that may boot in these ways get the same. */
const same = (aspect: Aspect, a: readonly Case[], b: readonly Case[]): boolean =>
  JSON.stringify(a.map(ASPECTS[aspect])) === JSON.stringify(b.map(ASPECTS[aspect]));

/**
 * The differences, with machines that change alike together. Machines that stay as they are, or
 * that have no document before or after, are left out.
 */
export function nextBoots(
  before: CandidateSet,
  after: CandidateSet,
): (machines: Iterable<string>) => readonly NextBoot[] {
  const [was, will] = [casesIn(before), casesIn(after)];
  return (machines) => {
    const found = new Map<string, NextBoot & { readonly machines: string[] }>();
    for (const name of machines) {
      const [old, next] = [before.Machine.get(name)?.document, after.Machine.get(name)?.document];
      if (old === undefined || next === undefined) continue;
      const [a, b] = [was(old), will(next)];
      // Documents that did not change are the same objects.
      if (old === next && sameCases(a, b)) continue;
      const changes = NEXT_BOOT.filter((aspect) => !same(aspect, a, b));
      if (changes.length === 0) continue;
      const image = changes.includes('image')
        ? { image: { from: imageOf(a)?.metadata.name, to: imageOf(b)?.metadata.name } }
        : {};
      const home = isInstalled(a) && isInstalled(b) ? { installed: true as const } : {};
      const key = JSON.stringify([changes, image, home]);
      const alike = found.get(key) ?? { changes, ...home, ...image, machines: [] };
      alike.machines.push(name);
      found.set(key, alike);
    }
    return [...found.values()];
  };
}
