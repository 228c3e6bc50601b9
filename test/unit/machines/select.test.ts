import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Mac } from '../../../src/base/mac.ts';
import { type NamedProfile, type Selectable, select, selectable } from '../../../src/machines/select.ts';

const profile = (name: string, selector?: object): NamedProfile => ({
  name,
  spec: { ...(selector ? { selector } : {}) } as NamedProfile['spec'],
});
const node = (more: Partial<Selectable> = {}): Selectable => ({
  spec: { macs: ['52:54:00:aa:00:01'] },
  macs: ['52:54:00:aa:00:01' as Mac],
  arch: 'x86_64',
  firmware: 'uefi',
  network: 'rack',
  manufacturer: 'QEMU',
  labels: { row: 'a', role: 'db' },
  ...more,
});

describe('selecting a profile', () => {
  it('takes the profile that the document names, with or without selectors', () => {
    const found = select(node({ spec: { macs: [], profile: 'b' } }), [
      profile('a', { arch: 'x86_64' }),
      profile('b'),
    ]);
    expect(found).toMatchObject({ kind: 'selected', explicit: true, profile: { name: 'b' } });
  });

  it('reports a named profile that does not exist, and does not fall back', () => {
    expect(select(node({ spec: { macs: [], profile: 'x' } }), [profile('a', { arch: 'x86_64' })])).toEqual({
      kind: 'missing',
      profile: 'x',
    });
  });

  it('takes the profile with most matching selectors and says which matched', () => {
    const found = select(node(), [
      profile('general', { arch: 'x86_64' }),
      profile('special', { arch: 'x86_64', labels: { row: 'a' } }),
      profile('other', { arch: 'x86_64', firmware: 'bios', labels: { row: 'a' } }),
    ]);
    expect(found).toMatchObject({
      profile: { name: 'special' },
      explicit: false,
      matched: ['arch=x86_64', 'labels.row=a'],
    });
  });

  it('takes the first profile by name among equals', () => {
    expect(
      select(node(), [profile('b', { arch: 'x86_64' }), profile('a', { firmware: 'uefi' })]),
    ).toMatchObject({
      profile: { name: 'a' },
    });
  });

  it('reads an address prefix in any usual spelling', () => {
    for (const mac of ['52:54:00:*', '52-54-00-AA-*', '52:54:00:aa:00:01'])
      expect(select(node(), [profile('a', { mac })]).kind, mac).toBe('selected');
    expect(select(node(), [profile('a', { mac: '52:54:01:*' })]).kind).toBe('none');
  });

  it('selects no machine by a profile without selectors', () => {
    expect(select(node(), [profile('a'), profile('b', {})]).kind).toBe('none');
  });

  it('does not depend on the order of profiles', () => {
    const selector = fc.record(
      {
        arch: fc.constantFrom('x86_64', 'aarch64'),
        firmware: fc.constantFrom('bios', 'uefi'),
        network: fc.constantFrom('rack', 'lab'),
        manufacturer: fc.constantFrom('QEMU', 'Dell'),
        labels: fc.dictionary(fc.constantFrom('row', 'role'), fc.constantFrom('a', 'db')),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(selector, { maxLength: 8 }), fc.nat(), (selectors, cut) => {
        const profiles = selectors.map((one, n) => profile(`p${n}`, one));
        const turned = [...profiles.slice(cut % 8), ...profiles.slice(0, cut % 8)].reverse();
        expect(select(node(), turned)).toEqual(select(node(), profiles));
      }),
      { seed: 3, numRuns: 500 },
    );
  });

  it('knows in advance which profiles are possible, whatever a boot reports about the machine', () => {
    const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 1 });
    const seen = {
      arch: some(fc.constantFrom('x86_64' as const, 'aarch64' as const)),
      firmware: some(fc.constantFrom('bios' as const, 'uefi' as const)),
      serial: some(fc.constantFrom('S1', 'S2')),
    };
    const given = (fields: object) =>
      Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
    const selectors = fc.array(
      fc.record({ ...seen, labels: some(fc.constantFrom({ row: 'a' }, { row: 'b' })) }).map(given),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(selectors, fc.record(seen), (list, boot) => {
        const profiles = list.map((one, n) => profile(`p${n}`, one));
        const document: Selectable = { spec: { macs: [] }, macs: [], labels: { row: 'a' } };
        const found = select({ ...document, ...given(boot) }, profiles);
        expect(selectable(document, profiles)).toContain(
          found.kind === 'selected' ? found.profile : undefined,
        );
      }),
      { numRuns: 2000 },
    );
  });
});
