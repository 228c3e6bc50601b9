import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { cidr, ipv4 } from '../../../src/base/ipv4.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { createGate, createNoteRefusal } from '../../../src/pxe/gate.ts';
import { createKnownAddresses } from '../../../src/pxe/known-addresses.ts';
import {
  type Asker,
  isServed,
  type Port,
  perimeterOf,
  refusal,
  refusalText,
} from '../../../src/pxe/perimeter.ts';
import { network } from './dhcp/kit.ts';

/** On eth1. */
const rack = network({ relays: [ipv4('10.77.0.250')] });
/** Only reached through relay agents. */
const { interface: _, ...behind } = network({
  name: 'behind',
  subnet: cidr('10.88.0.0/24'),
  relays: [ipv4('192.168.7.1')],
});
const perimeter = perimeterOf([rack, behind]);
const outsiders = {
  isDocumented: (address: number) => address === ipv4('10.99.0.5'),
  isAgent: (address: number) => address === ipv4('10.99.0.6'),
};

const UDP: readonly Port[] = ['dhcp', 'pxe', 'tftp'];
const TCP: readonly Port[] = ['http', 'redeem', 'agent', 'registry'];

/** Each source, with the ports that answer it; `via` is the interface of its datagrams. */
const SOURCES: readonly (readonly [what: string, source: string, via: string, answered: readonly Port[]])[] =
  [
    ['a machine without an address', '0.0.0.0', 'eth1', ['dhcp', 'agent', 'registry']],
    ['a machine on a served segment', '10.77.0.20', 'eth1', [...UDP, ...TCP]],
    ['a machine behind a relay agent, past it', '10.88.0.20', 'eth1', [...UDP, ...TCP]],
    ['another subnet', '198.51.100.2', 'eth1', ['agent', 'registry']],
    ['an address whose first octets are ours', '10.77.1.20', 'eth1', ['agent', 'registry']],
    ['an address that a document gives to a machine', '10.99.0.5', 'eth1', TCP],
    ['the system of an agent', '10.99.0.6', 'eth1', ['http', 'agent', 'registry']],
    ['a relay agent itself, not forwarding', '192.168.7.1', 'eth1', ['agent', 'registry']],
  ];

describe('a source', () => {
  it.each(SOURCES)('%s (%s) is answered by its ports only', (_what, source, via, answered) => {
    const ports = [...UDP, ...TCP].filter((port) => {
      const asker: Asker = { port, source: ipv4(source), ...(UDP.includes(port) ? { interface: via } : {}) };
      return refusal(perimeter, asker, outsiders) === undefined;
    });
    expect(ports).toEqual(answered);
  });

  it('on an interface without a network is refused, unless a network is only reached through relays', () => {
    const asker: Asker = { port: 'tftp', source: ipv4('10.77.0.20'), interface: 'eth2' };
    expect(refusal(perimeterOf([rack]), asker)).toBe('unserved_interface');
    expect(refusal(perimeter, asker)).toBeUndefined();
  });

  it('is in a served subnet exactly when one of the subnets contains it', () => {
    const lengths = perimeterOf([
      network({ subnet: cidr('10.0.0.0/8') }),
      network({ subnet: cidr('192.168.4.0/30') }),
      network({ subnet: cidr('192.168.4.8/30') }),
    ]);
    const inside = ['10.255.255.255', '192.168.4.3', '192.168.4.8'];
    const outside = ['11.0.0.0', '9.255.255.255', '192.168.4.4', '192.168.4.12', '255.255.255.255'];
    expect([...inside, ...outside].filter((one) => isServed(lengths, ipv4(one)))).toEqual(inside);
    expect(isServed(perimeterOf([]), ipv4('10.0.0.1'))).toBe(false);
  });
});

