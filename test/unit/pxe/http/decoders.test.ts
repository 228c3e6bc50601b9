import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { askedBy, MAX_LOG_TAIL, reportIn } from '../../../../src/pxe/http/asked.ts';
import { selectRange } from '../../../../src/pxe/http/range.ts';
import { MACHINE_ROUTES, machinePath } from '../../../../src/pxe/http/routes.ts';
import { fields, parseTarget } from '../../../../src/pxe/http/target.ts';
import { anyText } from '../../texts.ts';
import { withoutTraces } from '../../traces.ts';
import { mutant, xorshift } from '../tftp/mutate.ts';

describe('routes', () => {
  it('are found again by the paths that are built from them', () => {
    const params = {
      session: 'AbC_-9',
      boot: 'dEf_-8',
      sha256: 'a'.repeat(64),
      name: 'vmlinuz+1.x',
      what: 'kernel',
      disk: 'S4EVNF0M',
      at: '4194304',
    };
    for (const route of Object.keys(MACHINE_ROUTES) as (keyof typeof MACHINE_ROUTES)[])
      expect(parseTarget(`${machinePath(route, params)}?a=b#c`)).toMatchObject({
        kind: 'route',
        route,
        query: 'a=b',
      });
  });

  it('need all their parameters', () =>
    expect(() => machinePath('asset', { sha256: 'x' })).toThrow(RangeError));
});

describe('a range', () => {
  it('is always inside the file, and never empty', () => {
    fc.assert(
      fc.property(
        fc.nat(1000),
        fc.nat(1200),
        fc.nat(1200),
        fc.constantFrom('ab', 'a', 'b'),
        (size, a, b, form) => {
          const answer = selectRange(
            `bytes=${form.includes('a') ? a : ''}-${form.includes('b') ? b : ''}`,
            size,
          );
          if (answer.kind !== 'part') return;
          expect(answer.first).toBeLessThanOrEqual(answer.last);
          expect(answer.last).toBeLessThan(size);
        },
      ),
    );
  });
});

describe('what a machine writes', () => {
  it('is read without a throw, within its bounds, 250,000 times', () =>
    withoutTraces(() => {
      const seed = 0x7f7b0003;
      console.log(`fuzz seed ${seed}`);
      const random = xorshift(seed);
      const seeds = [
        '/boot/4c1yX9_-/script.ipxe?mac=52-54-00-aa-00-01&macs=52-54-00-aa-00-01,52-54-00-aa-00-02,,&uuid=4c4c4544-0042-3510-8051-b7c04f4d3532&serial=AB%20C&manufacturer=Dell%20Inc.&product=&asset=%FF&arch=i386&platform=pcbios',
        'http://10.0.0.1:8080/loaders/ipxe.efi',
        `//assets//${'a'.repeat(64)}/vmlinuz`,
        '/loaders/%2e%2e/%2e%2e/etc/passwd',
        '/loaders/..%2f..%5c%00',
        'step=failed&detail=no+disk&log=%0a%C3%A4+x',
        'bytes=0-499',
        '',
      ].map((text) => Buffer.from(text));
      const kinds = new Set<string>();
      for (let n = 0; n < 250_000; n++) {
        const text = mutant(seeds, random).toString('latin1');
        const target = parseTarget(text);
        kinds.add(target.kind);
        if (target.kind === 'route') {
          for (const value of Object.values(target.params))
            if (value === '.' || value === '..' || /[/\\\0\n]/.test(value))
              throw new Error(`a path escaped: ${text}`);
        }
        const asked = askedBy(target.kind === 'route' ? target.query : text);
        if (asked.identity.macs.length > 17 || (asked.identity.serial?.length ?? 0) > 128)
          throw new Error(`no bound: ${text}`);
        const report = reportIn(text);
        if (typeof report !== 'string' && (report.logTail?.length ?? 0) > MAX_LOG_TAIL)
          throw new Error('a long log');
        const range = selectRange(text, 1000);
        if (range.kind === 'part' && (range.first > range.last || range.last > 999))
          throw new Error('a bad range');
      }
      expect([...kinds].sort()).toEqual(['malformed', 'nowhere', 'route']);
    }));

  it('in a field survives encoding, whatever it was', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        const encoded = encodeURIComponent(text);
        expect(fields(`a=1&x=${encoded}&x=2`, { form: false }).get('x')).toBe(text);
        expect(fields(`x=${encoded.replaceAll('%20', '+')}`, { form: true }).get('x')).toBe(text);
      }),
    );
  });

  it('may hold an ampersand that iPXE did not encode', () => {
    const { identity, arch } = askedBy(
      'mac=52-54-00-aa-00-01&arch=x86_64&serial=A&B;1&arch=arm64&manufacturer=C%26D&product=&asset=&&x=1&mac=52-54-00-aa-00-02',
    );
    expect(arch).toBe('x86_64');
    expect(identity).toMatchObject({
      serial: 'A B 1 arch arm64',
      manufacturer: 'C&D',
      assetTag: expect.any(String),
    });
    expect(identity.macs).toEqual(['52:54:00:aa:00:01']);
  });

  it('as an address is used only if an interface can have it', () => {
    const { identity, bootMac } = askedBy(
      'mac=00-00-00-00-00-00&macs=ff-ff-ff-ff-ff-ff,01-00-5e-00-00-01,52-54-00-aa-00-01',
    );
    expect(bootMac).toBeUndefined();
    expect(identity.macs).toEqual(['52:54:00:aa:00:01']);
    expect(askedBy('uuid=00000000-0000-0000-0000-000000000000').identity.uuid).toBeUndefined();
    expect(askedBy('uuid=ffffffff-ffff-ffff-ffff-ffffffffffff').identity.uuid).toBeUndefined();
  });
});
