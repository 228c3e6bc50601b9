/** Wires what replaces lost machines by spares: what it knows of them, and the exchange. */
import type { Mac } from '../base/mac.ts';
import type { HealDeps, HealPower } from '../cluster/change/heal/heal.ts';
import type { Candidate } from '../cluster/change/heal/spare.ts';
import { exchangeHardware } from '../machines/life/exchange.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

type Machines = Pick<
  HealDeps,
  'machines' | 'settings' | 'heard' | 'waits' | 'exchange' | 'clock' | 'power'
> & { readonly expected: (machine: string) => boolean };

/** What healing knows of machines. */
export function healedMachines(
  { catalog, memberships, roster, agents, events, leases }: State,
  power: HealPower,
  { clock }: Pick<Common, 'clock'>,
): Machines {
  const { heartbeats } = roster;
  const exchange = {
    ...{ catalog, roster, events, clock, inventories: agents.inventories },
    endCertificate: (machine: string) => agents.identities.revoke(machine),
    endLease: (mac: Mac) => leases.end(mac),
    exchangeBmcs: (one: string, other: string) => power.exchange(one, other),
  };
  return {
    ...{ power, clock },
    machines: () =>
      catalog.list('Machine').flatMap(({ document: { metadata, spec }, origin }): Candidate[] => {
        const { name, labels = {} } = metadata;
        const status = roster.get(name)?.status;
        if (status === undefined) return [];
        const cluster = memberships.clusterOf(name);
        return [
          { name, labels, spec, status, cluster, isOfApi: origin.from === 'api', hasBmc: power.has(name) },
        ];
      }),
    settings: (cluster) => catalog.get('Cluster', cluster)?.document.spec.spares,
    // After a start of the server it is only supposed that machines run.
    heard: (machine) => heartbeats.alive(machine)?.bootId !== undefined,
    expected(machine) {
      const { entry, status } = roster.get(machine) ?? {};
      if (entry === undefined || status?.agent === undefined) return false;
      if (status.life ?? status.quarantine ?? status.alarm) return false;
      const { is, off } = heartbeats.heard(machine);
      return is !== 'left' && off !== 'ordered';
    },
    waits: (machine) => agents.waits(machine),
    exchange: (machine, by) => exchangeHardware(exchange, machine, by),
  };
}
