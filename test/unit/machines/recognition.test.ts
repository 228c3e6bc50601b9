import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Mac } from '../../../src/base/mac.ts';
import { readIdentity, serialKey, swapUuid, uuidKey } from '../../../src/machines/identity.ts';
import {
  isFleetingMac,
  isPlaceholderSerial,
  isUsableMac,
  PLACEHOLDER_SERIALS,
  PLACEHOLDER_UUIDS,
  SHARED_MACS,
} from '../../../src/machines/placeholders.ts';
import {
  type Claim,
  createRecognitionIndex,
  type Evidence,
  type Recognition,
} from '../../../src/machines/recognition.ts';
import { anyText } from '../texts.ts';

const A = '00:1b:21:00:00:0a' as Mac;
const A2 = '00:1b:21:00:00:a2' as Mac;
const B = '00:1b:21:00:00:0b' as Mac;
const NEW = '00:1b:21:00:00:99' as Mac;
const BMC = 'be:3a:f2:b6:05:9f' as Mac;
const U = '4c4c4544-0042-3510-8051-b7c04f4d3532';
const V = '4c4c4544-0042-3510-8051-b7c04f4d3599';

const claim = (name: string, more: Partial<Claim> = {}): Claim => ({
  name,
  documented: true,
  macs: [],
  seenMacs: [],
  ...more,
});
const index = (...claims: Claim[]) => {
  const made = createRecognitionIndex();
  for (const one of claims) made.set(one);
  return made;
};
const who = (found: Recognition) =>
  found.kind === 'known'
    ? found.match.name
    : found.kind === 'conflict'
      ? found.matches.map((m) => m.name)
      : 'unknown';

