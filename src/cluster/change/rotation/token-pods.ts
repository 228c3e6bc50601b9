/** Names the pods that still have a token of an old service-account key. */
import { MAX_TOKEN_PODS } from '../../../agent/wire/evidence.ts';
import { fieldsOf, listOf, textOf } from '../../../base/foreign-json.ts';
import type { Kube } from '../../kube.ts';
import type { MachineSeen } from '../step.ts';

/** So many machines are asked about at most, because each costs a request. */
const MOST_MACHINES = 20;

/**
 * Machine → its pods with tokens of these keys, as `NAMESPACE/NAME`, or by UID where the API does
 * not know the pod. A machine with so many that its agent names only some is left out.
 */
export async function podsWithTokensOf(
  kids: readonly string[],
  machines: readonly MachineSeen[],
  kube: () => Promise<Kube>,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const named = machines.flatMap(({ name, facts }): [string, readonly string[]][] => {
    const byKey = kids.map((kid) => facts?.evidence?.tokenPods?.get(kid) ?? []);
    const uids = [...new Set(byKey.flat())];
    return uids.length === 0 || byKey.some((some) => some.length >= MAX_TOKEN_PODS) ? [] : [[name, uids]];
  });
  if (named.length === 0) return new Map();
  const api = await kube();
  return new Map(
    await Promise.all(
      named.slice(0, MOST_MACHINES).map(async ([machine, uids]) => {
        const names = await namesOf(api, machine);
        return [machine, uids.map((uid) => names.get(uid) ?? uid).sort()] as const;
      }),
    ),
  );
}

/** UID → `NAMESPACE/NAME` of the pods on a node. The UID of a static pod is in its annotation. */
async function namesOf(api: Kube, node: string): Promise<ReadonlyMap<string, string>> {
  const { body } = await api(`/api/v1/pods?fieldSelector=spec.nodeName%3D${encodeURIComponent(node)}`);
  return new Map(
    listOf(fieldsOf(body).items).map((pod) => {
      const { uid, namespace, name, annotations } = fieldsOf(fieldsOf(pod).metadata);
      const ownUid = textOf(fieldsOf(annotations)['kubernetes.io/config.hash']) || textOf(uid);
      return [ownUid, `${textOf(namespace)}/${textOf(name)}`];
    }),
  );
}
