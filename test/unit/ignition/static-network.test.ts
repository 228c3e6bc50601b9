/**
 * A running cluster does not need Muster: the addresses of its machines do not depend on leases.
 */
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { document, IMAGE, MAC1, machine, NETWORK, WORKER, world } from '../pxe/boot/world.ts';

const KUBERNETES = { version: '1.36.2', endpoint: '10.77.0.11', controlPlanes: ['cp1'] };
const CLUSTER = document('Cluster', 'blue', { kubernetes: KUBERNETES });
// A machine belongs to a cluster when the cluster's document names it.
const CP1 = { profile: 'worker', addresses: ['10.77.0.11'] };
const network = (more: object) => ({ ...NETWORK, spec: { ...NETWORK.spec, ...more } });

/** The network in the first configuration of cp1, and its whole user-data. */
async function configured(documents: readonly object[]) {
  const w = await world([IMAGE, WORKER, ...documents], {
    agents: async ({ memberships }) => ({
      agentCluster: (machine) => memberships.roleGiver(machine),
      tpm: () => undefined,
      waits: () => undefined,
      hasAgent: (machine) => memberships.roleGiver(machine) !== undefined,
      inline: () => Promise.reject(new Error('no plans here')),
      alarm: async () => {},
      layer: () => ({ layer: 'muster', document: 'muster', config: {} }),
      version: 0,
    }),
  });
  const { files } = w.boot.render('cp1');
  const { ethernets } = load(files['network-config']!) as { ethernets: Record<string, object> };
  return { ethernets, userData: files['user-data']! };
}
const LEASED = { nic0: { match: { macaddress: MAC1 }, dhcp4: true } };

test('a machine of a cluster gets its address from its configuration, with all settings that DHCP would give', async () => {
  const said = network({
    dns: ['10.77.0.2', '10.77.0.3'],
    ntp: ['10.77.0.4'],
    domain: 'rack.example',
    mtu: 9000,
  });
  const { ethernets, userData } = await configured([said, CLUSTER, machine('cp1', [MAC1], CP1)]);
  expect(ethernets).toEqual({
    nic0: {
      match: { macaddress: MAC1 },
      dhcp4: false,
      addresses: ['10.77.0.11/24'],
      routes: [{ to: '0.0.0.0/0', via: '10.77.0.1' }],
      nameservers: { addresses: ['10.77.0.2', '10.77.0.3'], search: ['rack.example'] },
      mtu: 9000,
    },
  });
  expect(userData).toMatch(/timesyncd\.conf\.d\/95-muster-network\.conf.*?NTP=10\.77\.0\.4/s);
});

test('IPv6 addresses are included only if the cluster names their network', async () => {
  const cluster = (machines?: readonly string[]) =>
    document('Cluster', 'blue', {
      kubernetes: { ...KUBERNETES, ...(machines && { networks: { machines } }) },
    });
  const spec = { ...CP1, addresses: ['10.77.0.11', 'fd00:77::11', 'fd00:99::11'] };
  const addressesIn = async (blue: object) => {
    const { ethernets } = await configured([NETWORK, blue, machine('cp1', [MAC1], spec)]);
    return (ethernets.nic0 as { addresses: string[] }).addresses;
  };
  expect(await addressesIn(cluster(['10.77.0.0/24', 'fd00:77::/56']))).toEqual([
    '10.77.0.11/24',
    'fd00:77::11/56',
  ]);
  expect(await addressesIn(cluster())).toEqual(['10.77.0.11/24']);
});

test('interfaces that the machine’s documents name stay unchanged', async () => {
  const config = { network: { interfaces: [{ name: 'bond0', addresses: ['10.77.0.11/16'] }] } };
  const { ethernets } = await configured([NETWORK, CLUSTER, machine('cp1', [MAC1], { ...CP1, config })]);
  expect(ethernets).toEqual({ bond0: { dhcp4: false, addresses: ['10.77.0.11/16'] } });
});

test.each([
  ['of no cluster', [NETWORK, machine('cp1', [MAC1], CP1)]],
  [
    'of a cluster that is only a name for a configuration',
    [
      NETWORK,
      document('Cluster', 'blue', { config: {} }),
      machine('cp1', [MAC1], { ...CP1, cluster: 'blue' }),
    ],
  ],
  [
    'where another server gives the addresses',
    [network({ dhcp: { mode: 'proxy' } }), CLUSTER, machine('cp1', [MAC1], CP1)],
  ],
])('a machine %s asks for a lease', async (_which, documents) => {
  expect((await configured(documents)).ethernets).toEqual(LEASED);
});
