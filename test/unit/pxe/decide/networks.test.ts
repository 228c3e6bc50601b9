import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { millis } from '../../../../src/base/duration.ts';
import { formatIpv4, ipv4 } from '../../../../src/base/ipv4.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { hostAddresses, interfaceIndex } from '../../../../src/pxe/interfaces.files.ts';
import { followNetworks } from '../../../../src/pxe/live-networks.ts';
import { type HostAddress, joinNetworks } from '../../../../src/pxe/networks.ts';
import type { Catalog, Entry } from '../../../../src/resources/catalog.ts';
import { KINDS } from '../../../../src/resources/kinds.ts';

const network = (name: string, spec: object): Entry<'Network'> => ({
  document: KINDS.Network.parse({
    apiVersion: 'muster/v1',
    kind: 'Network',
    metadata: { name },
    spec: { dhcp: { mode: 'server' }, ...spec },
  }),
  origin: { from: 'file', at: { file: 'rack.yaml', line: 3, column: 1 } },
});
const at = (name: string, address: string): HostAddress => ({ interface: name, address: ipv4(address) });
const join = (
  documents: readonly Entry<'Network'>[],
  addresses: readonly HostAddress[],
  interfaces?: string[],
) => joinNetworks({ documents, addresses, httpPort: 8080, ...(interfaces ? { interfaces } : {}) });
const HOST = [at('eth0', '192.0.2.5'), at('eth1', '10.77.0.1'), at('eth1', '10.78.0.1')];
const RACK = { subnet: '10.77.0.0/24' };

