/**
 * What a change of documents changes for machines when they boot next, and not before: the image,
 * and what its first-boot configuration is made from. Pure.
 */
import { type Case, casesIn } from '../../ignition/cases.ts';
import { narrowestDisk } from '../../resources/boot-disk.ts';
import type { CandidateSet } from '../../resources/candidate.ts';

export const NEXT_BOOT = ['image', 'boot', 'kernel-arguments', 'configuration', 'disks'] as const;
type Aspect = (typeof NEXT_BOOT)[number];

/** What changes on machines that change alike. */
export interface NextBoot {
  readonly machines: readonly string[];
  readonly changes: readonly Aspect[];
  /** Names of the Images, where they boot another one or other files of the same one. */
  readonly image?: { readonly from?: string | undefined; readonly to?: string | undefined };
}

const ASPECTS: Readonly<Record<Aspect, (one: Case) => unknown>> = {
  image: ({ image }) => image && [image.spec.kernel, image.spec.initrds, image.spec.root],
  boot: ({ profile }) => [profile?.spec.boot, profile?.spec.run],
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

/** Whether two machines that may boot in these ways get the same. */
const same = (aspect: Aspect, a: readonly Case[], b: readonly Case[]): boolean =>
  JSON.stringify(a.map(ASPECTS[aspect])) === JSON.stringify(b.map(ASPECTS[aspect]));

/** The name of the Image; undefined when the machine boots none, or one of several. */
function imageOf(cases: readonly Case[]): string | undefined {
  const names = new Set(cases.map(({ image }) => image?.metadata.name));
  return names.size === 1 ? [...names][0] : undefined;
}

/**
 * The differences, with machines that change alike together. Machines that stay as they are, or
 * that have no document before or after, are left out.
 */
export function nextBoots(
  machines: Iterable<string>,
  before: CandidateSet,
  after: CandidateSet,
): readonly NextBoot[] {
  const [was, will] = [casesIn(before), casesIn(after)];
  const found = new Map<string, NextBoot>();
  for (const name of machines) {
    const [old, next] = [before.Machine.get(name)?.document, after.Machine.get(name)?.document];
    if (old === undefined || next === undefined) continue;
    const [a, b] = [was(old), will(next)];
    const changes = NEXT_BOOT.filter((aspect) => !same(aspect, a, b));
    if (changes.length === 0) continue;
    const image = changes.includes('image') ? { image: { from: imageOf(a), to: imageOf(b) } } : {};
    const key = JSON.stringify([changes, image]);
    found.set(key, { changes, ...image, machines: [...(found.get(key)?.machines ?? []), name] });
  }
  return [...found.values()];
}
