/**
 * kubelet's flags that set a field of its configuration. A flag wins over the field, so what is
 * asked of a kubelet is asked of both together.
 */

import type { ClusterMachine, ResolvedCluster, Value } from '../model/resolved-cluster.ts';
import { goMilliseconds, goTruth, listed, wholeNumber } from './flag-values.ts';
import { rowsOf } from './tables.ts';

type Config = ResolvedCluster['kubelet']['config'];
type Reader = (text: string) => Value | undefined;

const pairs =
  (between: string): Reader =>
  (text) =>
    Object.fromEntries(
      listed(text).map((pair) => {
        const at = pair.indexOf(between);
        return at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
      }),
    );

/** How a flag's text becomes the value of its field; undefined for a text that is no such value. */
const READERS = {
  text: (text) => text,
  truth: goTruth,
  whole: (text) => {
    const number = wholeNumber(text);
    return number === undefined ? undefined : Number(number);
  },
  duration: (text) => (goMilliseconds(text) === undefined ? undefined : text),
  texts: listed,
  pairs: pairs('='),
  thresholds: pairs('<'),
  taints: (text) =>
    listed(text).map((part) => {
      const [, key = '', value, effect = ''] = /^([^=:]*)(?:=([^:]*))?(?::(.*))?$/.exec(part) ?? [];
      return { key, ...(value !== undefined && { value }), effect };
    }),
} as const satisfies Readonly<Record<string, Reader>>;

/** kubelet's flags that set a field of its configuration. */
const FLAGS: ReadonlyMap<string, { readonly field: string; readonly reads: Reader }> = new Map(
  rowsOf('sets').map(({ name, words: [field = '', reader = ''] }) => [
    name,
    { field, reads: READERS[reader as keyof typeof READERS] },
  ]),
);

/** The parts of `kubelet`: for every machine, and what control planes have besides. */
export const KUBELET_PARTS = ['config', 'controlPlaneConfig'] as const;
export type KubeletPart = (typeof KUBELET_PARTS)[number];

export interface EffectiveKubelet {
  readonly config: Config;
  /** Field → the flag that set it. */
  readonly flags: ReadonlyMap<string, string>;
}

/** The configuration of the kubelets with this `part`, with the fields that flags set. */
export function effectiveKubelet(
  { kubelet, flags }: Pick<ResolvedCluster, 'kubelet' | 'flags'>,
  part: KubeletPart,
): EffectiveKubelet {
  const config: Record<string, Value> = {
    ...kubelet.config,
    ...(part === 'controlPlaneConfig' && kubelet.controlPlaneConfig),
  };
  const by = new Map<string, string>();
  for (const [flag, given] of Object.entries(flags.kubelet)) {
    const of = FLAGS.get(flag);
    const text = [given].flat().at(-1);
    const value = of && typeof text === 'string' ? of.reads(text) : undefined;
    if (of === undefined || value === undefined) continue;
    config[of.field] = value;
    by.set(of.field, flag);
  }
  return { config, flags: by };
}

/** Whether the kubelet of this machine starts although the machine has swap. */
export function takesSwap(resolved: ResolvedCluster, { roles }: ClusterMachine): boolean {
  const part = roles.includes('control-plane') ? 'controlPlaneConfig' : 'config';
  return effectiveKubelet(resolved, part).config.failSwapOn === false;
}
