/**
 * Whom a container runtime asks for the images of a registry, and the files that both runtimes
 * read: CAs of single hosts.
 */
import type { PlanLine } from '../../agent/wire/plan.ts';
import { plainUrl } from '../../resources/registry-spec.ts';
import type { RegistryAccess, ResolvedCluster, ResolvedRegistry } from '../model/resolved-cluster.ts';
import { put } from './lines.ts';

/** A login with its password, as a plan brings it to one machine. */
export interface Login {
  /** The host, with its port unless that is the scheme's own. */
  readonly host: string;
  readonly username: string;
  readonly password: string;
  /** Stands for the password where a digest must not depend on it. */
  readonly tag: string;
}

export type Cluster = Pick<ResolvedCluster, 'mirrors' | 'registries'>;

/** A mirror of one registry. */
export interface Mirror {
  readonly url: string;
  /** Whether it answers for every registry, so that its clients have to say for which they ask. */
  readonly general: boolean;
}

/** The mirrors of one registry in the order in which they are asked, each once. */
export function mirrorsOf({ mirrors }: Cluster, { mirrors: own }: ResolvedRegistry): readonly Mirror[] {
  const general = mirrors.map(plainUrl);
  return [...new Set([...own.map(({ url }) => url), ...general])].map((url) => ({
    url,
    general: general.includes(url),
  }));
}

/** The mirrors of all registries, each once: two tables of the same name are no TOML. */
export const generalMirrors = ({ mirrors }: Cluster): readonly string[] => [...new Set(mirrors)];

/** Every host that documents say something about, by its name: what they say. */
export function accessByHost({
  registries,
}: Pick<Cluster, 'registries'>): ReadonlyMap<string, RegistryAccess> {
  const found = new Map<string, RegistryAccess>();
  const add = (host: string, { ca, login }: RegistryAccess) =>
    found.set(host, { ...found.get(host), ...(ca !== undefined && { ca }), ...(login && { login }) });
  for (const one of registries) {
    add(one.registry, one);
    for (const mirror of one.mirrors) add(new URL(mirror.url).host, mirror);
  }
  return found;
}

/** The file with the CA of a host that has its own. */
const authorityPath = (host: string): string => `/etc/muster/registries/${host}.crt`;

/** The lines that write CAs of registries and mirrors. */
export const authorityLines = (cluster: Cluster): readonly PlanLine[] =>
  [...accessByHost(cluster)].flatMap(([host, { ca }]) =>
    ca === undefined ? [] : [put(authorityPath(host), ca)],
  );

/** The CA file for a host that is asked by TLS: its own, or Muster's. */
export const authorityOf = (access: ReadonlyMap<string, RegistryAccess>, host: string): string =>
  access.get(host)?.ca === undefined ? '/etc/muster/ca.crt' : authorityPath(host);
