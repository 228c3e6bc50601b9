/**
 * What ends with the next minor version of Kubernetes, or soon after it: objects of APIs that it
 * does not serve, and programs beside it.
 */
import { fieldsOf, listOf } from '../../../base/foreign-json.ts';
import { API_VERSIONS } from '../../components/flags.ts';
import { ifThere, type Kube } from '../../kube.ts';
import { minorOf, parseVersion } from '../../model/versions.ts';
import type { RunningMachine } from '../../resolve/release.ts';

/** Group → the versions that a minor version of Kubernetes registers. */
const versionsIn = (minor: string): ReadonlyMap<string, readonly string[]> =>
  new Map([...API_VERSIONS].map(([group, known]) => [group, known.get(minor) ?? []]));

/** The resources of an API that can be listed; none where it is not served. */
async function listable(kube: Kube, api: string): Promise<readonly string[]> {
  const answer = await kube(`/apis/${api}`).catch(ifThere);
  return listOf(fieldsOf(answer?.body).resources).flatMap((one) => {
    const { name, verbs } = fieldsOf(one);
    return typeof name === 'string' && listOf(verbs).includes('list') ? [name] : [];
  });
}

/**
 * The resources of which there are objects, and which no version of their group serves that both
 * releases have: the newer API server could not read them.
 *
 * @param from The version of the API servers that run, and `to` of those that follow them.
 */
export async function objectsThatEnd(kube: Kube, from: string, to: string): Promise<readonly string[]> {
  const [old, next] = [versionsIn(minorOf(from)), versionsIn(minorOf(to))];
  const found: string[] = [];
  for (const [group, versions] of old) {
    const kept = versions.filter((version) => next.get(group)?.includes(version));
    const ended = versions.filter((version) => !kept.includes(version));
    if (ended.length === 0) continue;
    const served = await Promise.all(kept.map((version) => listable(kube, `${group}/${version}`)));
    for (const version of ended)
      for (const name of await listable(kube, `${group}/${version}`)) {
        if (served.flat().includes(name)) continue;
        const { body } = await kube(`/apis/${group}/${version}/${name}?limit=1`);
        if (listOf(fieldsOf(body).items).length > 0) found.push(`${group}/${version}/${name}`);
      }
  }
  return found;
}

/** kubelet talks to containerd 1 until this minor version (KEP 4033). */
const NEEDS_CONTAINERD_2 = 38;

/** Machine → what has to change on it before the minor version after this one. */
export function endsSoon(
  machines: ReadonlyMap<string, RunningMachine>,
  to: string,
): Readonly<Record<string, string>> {
  if (parseVersion(to)![1] + 1 < NEEDS_CONTAINERD_2) return {};
  const old = [...machines].flatMap(([name, { versions }]): [string, string][] =>
    versions.containerd?.startsWith('1.')
      ? [
          [
            name,
            `containerd ${versions.containerd} runs, and Kubernetes 1.${NEEDS_CONTAINERD_2} needs containerd 2`,
          ],
        ]
      : [],
  );
  return Object.fromEntries(old);
}
