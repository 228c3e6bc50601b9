/**
 * What ends when: each CA and each certificate with who renews it, what is due within a time, what
 * should have been renewed and was not, and how long a cluster can do without its boot host. Pure.
 */
import { duration, type Millis } from '../base/duration.ts';
import { isOfMachines, isProbe, type LeafName, leafOf } from './hierarchy.ts';
import type { Aged, Keyset } from './keyset.ts';
import type { IssuedCertificate } from './records.ts';
import { lifeOf, renewsAt } from './renewal-time.ts';
import { readAuthority } from './x509.ts';

/**
 * Who replaces a certificate. `agent`: the agent of its machine, by its next poll after the time.
 * `kubelet`: kubelet itself, or its agent if that is earlier. `muster`: the boot host. `demand`: it
 * is made when it is needed. `person`: the operator who has it asks for another one. `nobody`: its
 * machine has left, or has another one by now.
 */
export type Renewer = 'agent' | 'kubelet' | 'muster' | 'demand' | 'person' | 'nobody';

/** Whether a certificate is still the one that its holder is to use. */
export type Standing = 'current' | 'superseded' | 'revoked' | 'removed';

const ON_DEMAND: ReadonlySet<LeafName> = new Set<LeafName>(['applier', 'muster-admin']);

/** Leaves of machines whose end stops a part of their cluster, and which only Muster renews. */
const SERVING: ReadonlySet<LeafName> = new Set<LeafName>([
  'apiserver',
  'apiserver-kubelet-client',
  'apiserver-etcd-client',
  'front-proxy-client',
  'etcd-server',
  'etcd-peer',
  'controller-manager',
  'scheduler',
  'kubelet-serving',
]);

export function renewerOf(leaf: LeafName, standing: Standing): Renewer {
  if (standing !== 'current') return 'nobody';
  if (isProbe(leaf) || ON_DEMAND.has(leaf)) return 'demand';
  if (leaf === 'kubelet') return 'kubelet';
  if (isOfMachines(leaf)) return 'agent';
  return leafOf(leaf).roles.includes('boot-host') ? 'muster' : 'person';
}

/**
 * The serial numbers of the certificates that a newer one for the same holder and purpose replaces.
 * An operator may have several. `issued`: in the order of issue.
 */
export function supersededSerials(issued: readonly IssuedCertificate[]): ReadonlySet<string> {
  const newest = new Map<string, IssuedCertificate>();
  const superseded = new Set<string>();
  for (const one of issued) {
    if (renewerOf(one.leaf, 'current') === 'person') continue;
    const kind = `${one.leaf} ${one.to}${isProbe(one.leaf) ? ` ${one.issuer.generation}` : ''}`;
    const known = newest.get(kind);
    if (known !== undefined) superseded.add(known.serial);
    newest.set(kind, one);
  }
  return superseded;
}

/** A scope's keys and certificates, as the store and the machines' documents have them. */
export interface ScopeKeys {
  readonly keysets: Iterable<Keyset>;
  readonly issued: readonly IssuedCertificate[];
  readonly standing: (issued: IssuedCertificate) => Standing;
}

/** Something that ends, or is renewed before. */
export interface Ending {
  /** For example `certificate kubelet` or `CA etcd-ca`. */
  readonly what: string;
  /** A machine, a user or `muster`; of a CA, the id of its generation. */
  readonly of: string;
  readonly ends: Millis;
  readonly renewedBy: Renewer | 'rotation';
  /** When its renewal is due; absent: it is not renewed at a time of its own. */
  readonly renews?: Millis;
  /** How long it is good for in all. */
  readonly life: Millis;
}

const caEnd = (certificate: string): Millis => readAuthority(certificate).notAfter;