describe('a relay agent', () => {
  const forward = (giaddr: string, source: string, of: typeof rack, via?: string) => {
    const relay = { giaddr: ipv4(giaddr), network: of as typeof rack | undefined };
    return refusal(perimeter, { port: 'dhcp', source: ipv4(source), interface: via, relay });
  };

  it.each([
    ['that the document names', '10.77.0.250', '10.77.0.250', rack, 'eth1', undefined],
    [
      'that the document names, on a segment that has no network',
      '192.168.7.1',
      '192.168.7.1',
      behind,
      'eth1',
      undefined,
    ],
    [
      'in the subnet that it forwards for, through another interface',
      '10.88.0.1',
      '10.88.0.1',
      behind,
      'eth1',
      undefined,
    ],
    ['in the subnet of another interface', '10.77.0.3', '10.77.0.3', rack, 'eth2', undefined],
    [
      'that sends from another address that the document names',
      '10.88.0.1',
      '192.168.7.1',
      behind,
      'eth1',
      undefined,
    ],
    ['in a replayed capture', '10.77.0.3', '10.77.0.3', rack, undefined, undefined],
    ['on the segment itself', '10.77.0.66', '10.77.0.66', rack, 'eth1', 'relay_unnamed'],
    ['in no subnet of its network', '198.51.100.2', '198.51.100.2', rack, 'eth1', 'relay_unnamed'],
    ['whose packet comes from somebody else', '10.88.0.1', '198.51.100.2', behind, 'eth1', 'relay_source'],
    ['whose packet comes from a machine', '10.77.0.250', '10.77.0.66', rack, 'eth1', 'relay_source'],
    ['whose packet comes from nowhere', '10.88.0.1', '0.0.0.0', behind, 'eth1', 'relay_source'],
  ] as const)('%s', (_what, giaddr, source, of, via, expected) => {
    expect(forward(giaddr, source, of as typeof rack, via)).toBe(expected);
  });

  it('that is refused is told the line that would admit it, and with that line it is admitted', () => {
    for (const [giaddr, source, of] of [
      ['10.77.0.66', '10.77.0.66', rack],
      ['10.88.0.1', '198.51.100.9', behind],
      ['198.51.100.2', '198.51.100.3', behind],
    ] as const) {
      const relay = { giaddr: ipv4(giaddr), network: of as typeof rack };
      const asker: Asker = { port: 'dhcp', source: ipv4(source), interface: 'eth1', relay };
      const text = refusalText(refusal(perimeter, asker)!, asker);
      expect(text).toContain(source);
      const [, list] = /dhcp: \{relays: \[([^\]]+)\]\}/.exec(text)!;
      const admitted = { ...of, relays: list!.split(', ').map(ipv4) } as typeof rack;
      const again: Asker = { ...asker, relay: { ...relay, network: admitted } };
      expect(refusal(perimeterOf([rack, admitted]), again)).toBeUndefined();
    }
  });
});

describe('a gate', () => {
  const open = async () => {
    const metrics = createMetrics();
    const clock = new ManualClock();
    const lines: string[] = [];
    const log = { ...silentLog, warn: (_: object, text: string) => void lines.push(text) };
    let networks = [rack];
    const known = createKnownAddresses({
      own: () => [ipv4('192.0.2.1')],
      catalog: {
        subscribe: () => () => {},
        list: () =>
          [
            {
              document: {
                metadata: { name: 'w1' },
                spec: {
                  addresses: ['10.99.0.5'],
                  config: { network: { interfaces: [{ addresses: ['10.98.0.6/24', '${machine.name}'] }] } },
                },
              },
            },
          ] as never,
      },
      clock,
    });
    const gate = createGate({
      networks: () => networks,
      outsiders: known,
      note: createNoteRefusal({ metrics, log: log as never, clock }),
    });
    return { gate, lines, known, metrics, serve: (now: typeof networks) => (networks = now) };
  };

  it('knows this host, the addresses of documents, and those of agents that were heard', async () => {
    const { gate, known } = await open();
    known.heard('10.99.0.7');
    const addresses = ['127.0.0.1', '192.0.2.1', '10.99.0.5', '10.98.0.6', '10.99.0.7'];
    expect(addresses.filter((one) => gate.admits('http', one))).toEqual(addresses);
    // Datagrams can be forged.
    expect(addresses.filter((one) => gate.admits('tftp', one, 'eth1'))).toEqual([]);
    expect(gate.admits('http', '10.99.0.8')).toBe(false);
    known.heard('10.99.0.8');
    expect(gate.admits('http', '10.99.0.8')).toBe(true);
    expect(gate.admits('redeem', '10.99.0.8')).toBe(false);
  });

  it('follows the networks, counts those it refuses, and logs some of them', async () => {
    const { gate, lines, metrics, serve } = await open();
    for (let n = 0; n < 100; n++) expect(gate.admits('tftp', `198.51.100.${n}`, 'eth1')).toBe(false);
    expect(lines.length).toBeLessThan(30);
    expect(lines[0]).toBe(
      'no answer: 198.51.100.0 is in no subnet that is served; if machines boot there, add a Network document whose spec.subnet contains it',
    );
    expect(await metrics.text()).toContain(
      'muster_refused_sources_total{port="tftp",reason="unserved_source"} 100',
    );
    serve([network({ subnet: cidr('198.51.100.0/24') })]);
    expect(gate.admits('tftp', '198.51.100.1', 'eth1')).toBe(true);
    expect(gate.admits('http', 'fe80::1')).toBe(false);
  });
});
