import { describe, expect, it } from 'vitest';
import { type BootDeps, createBootContext } from '../../../../src/pxe/decide/boot-context.ts';

/** A dependency whose use would fail the test, but for the calls that opening makes. */
const unused = (name: string) =>
  new Proxy(
    { subscribe: () => () => {} },
    {
      get(target, property) {
        if (property in target) return target[property as keyof typeof target];
        throw new Error(`${name}.${String(property)} was used`);
      },
    },
  );

describe('the boot context', () => {
  const agents = {
    agentCluster: () => undefined,
    hasAgent: () => false,
    inline: async () => [],
    alarm: async () => {},
    layer: () => ({ layer: 'muster', document: 'muster', config: {} }),
    version: 7,
    identities: { secret: 'of all agents' },
    pki: { secret: 'of all clusters' },
  };
  const state = {
    catalog: unused('catalog'),
    memberships: unused('memberships'),
    roster: unused('roster'),
    assets: unused('assets'),
    networks: [],
    render: () => {
      throw new Error('rendered');
    },
    events: { record() {} },
    metrics: { add() {} },
    clock: unused('clock'),
    agents,
    leasedAddresses: () => [],
    leaseHolder: () => undefined,
    neighbour: () => [],
    consoles: unused('consoles'),
    inventories: unused('inventories'),
    dataDiskOf: () => undefined,
    readAsset: async () => undefined,
    // Other parts of the daemon, which must not be reachable from here.
    pki: { secret: 'of all clusters' },
    tokens: { secret: 'of all joining nodes' },
    store: { commit: () => 'written' },
    artifacts: {},
  };
  const context = createBootContext(state as unknown as BootDeps);

  it('holds what boots need and nothing else, although it is passed the whole state of the daemon', () => {
    expect(Object.keys(context).sort()).toEqual([
      'agents',
      'answerFor',
      'assets',
      'catalog',
      'clock',
      'close',
      'configurations',
      'consoles',
      'dataDiskOf',
      'decided',
      'events',
      'identify',
      'inventories',
      'leaseHolder',
      'leasedAddresses',
      'metrics',
      'needed',
      'neighbour',
      'profiles',
      'pxeFor',
      'readAsset',
      'roster',
      'servedNetworks',
      'withoutReservation',
    ]);
    for (const secret of [state.pki, state.tokens, state.store])
      expect(Object.values(context)).not.toContain(secret);
  });

  it('holds only the part of the agents that boots use: no identities, no keys', () => {
    expect(Object.keys(context.agents).sort()).toEqual([
      'agentCluster',
      'alarm',
      'hasAgent',
      'inline',
      'layer',
      'tpm',
      'version',
      'waits',
    ]);
    expect(context.agents.version).toBe(7);
    expect(Object.values(context.agents)).not.toContain(agents.identities);
  });
});
