/** Checks of mirrors, logins and CAs of registries against each other and the container runtime. */
import { pathFault } from '../../resources/registry-spec.ts';
import { type ClusterFault, clusterError, clusterFault } from '../model/fault.ts';
import type { RegistryAccess, ResolvedCluster } from '../model/resolved-cluster.ts';
import { compareVersions } from '../model/versions.ts';

type Checked = Pick<ResolvedCluster, 'registries' | 'mirrors' | 'runtime' | 'versions'>;

/** What would have no effect on a machine, or another one than is meant. */
export function registryFaults(resolved: Checked): readonly ClusterFault[] {
  return [
    ...unreachable(resolved),
    ...contradictions(resolved),
    ...ofRuntime(resolved),
    ...ofPaths(resolved),
  ];
}

/** A registry that may not be asked, and has no mirror. */
const unreachable = ({ registries, mirrors }: Checked): readonly ClusterFault[] =>
  registries.flatMap((one, n) =>
    one.upstream || one.mirrors.length > 0 || mirrors.length > 0
      ? []
      : [
          clusterError(
            `registries[${n}].upstream`,
            `${one.registry} itself is never asked, and nothing else is; name a mirror`,
          ),
        ],
  );

/**
 * Both runtimes have one CA and one login for each host, whatever registry they ask there for; so a
 * second one would replace the first.
 */
function contradictions({ registries }: Checked): readonly ClusterFault[] {
  const found: ClusterFault[] = [];
  const known = new Map<string, { readonly at: string; readonly text: string }>();
  const check = (host: string, one: RegistryAccess, at: string) => {
    for (const what of ['ca', 'login'] as const) {
      const text = JSON.stringify(one[what]);
      if (text === undefined) continue;
      const key = `${what} ${host}`;
      const other = known.get(key);
      if (other === undefined) known.set(key, { at, text });
      else if (other.text !== text)
        found.push(
          clusterError(
            `${at}.${what}`,
            `${host} has another ${what} at ${other.at}, and container runtimes have one for each host; write the same at both`,
          ),
        );
    }
  };
  for (const [n, one] of registries.entries()) {
    check(one.registry, one, `registries[${n}]`);
    for (const [k, mirror] of one.mirrors.entries())
      check(new URL(mirror.url).host, mirror, `registries[${n}].mirrors[${k}]`);
  }
  return found;
}

/**
 * A path of `mirrors` without /v2, which containerd and CRI-O read in two ways. Where nothing
 * answers, the next host is asked, so that nobody notices.
 */
const ofPaths = ({ mirrors }: Checked): readonly ClusterFault[] =>
  mirrors.flatMap((url, n) => {
    const message = pathFault(new URL(url));
    return message === undefined ? [] : [clusterFault('warning', `mirrors[${n}]`, message)];
  });

/** CRI-O adds /v2 right behind the host, so an API below a path is out of its reach. */
const isBelowPath = (url: string): boolean => /^\/.+\/v2(\/|$)/.test(new URL(url).pathname);

function ofRuntime({ registries, mirrors, runtime, versions }: Checked): readonly ClusterFault[] {
  const all = [
    ...mirrors.map((url, n) => ({ url, at: `mirrors[${n}]` })),
    ...registries.flatMap((one, n) =>
      one.mirrors.map(({ url }, k) => ({ url, at: `registries[${n}].mirrors[${k}].url` })),
    ),
  ];
  if (runtime === 'cri-o')
    return all.flatMap(({ url, at }) =>
      isBelowPath(url)
        ? [
            clusterError(
              at,
              `CRI-O asks for ${new URL(url).origin}/v2/… only; write the mirror like "${new URL(url).origin}/v2/PROJECT", or use containerd`,
            ),
          ]
        : [],
    );
  const first = registries.findIndex(({ login, mirrors: own }) => login ?? own.find((one) => one.login));
  return first < 0 || compareVersions(versions.containerd, '2.4.0') < 0
    ? []
    : [
        clusterError(
          `registries[${first}]`,
          `containerd ${versions.containerd} may not read logins from its configuration any more; use a version before 2.4, or CRI-O`,
        ),
      ];
}