describe('recognition', () => {
  it('uses the address that the machine boots from, whatever its UUID and serial number are', () => {
    const known = index(claim('a', { macs: [A], uuid: U, serial: 'SN-1' }));
    expect(who(known.recognise({ bootMac: A, macs: [A], uuid: V, serial: 'SN-2' }))).toBe('a');
  });

  it('knows a machine with three interfaces by any of them', () => {
    const known = index(claim('a', { macs: [A2] }));
    expect(who(known.recognise({ bootMac: NEW, macs: [A, NEW, A2] }))).toBe('a');
  });

  it('needs UUID and serial number together, when no address is known', () => {
    const known = index(claim('a', { macs: [A], uuid: U, serial: 'SN-1' }));
    expect(who(known.recognise({ bootMac: NEW, macs: [NEW], uuid: U, serial: 'sn-1 ' }))).toBe('a');
    expect(who(known.recognise({ bootMac: NEW, macs: [NEW], uuid: U }))).toBe('unknown');
    expect(who(known.recognise({ bootMac: NEW, macs: [NEW], serial: 'SN-1' }))).toBe('unknown');
  });

  it('matches a UUID in either byte order', () => {
    const known = index(claim('a', { macs: [A], uuid: U, serial: 'SN-1' }));
    const swapped = '44454c4c-4200-1035-8051-b7c04f4d3532';
    expect(swapUuid(U)).toBe(swapped);
    expect(swapUuid(swapped)).toBe(U);
    expect(
      who(known.recognise({ bootMac: NEW, macs: [NEW], uuid: swapped.toUpperCase(), serial: 'SN-1' })),
    ).toBe('a');
  });

  it('distinguishes blades that share UUID and serial by their addresses', () => {
    const known = index(
      claim('a', { macs: [A], uuid: U, serial: 'SN-1' }),
      claim('b', { macs: [B], uuid: U, serial: 'SN-1' }),
    );
    expect(who(known.recognise({ bootMac: A, macs: [A], uuid: U, serial: 'SN-1' }))).toBe('a');
    expect(who(known.recognise({ bootMac: B, macs: [B], uuid: U, serial: 'SN-1' }))).toBe('b');
    expect(who(known.recognise({ bootMac: NEW, macs: [NEW], uuid: U, serial: 'SN-1' }))).toBe('unknown');
  });

  it('does not guess when a second blade has the UUID and serial number of one with other addresses', () => {
    const known = index(claim('a', { macs: [A], seenMacs: [A], uuid: U, serial: 'SN-1' }));
    expect(known.recognise({ bootMac: B, macs: [B], uuid: U, serial: 'SN-1' })).toMatchObject({
      kind: 'conflict',
    });
  });

  it('lets a documented boot address win over a blade that only shares the hardware', () => {
    const known = index(
      claim('a', { macs: [A], seenMacs: [A], uuid: U, serial: 'SN-1' }),
      claim('b', { macs: [B] }),
    );
    expect(who(known.recognise({ bootMac: B, macs: [B], uuid: U, serial: 'SN-1' }))).toBe('b');
  });

  it('holds when a network card was moved: its address is of one machine, UUID and serial number of another', () => {
    const known = index(
      claim('a', { macs: [A], uuid: U, serial: 'SN-1' }),
      claim('b', { macs: [B], uuid: V, serial: 'SN-2' }),
    );
    expect(who(known.recognise({ bootMac: A, macs: [A], uuid: V, serial: 'SN-2' }))).toEqual(['a', 'b']);
  });

  it('holds a machine whose addresses are in two documents', () => {
    const known = index(claim('a', { macs: [A] }), claim('b', { macs: [B] }));
    expect(who(known.recognise({ bootMac: A, macs: [A, B] }))).toEqual(['a', 'b']);
  });

  it('ignores an interface that a BMC presents to every host', () => {
    const known = index(claim('a', { macs: [A, BMC] }), claim('b', { macs: [B], seenMacs: [B, BMC] }));
    expect(who(known.recognise({ bootMac: NEW, macs: [NEW, BMC] }))).toBe('unknown');
    expect(who(known.recognise({ bootMac: B, macs: [B, BMC] }))).toBe('b');
  });

  it('ignores an unlisted address that was seen on many machines', () => {
    const shared = '00:1b:21:ff:ff:ff' as Mac;
    const many = Array.from({ length: 20 }, (_, n) =>
      claim(`x${n}`, { documented: false, seenMacs: [shared] }),
    );
    expect(who(index(...many).recognise({ bootMac: NEW, macs: [NEW, shared] }))).toBe('unknown');
  });

  it('does not recognise a new machine by a shared address when UUID and serial contradict it', () => {
    const shared = '00:1b:21:ff:ff:ff' as Mac;
    const known = index(claim('a', { macs: [A, shared], uuid: U, serial: 'SN-1' }));
    expect(who(known.recognise({ bootMac: NEW, macs: [NEW, shared], uuid: V, serial: 'SN-2' }))).toBe(
      'unknown',
    );
  });

  it('takes nothing for granted when UUID and serial number both contradict the document', () => {
    const a = claim('a', { macs: [A], seenMacs: [A2], uuid: U, serial: 'SN-1', firm: true });
    const b = claim('b', { macs: [B], uuid: V, serial: 'SN-2', firm: true });
    const other = { uuid: V, serial: 'SN-9' };
    expect(index(a).recognise({ bootMac: A, macs: [A], ...other })).toMatchObject({
      kind: 'conflict',
      contradicted: true,
      matches: [{ name: 'a', because: ['boot-mac', 'uuid-differs', 'serial-differs'] }],
    });
    // Its card is in a machine that has a document of its own.
    expect(who(index(a, b).recognise({ bootMac: A, macs: [A], uuid: V, serial: 'SN-2' }))).toEqual([
      'a',
      'b',
    ]);
    // An address that it only booted from once.
    expect(who(index(a).recognise({ bootMac: A2, macs: [A2], ...other }))).toBe('unknown');
    // One of the two alone is a replaced board, or firmware that repeats itself.
    for (const evidence of [
      { uuid: V, serial: 'SN-1' },
      { uuid: U, serial: 'SN-9' },
      { uuid: V },
      { serial: 'SN-9' },
      { uuid: V, serial: 'To Be Filled By O.E.M.' },
      { uuid: '00000000-0000-0000-0000-000000000000', serial: 'SN-9' },
      { uuid: swapUuid(U), serial: 'SN-9' },
    ])
      expect(who(index(a).recognise({ bootMac: A, macs: [A], ...evidence }))).toBe('a');
    // What was only seen contradicts nothing.
    const { firm: _, ...seen } = a;
    expect(who(index(seen).recognise({ bootMac: A, macs: [A], ...other }))).toBe('a');
  });

  it('joins discovered records of one machine, and prefers documents', () => {
    const first = claim('m-1', { documented: false, seenMacs: [A], uuid: U });
    const second = claim('m-2', { documented: false, seenMacs: [A2], uuid: U });
    expect(index(first, second).recognise({ bootMac: A2, macs: [A, A2], uuid: U })).toMatchObject({
      kind: 'known',
      match: { name: 'm-2' },
      same: ['m-1'],
    });
    expect(
      index(first, second, claim('a', { macs: [A2] })).recognise({ bootMac: A2, macs: [A, A2], uuid: U }),
    ).toMatchObject({ kind: 'known', match: { name: 'a' }, same: ['m-1'] });
  });

  it('does not depend on the order of machines, and agrees with the fast lookup by boot address', () => {
    const mac = fc.constantFrom(A, A2, B, NEW, BMC, '52:54:00:00:00:01' as Mac, '02:11:22:33:44:55' as Mac);
    const uuid = fc.option(fc.constantFrom(U, V, swapUuid(U), PLACEHOLDER_UUIDS[2]!.value), {
      nil: undefined,
    });
    const serial = fc.option(fc.constantFrom('S1-1', 's1-1', 'S2-2', 'Default string'), { nil: undefined });
    const claims = fc.array(
      fc.record({
        documented: fc.boolean(),
        macs: fc.uniqueArray(mac, { maxLength: 3 }),
        seenMacs: fc.uniqueArray(mac, { maxLength: 3 }),
        uuid,
        serial,
      }),
      { maxLength: 6 },
    );
    const evidence = fc.record({ bootMac: mac, macs: fc.uniqueArray(mac, { maxLength: 4 }), uuid, serial });
    fc.assert(
      fc.property(claims, evidence, fc.nat(), (parts, said: Evidence, turn) => {
        const all = parts.map(
          (part, n): Claim => ({ name: `x${n}`, ...part, macs: part.documented ? part.macs : [] }),
        );
        const straight = index(...all).recognise(said);
        const cut = turn % Math.max(1, all.length);
        const other = index(...[...all.slice(cut), ...all.slice(0, cut)].reverse());
        other.set(claim('gone', { macs: [A], uuid: U, serial: 'S1-1' }));
        other.remove('gone');
        const turned = { ...said, macs: [...said.macs].reverse() };
        expect(other.recognise(turned)).toEqual(straight);
        const alone: Evidence = { bootMac: said.bootMac, macs: [said.bootMac!], uuid: said.uuid };
        const owner = other.owner(said.bootMac!);
        if (owner !== undefined) expect(who(other.recognise(alone))).toBe(owner);
      }),
      { numRuns: 3000, seed: 20261120 },
    );
  });

  it('takes no longer when many machines share all identifiers', () => {
    const known = createRecognitionIndex();
    for (let n = 0; n < 20_000; n++) {
      const mac = `00:1b:22:${hex(n >> 16)}:${hex(n >> 8)}:${hex(n)}` as Mac;
      known.set(
        claim(`x${n}`, {
          documented: n % 2 === 0,
          macs: n % 2 ? [] : [mac],
          seenMacs: [mac, BMC],
          uuid: U,
          serial: 'SN-1',
        }),
      );
    }
    const started = process.cpuUsage();
    for (let n = 0; n < 1000; n++)
      known.recognise({ bootMac: NEW, macs: [NEW, BMC], uuid: U, serial: 'SN-1' });
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(500);
  });
});

