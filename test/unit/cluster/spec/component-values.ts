/**
 * Values of flags and fields of configurations, by what Kubernetes 1.36 does with them. Each line
 * has the component, or `kubelet-config` for fields of kubelet's configuration, and the values.
 */
import { readFileSync } from 'node:fs';
import type { KubernetesSpec } from '../../../../src/resources/kinds.ts';

type Overrides = NonNullable<KubernetesSpec['overrides']>;
type ComponentValue = readonly [component: string, value: Readonly<Record<string, unknown>>];

const linesIn = (file: string): readonly ComponentValue[] =>
  readFileSync(`test/golden/component-values/${file}.txt`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [component = '', value = ''] = line.trim().split(/ (.*)/s);
      return [component, JSON.parse(value) as Record<string, unknown>];
    });

/** The overrides of a Cluster with these values. */
export const overridesOf = (component: string, value: Readonly<Record<string, unknown>>): Overrides => {
  if (component === 'kubelet-config') return { kubelet: { config: value } };
  return component === 'kube-proxy' ? { kubeProxy: { config: value } } : { flags: { [component]: value } };
};

/** The component ends with these as soon as it has read them. */
export const WRONG = linesIn('wrong');

/** The component ends with these later, they have no effect, or the cluster does not work. */
export const WRONG_LATER = linesIn('wrong-later');

/** The component starts with these. */
export const RIGHT = linesIn('right');
