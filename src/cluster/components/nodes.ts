/**
 * Labels and taints of nodes, by groups of machines. A node registers with them. Labels that a
 * kubelet may not set, and later changes, are written by joining/node-keeper.ts.
 */

import { didYouMean } from '../../base/suggest.ts';
import type { KubernetesSpec } from '../../resources/kinds.ts';
import type { NodeFact } from '../../resources/node-facts.ts';
import { type ClusterFault, clusterFault } from '../model/fault.ts';
import type { ClusterMachine, NodeTaint } from '../model/resolved-cluster.ts';

type Groups = NonNullable<KubernetesSpec['nodes']>;
/** What a node gets. */
export type NodeSettings = Pick<ClusterMachine, 'labels' | 'taints'>;

/** Labels, taints and limits of a machine, from all groups that name it. */
export function nodeSettings(
  groups: Groups,
  machine: string,
): Pick<ClusterMachine, 'labels' | 'factLabels' | 'taints' | 'groups'> {
  const own = groups.filter(({ machines }) => machines.includes(machine));
  const labels = Object.assign({}, ...own.map((group) => group.labels ?? {})) as Record<string, string>;
  const factLabels = Object.assign({}, ...own.map((group) => group.labelsFromFacts ?? {})) as Record<
    string,
    NodeFact
  >;
  const taints = [...new Set(own.flatMap((group) => group.taints ?? []))].map(readTaint);
  const limited = groups.flatMap(({ machines, maxUnavailable, ...group }, n) =>
    maxUnavailable !== undefined && machines.includes(machine)
      ? [{ name: groupName(group, n), maxUnavailable }]
      : [],
  );
  return {
    ...(limited.length > 0 && { groups: limited }),
    ...(Object.keys(factLabels).length > 0 && { factLabels }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(taints.length > 0 && { taints }),
  };
}

/** A group as operators know it: its place in the document, with its labels or taints. */
function groupName(
  { labels = {}, taints = [] }: Pick<Groups[number], 'labels' | 'taints'>,
  n: number,
): string {
  const known = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  const shown = known.length > 0 ? known : taints;
  return `nodes[${n}]${shown.length > 0 ? ` (${shown.join(', ')})` : ''}`;
}

/** The taint in kubectl's form: `key=value:Effect` or `key:Effect`. */
export const taintText = ({ key, value, effect }: NodeTaint): string =>
  `${key}${value === undefined ? '' : `=${value}`}:${effect}`;

/** A node has one taint for each key and effect; the API refuses a node with two. */
export const taintPlace = ({ key, effect }: Partial<NodeTaint>): string => `${key}:${effect}`;

/** Reads `key=value:Effect` or `key:Effect`, the form that kubectl uses. */
function readTaint(text: string): NodeTaint {
  const [, key = '', value, effect = ''] = TAINT.exec(text) ?? [];
  return { key, ...(value && { value }), effect };
}

const EFFECTS: readonly string[] = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];
const TAINT = /^([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)$/;

/**
 * Matches a name that the API server accepts: at most 63 characters. A key is such a name,
 * optionally after a domain and a slash; a value is such a name or empty.
 */
const PART = /^[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
const DOMAIN = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/**
 * Faults of the groups. `machines`: the cluster's machines that have a node; `workers`: those of
 * them that are no control planes.
 */
export function nodeFaults(
  groups: Groups,
  machines: ReadonlySet<string>,
  workers: ReadonlySet<string>,
): readonly ClusterFault[] {
  const found: ClusterFault[] = [];
  const say = (path: string, message: string, severity: ClusterFault['severity'] = 'error'): void => {
    found.push(clusterFault(severity, `nodes${path}`, message));
  };
  const given = new Map<string, string>();
  for (const [n, group] of groups.entries()) {
    const { machines: names, labels = {}, labelsFromFacts = {}, taints = [], maxUnavailable } = group;
    if (maxUnavailable !== undefined && !names.some((name) => workers.has(name)))
      say(
        `[${n}].maxUnavailable`,
        'no machine of the group is a worker, so it has no effect: control planes go down one after the other',
        'warning',
      );
    for (const [m, name] of names.entries()) {
      // This is only a warning, because a group may still name a machine that left the cluster.
      if (!machines.has(name))
        say(
          `[${n}].machines[${m}]`,
          `${name} is not a node of this cluster${didYouMean(name, machines)}`,
          'warning',
        );
      const facts = Object.entries(labelsFromFacts).map(([key, fact]) => [key, `the fact ${fact}`] as const);
      for (const [key, value] of [...Object.entries(labels), ...facts]) {
        const before = given.get(`${name} ${key}`);
        if (before !== undefined && before !== value)
          say(
            `[${n}].labels`,
            `another group already gives ${name} the label ${key}: ${before}; give it one value`,
          );
        given.set(`${name} ${key}`, value);
      }
    }
    for (const [key, value] of Object.entries(labels))
      for (const message of labelFaults(key, value)) say(`[${n}].labels`, message);
    for (const key of Object.keys(labelsFromFacts))
      for (const message of labelFaults(key, '')) say(`[${n}].labelsFromFacts`, message);
    for (const [t, text] of taints.entries()) {
      for (const message of taintFaults(text)) say(`[${n}].taints[${t}]`, message);
      const place = taintPlace(readTaint(text));
      for (const name of names) {
        const before = given.get(`${name} taint ${place}`);
        if (before !== undefined && before !== text)
          say(
            `[${n}].taints[${t}]`,
            `${name} already has the taint ${before}, and a node has one for each key and effect; keep one`,
          );
        given.set(`${name} taint ${place}`, text);
      }
    }
  }
  return found;
}

function keyFault(key: string): string | undefined {
  const slash = key.indexOf('/');
  const good = PART.test(key.slice(slash + 1)) && (slash < 0 || DOMAIN.test(key.slice(0, slash)));
  return good
    ? undefined
    : `"${key}" is not the name of a label: letters, digits and - _ . (at most 63), optionally after a domain and /`;
}

const valueFault = (value: string): string | undefined =>
  value === '' || PART.test(value)
    ? undefined
    : `"${value}" is not the value of a label: letters, digits and - _ . (at most 63), beginning and ending with a letter or digit`;

const present = (faults: readonly (string | undefined)[]): readonly string[] =>
  faults.filter((fault) => fault !== undefined);

const labelFaults = (key: string, value: string): readonly string[] =>
  present([keyFault(key) ?? reserved(key), valueFault(value)]);

function taintFaults(text: string): readonly string[] {
  if (!TAINT.test(text))
    return [`"${text}" is not a taint: key=value:Effect or key:Effect; effects are ${EFFECTS.join(', ')}`];
  const taint = readTaint(text);
  return present([...taintPartsFaults(taint), controlledFault(taint.key)]);
}

/**
 * Taints that kube-controller-manager sets by the state of a node, and removes otherwise
 * (k8s.io/api/core/v1/well_known_taints.go).
 */
const CONTROLLED =
  /^node\.kubernetes\.io\/(not-ready|unreachable|unschedulable|network-unavailable|(memory|disk|pid)-pressure)$/;

const controlledFault = (key: string): string | undefined =>
  CONTROLLED.test(key)
    ? `Kubernetes sets and removes the taint ${key} by the state of the node; choose a key of your own`
    : undefined;

/** Faults of a taint as kubelet's configuration has it. */
export const taintPartsFaults = ({
  key = '',
  value = '',
  effect = '',
}: {
  readonly key?: string;
  readonly value?: string;
  readonly effect?: string;
}): readonly string[] =>
  present([
    keyFault(key),
    valueFault(value),
    EFFECTS.includes(effect) ? undefined : `"${effect}" is not an effect; use ${EFFECTS.join(', ')}`,
  ]);

/**
 * Kubernetes labels that a kubelet may set on its node but does not set by itself (kubelet's
 * pkg/apis/well_known_labels.go).
 */
const GIVEN = ['topology.kubernetes.io/zone', 'topology.kubernetes.io/region'];
/** Labels that a kubelet sets again at each start. */
const ITS_OWN = /^(beta\.)?kubernetes\.io\/(os|arch|hostname)$/;
/** The label that follows from the role. */
const OF_THE_ROLE = 'node-role.kubernetes.io/control-plane';

function reserved(key: string): string | undefined {
  if (ITS_OWN.test(key)) return `${key} is set by kubelet itself at each start`;
  return key === OF_THE_ROLE ? `${key} follows from the list controlPlanes` : undefined;
}

/**
 * Whether a kubelet may set the label. With another label of Kubernetes it does not start, and
 * NodeRestriction would refuse it.
 */
function isKubelets(key: string): boolean {
  const domain = key.includes('/') ? key.slice(0, key.indexOf('/')) : '';
  const within = (suffix: string): boolean => domain === suffix || domain.endsWith(`.${suffix}`);
  if (!within('kubernetes.io') && !within('k8s.io')) return true;
  return GIVEN.includes(key) || within('node.kubernetes.io') || within('kubelet.kubernetes.io');
}

/** Labels of Kubernetes that a kubelet may name in its flag, beside {@link isKubelets}. */
const WELL_KNOWN =
  /^((beta\.)?kubernetes\.io\/(os|arch|hostname|instance-type)|failure-domain\.beta\.kubernetes\.io\/(zone|region))$/;

/** Faults of a text for kubelet's flag `node-labels`, with which it would end as it starts. */
export const labelsFlagFaults = (text: string): readonly string[] =>
  text
    .split(',')
    .filter((pair) => pair !== '')
    .flatMap((pair) => {
      const [, key = '', value = ''] = /^([^=]*)=?(.*)$/.exec(pair) ?? [];
      if (!isKubelets(key) && !WELL_KNOWN.test(key))
        return [`kubelet may not set the label ${key}, and ends; give it to nodes by nodes[].labels`];
      return present([keyFault(key), valueFault(value)]);
    });

/**
 * The value of kubelet's flag `node-labels`: the labels that the Cluster gives all nodes (`given`),
 * and those of this machine that a kubelet may set.
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
