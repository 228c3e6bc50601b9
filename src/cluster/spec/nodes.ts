/**
 * Labels and taints of nodes, by groups of machines. A node registers with them;
 * joining/node-keeper.ts brings what a kubelet may not say, and what changes.
 */

import { didYouMean } from '../../base/suggest.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import { type ClusterFault, clusterFault } from './fault.ts';
import type { ClusterMachine, NodeTaint } from './resolved-cluster.ts';

type Groups = NonNullable<KubernetesSpec['nodes']>;
export type NodeSettings = Pick<ClusterMachine, 'labels' | 'taints'>;

/** Of one machine, from all groups that name it. Nothing where none does. */
export function nodeSettings(groups: Groups, machine: string): NodeSettings {
  const own = groups.filter(({ machines }) => machines.includes(machine));
  const labels = Object.assign({}, ...own.map((group) => group.labels ?? {})) as Record<string, string>;
  const taints = [...new Set(own.flatMap((group) => group.taints ?? []))].map(readTaint);
  return {
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(taints.length > 0 && { taints }),
  };
}

export const taintText = ({ key, value, effect }: NodeTaint): string =>
  `${key}${value === undefined ? '' : `=${value}`}:${effect}`;

/** `key=value:Effect` or `key:Effect`, as kubectl has it. */
function readTaint(text: string): NodeTaint {
  const [, key = '', value, effect = ''] = TAINT.exec(text) ?? [];
  return { key, ...(value && { value }), effect };
}

const TAINT = /^([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)$/;

/**
 * What the API server takes: a name of at most 63, after a domain and a slash if there is one; a
 * value may be empty.
 */
const PART = /^[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
const DOMAIN = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** Faults of the groups, which name machines by `machines`: those that are nodes. */
export function nodeFaults(groups: Groups, machines: ReadonlySet<string>): readonly ClusterFault[] {
  const found: ClusterFault[] = [];
  const say = (path: string, message: string, severity: ClusterFault['severity'] = 'error'): void => {
    found.push(clusterFault(severity, `nodes${path}`, message));
  };
  const given = new Map<string, string>();
  for (const [n, { machines: names, labels = {}, taints = [] }] of groups.entries()) {
    for (const [m, name] of names.entries()) {
      // No more than a warning: a machine that is taken out is still named here.
      if (!machines.has(name))
        say(
          `[${n}].machines[${m}]`,
          `${name} is no node of this cluster${didYouMean(name, machines)}`,
          'warning',
        );
      for (const [key, value] of Object.entries(labels)) {
        const before = given.get(`${name} ${key}`);
        if (before !== undefined && before !== value)
          say(`[${n}].labels`, `${name} has ${key}: ${before} already, from another group`);
        given.set(`${name} ${key}`, value);
      }
    }
    for (const [key, value] of Object.entries(labels))
      for (const message of labelFaults(key, value)) say(`[${n}].labels`, message);
    for (const [t, text] of taints.entries())
      for (const message of taintFaults(text)) say(`[${n}].taints[${t}]`, message);
  }
  return found;
}

function keyFault(key: string): string | undefined {
  const slash = key.indexOf('/');
  const good = PART.test(key.slice(slash + 1)) && (slash < 0 || DOMAIN.test(key.slice(0, slash)));
  return good
    ? undefined
    : `"${key}" is no name of a label: letters, digits, - _ . and at most 63, after a domain and / if you like`;
}

const valueFault = (value: string): string | undefined =>
  value === '' || PART.test(value)
    ? undefined
    : `"${value}" is no value of a label: letters, digits, - _ . and at most 63, beginning and ending with a letter or digit`;

const present = (faults: readonly (string | undefined)[]): readonly string[] =>
  faults.filter((fault) => fault !== undefined);

const labelFaults = (key: string, value: string): readonly string[] =>
  present([keyFault(key) ?? reserved(key), valueFault(value)]);

function taintFaults(text: string): readonly string[] {
  if (!TAINT.test(text))
    return [
      `"${text}" is no taint: key=value:Effect or key:Effect; effects are NoSchedule, PreferNoSchedule, NoExecute`,
    ];
  const { key, value = '' } = readTaint(text);
  return present([keyFault(key), valueFault(value)]);
}

/**
 * Labels of Kubernetes that a kubelet may give its node, and does not itself (kubelet's
 * pkg/apis/well_known_labels.go).
 */
const GIVEN = ['topology.kubernetes.io/zone', 'topology.kubernetes.io/region'];
/** Those that it writes again at each start. */
const ITS_OWN = /^(beta\.)?kubernetes\.io\/(os|arch|hostname)$/;
/** By the role. */
const OF_THE_ROLE = 'node-role.kubernetes.io/control-plane';

function reserved(key: string): string | undefined {
  if (ITS_OWN.test(key)) return `${key} is what kubelet says of its machine; it would write it again`;
  return key === OF_THE_ROLE ? `${key} follows from the list controlPlanes` : undefined;
}

/** kubelet does not start with others of Kubernetes' own, and NodeRestriction would refuse them. */
function isKubelets(key: string): boolean {
  const domain = key.includes('/') ? key.slice(0, key.indexOf('/')) : '';
  const within = (suffix: string): boolean => domain === suffix || domain.endsWith(`.${suffix}`);
  if (!within('kubernetes.io') && !within('k8s.io')) return true;
  return GIVEN.includes(key) || within('node.kubernetes.io') || within('kubelet.kubernetes.io');
}

/**
 * The flag `node-labels` of a kubelet, with what the Cluster gives all of them: as far as a kubelet
 * may say them.
 */
export function labelsFlag(
  given: string | readonly string[] | undefined,
  labels: Readonly<Record<string, string>>,
): string {
  const own = Object.entries(labels)
    .filter(([key]) => isKubelets(key))
    .map(([key, value]) => `${key}=${value}`);
  return [...[given ?? []].flat(), ...own.sort()].join(',');
}
