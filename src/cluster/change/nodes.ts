/** What the boot host does to a node that is being changed: drains it, and takes it back. */
import { firstFew } from '../../base/first-few.ts';
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import { CORDONED } from '../health/observe.ts';
import { hasCondition, ifThere, type Kube } from '../kube.ts';
import { drain } from './drain.ts';

/** What the API shows of a node that is being changed. */
export interface NodeSeen {
  /** Whether nothing is left on it that has to be evicted. */
  readonly drained: boolean;
  /** What it waits for, for people. */
  readonly text?: string;
  /** Why its pods cannot be evicted now: a budget does not allow it. */
  readonly kept?: string;
  /** Whether it is Ready, schedulable again, and the pods of its DaemonSets run. */
  readonly back: boolean;
  /** It takes pods again and gives its turn back, because no machine may begin now. */
  readonly yields?: true;
  /** Its machine is restarted through its BMC, or starts after that: its silence is expected. */
  readonly restarts?: true;
  /** Why its machine does not come back, although it was restarted. */
  readonly hangs?: string;
}

/** What a node has to run before it takes pods again; an absent field is not looked at. */
export interface Wanted {
  /** The version of its kubelet, e.g. 1.36.3. */
  readonly kubelet?: string;
  /** The kernel's boot id that its kubelet reports. */
  readonly bootId?: string;
}

const nodePath = (node: string): string => `/api/v1/nodes/${encodeURIComponent(node)}`;

/** A node as the API shows it. */
export interface Node {
  readonly unschedulable: boolean;
  readonly cordonedBy: string | undefined;
  readonly ready: boolean;
  readonly kubelet: string;
  readonly bootId: string;
}

/** Reads a node; undefined when the API has none of this name. */
export async function readNode(kube: Kube, name: string): Promise<Node | undefined> {
  const found = await kube(nodePath(name)).catch(ifThere);
  return found && nodeOf(found.body);
}

function nodeOf(body: unknown): Node {
  const { metadata, spec, status } = fieldsOf(body);
  const annotations = fieldsOf(fieldsOf(metadata).annotations);
  const { nodeInfo } = fieldsOf(status);
  return {
    unschedulable: fieldsOf(spec).unschedulable === true,
    cordonedBy: annotations[CORDONED] === undefined ? undefined : textOf(annotations[CORDONED]),
    ready: hasCondition(status, 'Ready'),
    kubelet: textOf(fieldsOf(nodeInfo).kubeletVersion),
    bootId: textOf(fieldsOf(nodeInfo).bootID),
  };
}

const patch = (kube: Kube, name: string, body: object): Promise<unknown> =>
  kube(nodePath(name), { method: 'PATCH', body, contentType: 'application/merge-patch+json' });

/**
 * One round of draining. The node is marked first, unless an operator has made it unschedulable: it
 * then stays so afterwards.
 */
export async function drainRound(kube: Kube, name: string, change: string): Promise<NodeSeen> {
  const node = await readNode(kube, name);
  if (node === undefined) return { drained: true, back: false, text: 'the API has no node of its name' };
  if (!node.unschedulable) await patch(kube, name, { metadata: { annotations: { [CORDONED]: change } } });
  const { left, kept } = await drain(kube, name);
  if (left.length === 0) return { drained: true, back: false };
  const text = `pods are still on it: ${firstFew(left)}`;
  const budget = kept.length === left.length ? { kept: `budgets keep ${firstFew(kept)}` } : {};
  return { drained: false, back: false, text, ...budget };
}

/**
 * Makes a node schedulable again that a change had made unschedulable. Resolves with whether the
 * API has such a node.
 */
export async function uncordon(kube: Kube, name: string): Promise<boolean> {
  const node = await readNode(kube, name);
  if (node?.cordonedBy !== undefined)
    await patch(kube, name, {
      metadata: { annotations: { [CORDONED]: null } },
      spec: { unschedulable: null },
    });
  return node !== undefined;
}

/** The nodes whose kubelet reports that their disk is almost full. */
export async function fullNodes(kube: Kube): Promise<readonly string[]> {
  const { body } = await kube('/api/v1/nodes');
  return listOf(fieldsOf(body).items).flatMap((item) => {
    const { metadata, status } = fieldsOf(item);
    return hasCondition(status, 'DiskPressure') ? [textOf(fieldsOf(metadata).name)] : [];
  });
}

/** All nodes of the API, by name. */
export async function readNodes(kube: Kube): Promise<ReadonlyMap<string, Node>> {
  const { body } = await kube('/api/v1/nodes');
  return new Map(
    listOf(fieldsOf(body).items).map((item) => [
      textOf(fieldsOf(fieldsOf(item).metadata).name),
      nodeOf(item),
    ]),
  );
}

/** Makes all nodes schedulable again that this change had made unschedulable. */
export async function uncordonAll(kube: Kube, change: string): Promise<void> {
  const { body } = await kube('/api/v1/nodes');
  for (const { metadata } of listOf(fieldsOf(body).items).map(fieldsOf)) {
    const { name, annotations } = fieldsOf(metadata);
    if (fieldsOf(annotations)[CORDONED] === change) await uncordon(kube, textOf(name));
  }
}

/**
 * Takes a node back into use when it is Ready and runs what is wanted, and looks whether the pods
 * of its DaemonSets run.
 */
export async function takeBack(kube: Kube, name: string, wanted: Wanted): Promise<NodeSeen> {
  const node = await readNode(kube, name);
  const waiting = (text: string): NodeSeen => ({ drained: true, back: false, text });
  if (node === undefined) return waiting('the API has no node of its name yet');
  // The API shows a node Ready for a while after its machine went down.
  if (wanted.bootId !== undefined && node.bootId !== wanted.bootId)
    return waiting('its kubelet has not reported since the machine booted');
  if (!node.ready) return waiting('its node is not Ready');
  // A vendor's build adds to the version, e.g. v1.36.3+build.
  const kubelet = node.kubelet.replace(/^v/, '').replace(/[+-].*/, '');
  if (wanted.kubelet !== undefined && kubelet !== wanted.kubelet)
    return waiting(`the API still shows kubelet ${node.kubelet}`);
  await uncordon(kube, name);
  const starting = await podsThatStart(kube, name);
  return starting.length === 0
    ? { drained: true, back: true }
    : waiting(`pods of DaemonSets are not ready: ${firstFew(starting)}`);
}

/** Pods of DaemonSets on the node that are not Ready. */
async function podsThatStart(kube: Kube, node: string): Promise<readonly string[]> {
  const { body } = await kube(`/api/v1/pods?fieldSelector=spec.nodeName%3D${encodeURIComponent(node)}`);
  return listOf(fieldsOf(body).items)
    .map(fieldsOf)
    .filter(({ metadata, status }) => {
      const ofDaemonSet = listOf(fieldsOf(metadata).ownerReferences)
        .map(fieldsOf)
        .some(({ kind }) => kind === 'DaemonSet');
      return ofDaemonSet && !hasCondition(status, 'Ready');
    })
    .map(({ metadata }) => `${textOf(fieldsOf(metadata).namespace)}/${textOf(fieldsOf(metadata).name)}`);
}
