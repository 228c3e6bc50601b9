/**
 * Hundreds of thousands of hostile inputs: mutated real captures. The seed is fixed and printed, so
 * that a failure can be repeated.
 */
import { describe, expect, it } from 'vitest';
import { millis } from '../../../../src/base/duration.ts';
import { ipv4 } from '../../../../src/base/ipv4.ts';
import { isOver, readLease, readLeaseKey, stateAt } from '../../../../src/pxe/dhcp/lease.ts';
import { DECODE_FAULTS, decode, encode, subOptions } from '../../../../src/pxe/dhcp/packet.ts';
import { parseArp } from '../../../../src/pxe/dhcp/probe.ts';
import { INPUTS } from '../../fuzzing.ts';
import { withoutTraces } from '../../traces.ts';
import { jsonMutants, mutant, xorshift } from '../tftp/mutate.ts';
import { CAPTURES, capture, message, network, UEFI, world } from './kit.ts';

const SEED = 20261120;

const seeds = [
  ...CAPTURES.map(capture),
  message('REQUEST', { address: '10.77.0.100', server: '10.77.0.1' }),
  message('REQUEST', { ciaddr: '10.77.0.100', options: UEFI! }),
  message('RELEASE', { ciaddr: '10.77.0.100' }),
  message('DECLINE', { address: '10.77.0.100' }),
  message('INFORM', { ciaddr: '10.77.0.9' }),
  message('DISCOVER', { giaddr: '10.77.0.3', options: [[82, [5, 4, 10, 77, 0, 0, 11, 4, 10, 77, 0, 3]]] }),
  // Options in all three places.
  Buffer.concat([message('DISCOVER').subarray(0, 240), Buffer.from([52, 1, 3, 53, 1, 1, 255])]).fill(
    0,
    44,
    236,
  ),
];

describe(`fuzzed with seed ${SEED}`, () => {
  it(`packets are decoded or refused with a reason, and what is decoded can be written`, () => {
    console.log(`DHCP decoder: seed ${SEED}, ${INPUTS} inputs`);
    const random = xorshift(SEED);
    let decodedCount = 0;
    for (let n = 0; n < INPUTS; n++) {
      const bytes = mutant(seeds, random);
      const decoded = decode(bytes);
      if (!decoded.ok) {
        if (!(decoded.fault in DECODE_FAULTS)) throw new Error(decoded.fault);
        continue;
      }
      decodedCount++;
      if (n % 8 === 0 && encode(decoded.packet).bytes.length < 300) throw new Error('short');
    }
    expect(decodedCount).toBeGreaterThan(INPUTS / 4);
  });

  it(`values are read as sub-options or refused`, () => {
    const random = xorshift(SEED + 1);
    const values = [
      Buffer.from('060108ff', 'hex'),
      Buffer.from('01040a000001020568656c6c6f', 'hex'),
      Buffer.alloc(0),
    ];
    for (let n = 0; n < INPUTS; n++) {
      const value = mutant(values, random);
      for (const [, sub] of subOptions(value, n % 2 === 0) ?? [])
        if (sub.length > value.length) throw new Error(value.toString('hex'));
    }
  });

  it(`packets through the whole room: none throws, none answers malformed input, nothing grows`, async () => {
    const w = await world({
      networks: [network(), network({ name: 'proxy', mode: 'proxy', interface: 'eth2' })],
    });
    const random = xorshift(SEED + 2);
    const outcomes = new Map<string, number>();
    for (let n = 0; n < INPUTS; n++) {
      if (n % 500 === 0) w.clock.advance(millis(61_000));
      const bytes = mutant(seeds, random);
      const port = n % 7 === 0 ? 4011 : 67;
      const source = { address: n % 3 === 0 ? ipv4('10.77.0.100') : ipv4('0.0.0.0'), port: 68 };
      const step = await w.send(bytes, { interface: n % 5 === 0 ? 'eth2' : 'eth1', port, source });
      if (step.outcome === 'internal') throw new Error(`${step.detail}: ${bytes.toString('hex')}`);
      if (step.outcome === 'malformed' && step.reply) throw new Error(bytes.toString('hex'));
      if (step.reply) encode(step.reply.packet, step.reply.maximum);
      outcomes.set(step.outcome, (outcomes.get(step.outcome) ?? 0) + 1);
    }
    for (const expected of [
      'offered',
      'acked',
      'renewed',
      'proxy_offered',
      'boot_server_acked',
      'malformed',
      'informed',
    ])
      expect(outcomes.get(expected), expected).toBeGreaterThan(0);
    // A pool of a hundred addresses has a hundred leases at most, however many clients ask.
    expect(w.leases.list('rack').length).toBeLessThanOrEqual(100);
    // And a well-behaved machine is served as before.
    w.clock.advance(millis(86_400_000));
    expect((await w.send(capture('ovmf-pxe-discover'))).outcome).toBe('offered');
  });

  it(`ARP tables: no entry that is not one`, () => {
    const random = xorshift(SEED + 3);
    const table = Buffer.from(
      'IP address       HW type     Flags       HW address            Mask     Device\n' +
        '10.77.0.2        0x1         0x2         52:54:00:aa:00:01     *        eth1\n',
    );
    for (let n = 0; n < INPUTS; n++) {
      const text = mutant([table], random).toString('latin1');
      if (parseArp(text, 'eth1').size > text.split('\n').length) throw new Error(text);
    }
  });

  it(`stored leases and keys are read as what they must be, or not at all`, () =>
    withoutTraces(() => {
      const lease = { v: 1, mac: '52:54:00:aa:00:01', state: 'bound', since: 1, expires: 2 };
      const seeds = [lease, { ...lease, clientId: '01', hostname: 'a', machine: 'node-1', agent: '0104' }];
      const leases = jsonMutants(seeds, xorshift(SEED + 4));
      const random = xorshift(SEED + 5);
      const key = Buffer.from('lease/rack/10.77.0.100');
      let read = 0;
      for (let n = 0; n < INPUTS; n++) {
        const one = readLease(leases());
        if (one) {
          read++;
          if (!Number.isFinite(one.expires + one.since)) throw new Error(JSON.stringify(one));
          for (const text of [one.mac, one.clientId, one.hostname, one.machine, one.agent]) text?.slice(1);
          stateAt(one, millis(1));
          isOver(one, millis(1));
        }
        const place = readLeaseKey(mutant([key], random).toString('latin1'));
        if (place && (place.address < 0 || place.address > 0xffffffff))
          throw new Error(String(place.address));
      }
      expect(read).toBeGreaterThan(INPUTS / 200);
    }));
});
