/**
 * Values of flags and fields of configurations, with what the component itself does and what Muster
 * says, by version. `kubelet-config` is kubelet's configuration; kube-proxy has no flags of its
 * own here. test/peers/component-values.test.ts holds the lists against the components.
 */
import { readFileSync } from 'node:fs';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';
import { faults } from '../kit.ts';

type Overrides = NonNullable<KubernetesSpec['overrides']>;

export const JUDGED = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kubelet-config',
  'kube-proxy',
  'etcd',
] as const;
export type Judged = (typeof JUDGED)[number];

export type Value = Readonly<Record<string, unknown>>;

/** In one version: `starts` or `ends`, and `accepted`, `warned` or `refused`. */
interface Known {
  readonly component: string;
  readonly muster: string;
}

interface ValueLine {
  readonly value: Value;
  readonly known: ReadonlyMap<string, Known>;
  /** The last words of a component that ends, or why Muster refuses what a component takes. */
  readonly note: string;
}

/** The list of a component; its first line names the versions. */
export function valuesOf(component: Judged): readonly ValueLine[] {
  const text = readFileSync(`test/golden/component-values/${component}.tsv`, 'utf8');
  const [head = '', ...lines] = text.trim().split('\n');
  const versions = head.split('\t').slice(1, -1);
  return lines.map((line) => {
    const [value = '', ...cells] = line.split('\t');
    const known = versions.flatMap((version, n): [string, Known][] => {
      const [component = '', muster = ''] = (cells[n] ?? '-').split(' ');
      return component === '-' ? [] : [[version, { component, muster }]];
    });
    return {
      value: JSON.parse(value) as Value,
      known: new Map(known),
      note: cells[versions.length] ?? '',
    };
  });
}

/** The overrides of a Cluster with these values. */
export const overridesOf = (component: string, value: Value): Overrides => {
  if (component === 'kubelet-config') return { kubelet: { config: value } };
  return component === 'kube-proxy' ? { kubeProxy: { config: value } } : { flags: { [component]: value } };
};

/** What Muster says to a value; etcd's version follows from the one of Kubernetes. */
export function verdictOf(component: Judged, version: string, value: Value): Known['muster'] {
  const cluster = component === 'etcd' ? '1.36' : version;
  const found = faults({ version: cluster, overrides: overridesOf(component, value) });
  if (found.some((one) => /^error (overrides|networks)\./.test(one))) return 'refused';
  return found.length > 0 ? 'warned' : 'accepted';
}