const hex = (n: number) => (n & 255).toString(16).padStart(2, '0');

describe('placeholders', () => {
  it('are listed in the form in which they are compared', () => {
    for (const { value } of PLACEHOLDER_UUIDS) {
      expect(uuidKey(value)).toBeUndefined();
      expect(uuidKey(swapUuid(value))).toBeUndefined();
    }
    for (const { value } of PLACEHOLDER_SERIALS) expect(isPlaceholderSerial(value), value).toBe(true);
    for (const { value } of SHARED_MACS) expect(isUsableMac(value as Mac)).toBe(false);
    for (const { source } of [...PLACEHOLDER_UUIDS, ...PLACEHOLDER_SERIALS, ...SHARED_MACS])
      expect(source.length).toBeGreaterThan(3);
  });
  it.each([
    'To be filled by O.E.M.',
    'To Be Filled By O.E.M',
    'Default string',
    '  default   STRING ',
    '0123456789',
    '123456789',
    'None',
    '00000000',
    '.',
    '........',
    'xxxxxxx',
    '',
    'N/A',
    'System Serial Number',
  ])('%j is not a serial number', (text) => expect(serialKey(text)).toBeUndefined());
  it.each(['7XK9D42', 'CZ3 0123', 'ABC.1', '..CN7016'])('%j is a serial number', (text) =>
    expect(serialKey(text)).toBeDefined(),
  );
  it.each(['00:00:00:00:00:00', 'ff:ff:ff:ff:ff:ff', '01:00:5e:00:00:01'])(
    '%s identifies no machine',
    (mac) => expect(isUsableMac(mac as Mac)).toBe(false),
  );
  it('random addresses are fleeting, those of hypervisors are steady', () => {
    expect(isFleetingMac('a6:3f:5d:8a:7d:52' as Mac)).toBe(true);
    expect(isFleetingMac('52:54:00:aa:00:01' as Mac)).toBe(false);
  });
});

describe('an identity in a request', () => {
  it('skips everything that is not an Ethernet address, such as fibre channel names', () => {
    expect(
      readIdentity({
        macs: ['20-00-00-25-b5-00-00-0f', '', '52-54-00-AA-00-01', '5254.00aa.0001', 'nonsense'],
      }),
    ).toEqual({ macs: ['52:54:00:aa:00:01'] });
  });
  it('keeps only well-formed, printable and short values, and never throws', () => {
    fc.assert(
      fc.property(
        fc.record({
          macs: fc.array(fc.string()),
          uuid: fc.string(),
          serial: anyText({ maxLength: 400 }),
          manufacturer: anyText({ maxLength: 400 }),
          product: fc.string(),
          assetTag: fc.string(),
        }),
        (fields) => {
          const identity = readIdentity(fields);
          expect(identity.macs.length).toBeLessThanOrEqual(16);
          for (const text of [identity.serial, identity.manufacturer, identity.product])
            if (text !== undefined) {
              expect(text.length).toBeLessThanOrEqual(128);
              expect(text).not.toMatch(/[\p{Cc}\p{Zl}]/u);
            }
          serialKey(fields.serial);
          uuidKey(fields.uuid);
        },
      ),
      { numRuns: 150, seed: 7 },
    );
  });
});