/** The CAs that are in use, and all certificates that are current; probes aside. */
export function endingsOf({ keysets, issued, standing }: ScopeKeys): readonly Ending[] {
  const authorities = [...keysets].flatMap(({ name, made, trusted }) =>
    [...made, ...trusted].flatMap(({ id, createdAt, certificate }): Ending[] => {
      if (certificate === undefined) return [];
      const ends = caEnd(certificate);
      const life = (ends - createdAt) as Millis;
      return [{ what: `CA ${name}`, of: id, ends, renewedBy: 'rotation', life }];
    }),
  );
  const leaves = issued
    .filter((one) => standing(one) === 'current' && !isProbe(one.leaf))
    .map((one): Ending => {
      const renewedBy = renewerOf(one.leaf, 'current');
      const due = renewedBy === 'agent' || renewedBy === 'kubelet' || renewedBy === 'muster';
      const what = `certificate ${one.leaf}`;
      const renews = due ? { renews: renewsAt(one) } : {};
      return { what, of: one.to, ends: one.notAfter, renewedBy, life: lifeOf(one), ...renews };
    });
  return [...authorities, ...leaves].sort((a, b) => a.ends - b.ends);
}

/** What happens at a time: a renewal, or an end that nobody prevents by then. */
export interface Forecast {
  readonly at: Millis;
  readonly does: 'renewed' | 'ends';
  readonly ending: Ending;
}

/** What is renewed or ends within a time from `now`, the first one first. */
export function forecast(endings: readonly Ending[], now: Millis, within: Millis): readonly Forecast[] {
  return endings
    .flatMap((ending): Forecast[] => {
      if (ending.renewedBy === 'demand') return [];
      const renewal = ending.renews !== undefined && ending.ends > now;
      const at = renewal ? (Math.max(ending.renews!, now) as Millis) : ending.ends;
      return at <= now + within ? [{ at, does: renewal ? 'renewed' : 'ends', ending }] : [];
    })
    .sort((a, b) => a.at - b.at);
}

/** How near an end may come before it is an alarm. */
export const ALARMS = [
  { level: 'urgent', before: duration('7d'), share: 1 / 12 },
  { level: 'soon', before: duration('30d'), share: 1 / 4 },
] as const;
export type AlarmLevel = (typeof ALARMS)[number]['level'];

/**
 * How urgent an end is. A certificate that lives for a few weeks at all is judged by its share of
 * life instead: each is renewed earlier than that, so an alarm says that it was not.
 */
export function alarmOf({ ends, life, renewedBy }: Ending, now: Millis): AlarmLevel | undefined {
  if (renewedBy === 'demand' || renewedBy === 'person') return undefined;
  const left = ends - now;
  return ALARMS.find(({ before, share }) => left <= Math.min(before, life * share))?.level;
}

/**
 * What ends first of what a cluster needs and what only the boot host renews. Kubelets renew their
 * own client certificates, and agents' count for nothing without a boot host.
 */
export function firstWithoutBootHost(endings: readonly Ending[]): Ending | undefined {
  return endings.find(
    ({ what, renewedBy }) =>
      renewedBy === 'rotation' || SERVING.has(what.replace('certificate ', '') as LeafName),
  );
}

/** What still depends on a generation of a CA. */
export interface Dependents {
  readonly generation: string;
  /** By leaf, the holders of current certificates that it signed and that have not ended. */
  readonly holders: Readonly<Record<string, readonly string[]>>;
  /** When the last of them ends; absent: there is none. */
  readonly until?: Millis;
}

/** The current certificates that would end with the trust in a generation. */
export function dependentsOf({ id }: Aged, { issued, standing }: ScopeKeys, now: Millis): Dependents {
  const held = issued.filter(
    (one) =>
      one.issuer.generation === id && one.notAfter > now && !isProbe(one.leaf) && standing(one) === 'current',
  );
  const holders: Record<string, string[]> = {};
  for (const { leaf, to } of held.toSorted((a, b) => (a.leaf < b.leaf ? -1 : 1)))
    holders[leaf] = [...(holders[leaf] ?? []), to].sort();
  const until = held.reduce((latest, { notAfter }) => Math.max(latest, notAfter), 0) as Millis;
  return { generation: id, holders, ...(held.length > 0 && { until }) };
}
