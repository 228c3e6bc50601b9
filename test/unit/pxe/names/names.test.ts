/** Names of machines and clusters: what is wanted, what is sent, and what is never lost. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../../../src/base/clock.ts';
import { duration } from '../../../../src/base/duration.ts';
import { ipv4 } from '../../../../src/base/ipv4.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { openNames } from '../../../../src/pxe/names/names.ts';
import { nameIn, reverseName } from '../../../../src/pxe/names/wanted.ts';
import { KINDS, type Kind } from '../../../../src/resources/kinds.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';
import type { Store } from '../../../../src/store/store.ts';

const document = (kind: Kind, name: string, spec: object) => ({
  document: KINDS[kind].parse({ apiVersion: 'muster/v1', kind, metadata: { name }, spec }),
});
const ZONES = { zone: 'Lab.Example', reverseZone: '0.77.10.in-addr.arpa', server: '10.77.0.53' };
const network = (names: object = ZONES) =>
  document('Network', 'rack', { subnet: '10.77.0.0/24', dhcp: { mode: 'server' }, names });
const machine = (n: number, spec: object = {}) =>
  document('Machine', `node-${n}`, {
    ...{ macs: [`52:54:00:aa:00:0${n}`], profile: 'p', addresses: [`10.77.0.${10 + n}`] },
    ...spec,
  });

/** A name server that has what it took, and a keeper of names. */
async function world(store: Store = openMemoryStore()) {
  const held = new Set<string>();
  const state = {
    documents: [network(), machine(1)] as ReturnType<typeof document>[],
    leases: [] as { address: string; machine: string; state: string }[],
    /** The code of its answers; undefined: it does not answer. */
    answers: 0 as number | undefined,
    asked: 0,
    secret: undefined as Buffer | undefined,
  };
  const clock = new ManualClock();
  const names = await openNames({
    ...{ store, clock, log: silentLog },
    catalog: { list: (kind) => state.documents.filter(({ document }) => document.kind === kind) as never },
    leases: {
      list: () =>
        state.leases.map(({ address, machine, state: is }) => ({
          ...{ network: 'rack', address: ipv4(address), state: is, lease: { machine } },
        })) as never,
    },
    secrets: { value: () => state.secret },
    async exchange({ address }, message) {
      state.asked++;
      if (state.answers === undefined) throw new Error(`${address} did not answer within 5 s`);
      const answer = Buffer.from([message[0]!, message[1]!, 0xa8, state.answers, 0, 0, 0, 0, 0, 0, 0, 0]);
      if (state.answers === 0) for (const change of changesIn(message)) change(held);
      return answer;
    },
  });
  await names.now();
  return { store, state, clock, names, held };
}

/** The changes in an update, as its server carries them out. */
function changesIn(message: Buffer): readonly ((held: Set<string>) => void)[] {
  let at = 12;
  const name = (): string => {
    const labels: string[] = [];
    for (let length = message[at++]!; length > 0; length = message[at++]!) {
      labels.push(message.toString('latin1', at, at + length));
      at += length;
    }
    return labels.join('.');
  };
  name();
  at += 4;
  return Array.from({ length: message.readUInt16BE(8) }, () => {
    const owner = name();
    const [type, kind] = [message.readUInt16BE(at), message.readUInt16BE(at + 2)];
    const end = at + 10 + message.readUInt16BE(at + 8);
    at += 10;
    const data = type === 12 ? name() : [...message.subarray(at, end)].join('.');
    at = end;
    const record = `${owner} ${data}`;
    return (held) => void (kind === 254 ? held.delete(record) : held.add(record));
  });
}

const ONE = ['node-1.lab.example 10.77.0.11', '11.0.77.10.in-addr.arpa node-1.lab.example'];

