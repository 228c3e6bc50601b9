/** The boot hosts that share a store, as operators see them. */
import { counted } from '../base/counted.ts';
import { type HostSeen, SILENT_MS } from '../store/etcd/hosts.ts';

/** A clock that is so far off makes certificates and leases of a take-over wrong. */
const SKEW_MS = 2000;

export interface Hosts {
  /** Whether the store is shared. */
  readonly shared: boolean;
  /** This host first. */
  list(): readonly HostSeen[];
  /** The newest revision of the store. */
  revision(): number;
  now(): number;
  forget(name: string): Promise<boolean>;
  /** Lets another host act; returns before that. */
  handOver(): void;
}

export type HostState = HostSeen['role'] | 'silent';

export const hostState = ({ role, agoMs }: Pick<HostSeen, 'role' | 'agoMs'>): HostState =>
  agoMs >= SILENT_MS ? 'silent' : role;

/** Whether a host would take over. */
export const ready = (one: HostSeen): boolean => hostState(one) === 'standby' && one.revision > 0;

/** The check of `muster status`; undefined for a host whose store is its own. */
export function checkHosts({
  shared,
  list,
}: Pick<Hosts, 'shared' | 'list'>): { name: string; ok: boolean; detail: string } | undefined {
  if (!shared) return undefined;
  const [own, ...others] = list();
  if (own === undefined) return undefined;
  const faults = others.flatMap((one) => {
    if (hostState(one) === 'silent')
      return [
        `${one.host} has not been heard for ${counted(Math.floor(one.agoMs / 60_000) || 1, 'minute')}: start it, or \`muster host forget ${one.host}\``,
      ];
    if (Math.abs(one.skewMs ?? 0) > SKEW_MS)
      return [
        `the clock of ${one.host} is ${Math.abs(one.skewMs! / 1000).toFixed(1)} s ${one.skewMs! > 0 ? 'ahead' : 'behind'}: set it by a time server`,
      ];
    return [];
  });
  const standing = others.filter(ready).map(({ host }) => host);
  const detail = `${own.host} acts; ${standing.length > 0 ? `${standing.join(' and ')} would take over` : 'no other host would take over'}`;
  return { name: 'boot hosts', ok: faults.length === 0, detail: [detail, ...faults].join('; ') };
}