describe('networks and interfaces', () => {
  it('are joined by the address inside the subnet', () => {
    const { networks, faults } = join([network('rack', RACK)], HOST);
    expect(faults).toEqual([]);
    expect(networks[0]).toMatchObject({
      name: 'rack',
      interface: 'eth1',
      serverAddress: ipv4('10.77.0.1'),
      httpPort: 8080,
    });
  });

  it('are served by the boot address of their interface rather than by another one', () => {
    const { networks } = joinNetworks({
      documents: [network('rack', RACK), network('named', { subnet: '10.78.0.0/24', address: '10.78.0.1' })],
      addresses: [...HOST, at('eth1', '10.77.0.2'), at('eth1', '10.78.0.2')],
      preferred: [ipv4('10.77.0.2'), ipv4('10.78.0.2')],
      httpPort: 8080,
    });
    // A document that names an address has the last word.
    expect(networks.map(({ serverAddress }) => formatIpv4(serverAddress))).toEqual([
      '10.77.0.2',
      '10.78.0.1',
    ]);
  });

  it('have their defaults', () => {
    expect(join([network('rack', RACK)], HOST).networks[0]).toMatchObject({
      leaseTime: 3_600_000,
      bootLeaseTime: 120_000,
      probe: true,
      authoritative: true,
      pools: [],
      dns: [],
      ntp: [],
      relays: [],
      pxe: {},
      vendorClasses: [],
    });
  });

  it('say what is said in the document', () => {
    const { networks } = join(
      [
        network('rack', {
          ...RACK,
          dhcp: {
            mode: 'server',
            pools: [{ start: '10.77.0.10', end: '10.77.0.20' }],
            leaseTime: '2h',
            probe: 'off',
            authoritative: false,
            relays: ['10.1.1.1'],
          },
          gateway: '10.77.0.254',
          dns: ['9.9.9.9'],
          ntp: ['10.77.0.1'],
          domain: 'rack.example',
          mtu: 9000,
          pxe: { style: 'binl' },
        }),
      ],
      HOST,
    );
    expect(networks[0]).toMatchObject({
      leaseTime: 7_200_000,
      probe: false,
      authoritative: false,
      mtu: 9000,
      domain: 'rack.example',
      pxe: { style: 'binl' },
    });
    expect(formatIpv4(networks[0]!.pools[0]!.end)).toBe('10.77.0.20');
  });

  const faultOf = (spec: object, addresses = HOST, interfaces?: string[]) => {
    const { networks, faults } = join([network('rack', spec)], addresses, interfaces);
    expect(networks).toEqual([]);
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatchObject({ code: 'E_NETWORK_UNSERVED', at: { file: 'rack.yaml', line: 3 } });
    return faults[0]!.message;
  };

  it('are not served without an address, and the message says what to do', () => {
    expect(faultOf({ subnet: '10.99.0.0/24' })).toContain(
      'no interface of this host has an address inside 10.99.0.0/24',
    );
    expect(faultOf({ ...RACK, address: '10.77.0.9' })).toContain('no address 10.77.0.9');
    expect(faultOf({ ...RACK, interface: 'eth0' })).toContain('it has 192.0.2.5');
    expect(faultOf({ ...RACK, interface: 'eth7' })).toContain('eth7 does not exist');
    expect(faultOf(RACK, HOST, ['eth0'])).toContain('add --interface eth1');
    expect(faultOf(RACK, [...HOST, at('eth2', '10.77.0.2')])).toContain('eth1 and eth2 both');
  });

  it('with two candidates are served by the one that the document names', () => {
    const two = [...HOST, at('eth2', '10.77.0.2')];
    expect(join([network('rack', { ...RACK, interface: 'eth2' })], two).networks[0]).toMatchObject({
      interface: 'eth2',
      serverAddress: ipv4('10.77.0.2'),
    });
  });

  it('behind relays are served under the address that the document names, without an interface', () => {
    const { networks, faults } = join(
      [network('far', { subnet: '10.99.0.0/24', address: '192.0.2.5' })],
      HOST,
    );
    expect(faults).toEqual([]);
    expect(networks[0]).toMatchObject({ serverAddress: ipv4('192.0.2.5') });
    expect(networks[0]).not.toHaveProperty('interface');
  });

  it('get a fault when two share a segment, and are both served', () => {
    const { networks, faults } = join([network('a', RACK), network('b', { subnet: '10.78.0.0/24' })], HOST);
    expect(networks).toHaveLength(2);
    expect(faults).toMatchObject([{ code: 'E_NETWORK_SHARED' }]);
    const off = network('b', { subnet: '10.78.0.0/24', dhcp: { mode: 'off' } });
    expect(join([network('a', RACK), off], HOST).faults).toEqual([]);
  });

  it('are not served on an interface that was created again, because its sockets are those of the former one', () => {
    const documents = [network('rack', RACK), network('office', { subnet: '192.0.2.0/24' })];
    const { networks, faults } = joinNetworks({
      documents,
      addresses: HOST,
      remade: ['eth1'],
      httpPort: 8080,
    });
    expect(networks.map(({ name }) => name)).toEqual(['office']);
    expect(faults).toEqual([
      {
        code: 'E_NETWORK_UNSERVED',
        message:
          'Network/rack: interface eth1 was deleted and created again, and the sockets on the former one receive nothing; restart Muster (systemctl restart muster)',
        at: { file: 'rack.yaml', line: 3, column: 1 },
      },
    ]);
  });

  it('are watched: a network whose interface is created again becomes a fault within seconds', () => {
    const clock = new ManualClock();
    const stopping = new AbortController();
    let index = 7;
    const warned: string[] = [];
    const live = followNetworks({
      catalog: { list: () => [network('rack', RACK)], subscribe: () => () => {} } as unknown as Catalog,
      ...{ addresses: () => HOST, interfaces: ['eth1'], indexOf: () => index, httpPort: 8080 },
      ...{ clock, log: { ...silentLog, warn: (_: object, text: string) => void warned.push(text) } },
      signal: stopping.signal,
    });
    expect(live.served().map(({ name }) => name)).toEqual(['rack']);
    index = 9;
    clock.advance(millis(5_000));
    expect(live.served()).toEqual([]);
    expect(live.faults()).toMatchObject([{ code: 'E_NETWORK_UNSERVED' }]);
    expect(warned).toEqual([live.faults()[0]!.message]);
    stopping.abort();
  });

  it('are served even when another network is not', () => {
    const { networks, faults } = join(
      [network('bad', { subnet: '10.99.0.0/24' }), network('rack', RACK)],
      HOST,
    );
    expect(networks.map(({ name }) => name)).toEqual(['rack']);
    expect(faults).toHaveLength(1);
  });

  it('see this host’s own addresses', () => {
    expect(hostAddresses({ loopback: true })).toContainEqual({ interface: 'lo', address: ipv4('127.0.0.1') });
    expect(hostAddresses().some((one) => one.interface === 'lo')).toBe(false);
    expect([interfaceIndex('lo'), interfaceIndex('no-such-if')]).toEqual([1, undefined]);
  });
});