describe('names', () => {
  it('of machines are registered, forward and reverse, and removed when the machine goes', async () => {
    const { state, names, held } = await world();
    expect([...held].sort()).toEqual([...ONE].sort());
    expect(names.list().map(({ state: is }) => is)).toEqual(['registered', 'registered']);
    state.documents.push(machine(2, { addresses: [] }));
    state.leases = [
      { address: '10.77.0.100', machine: 'node-2', state: 'bound' },
      { address: '10.77.0.101', machine: 'node-2', state: 'offered' },
    ];
    await names.now();
    expect(held).toContain('node-2.lab.example 10.77.0.100');
    expect(held.size).toBe(4);
    state.documents = [network(), machine(1, { addresses: ['10.77.0.99'] })];
    await names.now();
    expect([...held].sort()).toEqual([
      '99.0.77.10.in-addr.arpa node-1.lab.example',
      'node-1.lab.example 10.77.0.99',
    ]);
    const { asked } = state;
    await names.now();
    expect(state.asked).toBe(asked);
  });

  it('of an API lead to its virtual address, else to all control planes', async () => {
    const { state, names, held } = await world();
    const cluster = (virtualAddress: object) =>
      document('Cluster', 'blue', {
        ...{ trust: 'segment', names: { zone: 'lab.example', server: '10.77.0.53' } },
        kubernetes: {
          ...{ version: '1.36', endpoint: 'api.lab.example', controlPlanes: ['node-1', 'node-2'] },
          ...virtualAddress,
        },
      });
    state.documents = [network(), machine(1), machine(2), cluster({})];
    await names.now();
    expect(held).toContain('api.lab.example 10.77.0.11');
    expect(held).toContain('api.lab.example 10.77.0.12');
    const vip = { virtualAddress: { addresses: ['10.77.0.200'], interface: 'eth0' } };
    state.documents = [network(), machine(1), machine(2), cluster(vip)];
    await names.now();
    expect([...held].filter((one) => one.startsWith('api.'))).toEqual(['api.lab.example 10.77.0.200']);
    expect(names.list().find(({ name }) => name === 'api.lab.example')?.subject).toBe('Cluster/blue');
  });

  it('wait for a server that is away, are asked for at growing intervals, and are never lost', async () => {
    const { store, state, names, held } = await world();
    state.answers = undefined;
    state.documents = [network(), machine(2)];
    await names.now();
    expect(names.list().map((one) => `${one.name} ${one.state}`)).toEqual([
      '11.0.77.10.in-addr.arpa leaving',
      '12.0.77.10.in-addr.arpa waiting',
      'node-1.lab.example leaving',
      'node-2.lab.example waiting',
    ]);
    const reason = '10.77.0.53 did not answer within 5 s';
    expect(names.behind()).toEqual([
      { zone: '0.77.10.in-addr.arpa', count: 2, reason },
      { zone: 'lab.example', count: 2, reason },
    ]);
    const { asked } = state;
    await names.now();
    expect(state.asked).toBe(asked);
    await names.close();
    // A boot host that starts later still knows what it owes.
    const later = await world(store);
    later.held.clear();
    for (const one of held) later.held.add(one);
    later.state.documents = [network(), machine(2)];
    later.clock.advance(duration('10m'));
    await later.names.now();
    expect([...later.held].sort()).toEqual([
      '12.0.77.10.in-addr.arpa node-2.lab.example',
      'node-2.lab.example 10.77.0.12',
    ]);
    expect(later.names.behind()).toEqual([]);
  });

  it('say why a server does not take them: refused, no key, no TSIG key', async () => {
    const { state, clock, names } = await world();
    const tried = async () => {
      clock.advance(duration('10m'));
      await names.now();
      return names.behind().map(({ reason }) => reason);
    };
    state.answers = 5;
    state.documents.push(machine(2));
    expect(await tried()).toEqual(['10.77.0.53: REFUSED', '10.77.0.53: REFUSED']);
    state.answers = 0;
    const key = { valueFrom: { secret: 'dns', key: 'tsig' } };
    state.documents = [network({ zone: 'lab.example', server: '10.77.0.53', key }), machine(3)];
    expect(new Set(await tried())).toContain('Secret "dns" has no key "tsig"');
    state.secret = Buffer.from('hunter2');
    expect(String(await tried())).toContain('is no TSIG key');
    state.secret = Buffer.from('muster:aHVudGVyMg==');
    expect(String(await tried())).toContain('its answer is not signed');
  });

  it('of a server that is gone for good can be forgotten; those that are wanted stay', async () => {
    const { state, names, store } = await world();
    state.answers = undefined;
    state.documents = [network(), machine(2)];
    await names.now();
    expect(await names.forget('lab.example')).toBe(1);
    expect(names.list().filter(({ zone }) => zone === 'lab.example')).toMatchObject([{ state: 'waiting' }]);
    expect((await store.list('name/lab.example/')).records).toHaveLength(1);
  });

  it('without a server are printed only, and a document that cannot work is refused', async () => {
    const { state, names } = await world();
    state.documents = [network({ zone: 'lab.example' }), machine(1)];
    await names.now();
    expect(names.list().at(-1)).toMatchObject({ name: 'node-1.lab.example', state: 'printed' });
    for (const [names, message] of [
      [{ zone: 'lab.example', port: 53 }, 'nothing is sent without'],
      [{ zone: 'lab.example', reverseZone: 'example' }, 'no zone of reverse names'],
      [{ zone: '0.77.10.in-addr.arpa' }, 'is a zone of reverse names'],
    ] as const)
      expect(() => network(names)).toThrow(message);
  });

  it('are the same in whatever order documents and servers come and go', async () => {
    const step = fc.record({
      machines: fc.uniqueArray(fc.integer({ min: 1, max: 5 })),
      answers: fc.constantFrom(0, 2, undefined),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 6 }), async (steps) => {
        const { state, clock, names, held } = await world();
        for (const { machines, answers } of [...steps, { machines: [2, 4], answers: 0 }]) {
          state.documents = [network(), ...machines.map((n) => machine(n))];
          state.answers = answers;
          clock.advance(duration('10m'));
          await names.now();
        }
        await names.close();
        expect([...held].filter((one) => one.startsWith('node-')).sort()).toEqual([
          'node-2.lab.example 10.77.0.12',
          'node-4.lab.example 10.77.0.14',
        ]);
        expect(held.size).toBe(4);
      }),
      { numRuns: 20 },
    );
  });
});

it('a name keeps its own zone, and addresses have reverse names', () => {
  expect(nameIn('node-1', 'lab.example')).toBe('node-1.lab.example');
  expect(nameIn('Node-1.lab.example', 'lab.example')).toBe('node-1.lab.example');
  expect(reverseName('10.77.0.11')).toBe('11.0.77.10.in-addr.arpa');
  expect(reverseName('fd00::1')).toMatch(/^1\.0\.0.*\.0\.0\.d\.f\.ip6\.arpa$/);
});
