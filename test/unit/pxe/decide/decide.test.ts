import { describe, expect, it } from 'vitest';
import type { Selection } from '../../../../src/machines/select.ts';
import type { BootStage } from '../../../../src/pxe/client.ts';
import {
  BOOT_LIMIT,
  type BootFacts,
  decide,
  judge,
  loaderFile,
  type Readiness,
  type Recognised,
  remedy,
  type Verdict,
} from '../../../../src/pxe/decide/decide.ts';
import { type BootDecision, REASONS, type ReasonCode } from '../../../../src/pxe/decide/decision.ts';
import { ARCHITECTURES } from '../../../../src/pxe/firmware/architectures.ts';
import { firmwareServed, loaderFor, loaderNames } from '../../../../src/pxe/firmware/loaders.ts';
import { MACHINE_ROUTES } from '../../../../src/pxe/http/routes.ts';

const selected = (spec: object, name = 'worker'): Selection => ({
  kind: 'selected',
  explicit: true,
  matched: [],
  profile: { name, spec },
});
const known = (selection: Selection, bootsWithoutReady = 0): Recognised => ({
  kind: 'known',
  selection,
  bootsWithoutReady,
});
const boots = selected({ image: 'debian' });
const onDisk = selected({ image: 'server', home: 'disk' });
const on = (state: 'ordered' | 'writing' | 'written' | 'installed', bootsWithoutReady = 0) =>
  ({ ...known(onDisk, bootsWithoutReady), install: { at: 0, state, disk: 'D' } }) as Recognised;
const script: Verdict = judge(known(boots));
const hold: Verdict = judge({ kind: 'unknown' });
const everything = () => true;

describe('the verdict on a machine', () => {
  const table: readonly (readonly [Recognised, Readiness, BootDecision['kind'], ReasonCode])[] = [
    [{ kind: 'unknown' }, {}, 'hold', 'unknown_machine'],
    [{ kind: 'conflict', machines: ['a', 'b'] }, {}, 'hold', 'identity_conflict'],
    [{ kind: 'conflict', machines: ['a'] }, {}, 'hold', 'identity_conflict'],
    [{ kind: 'conflict', machines: ['a'], contradicted: true }, {}, 'hold', 'identity_contradicted'],
    [known({ kind: 'none' }), {}, 'hold', 'no_profile'],
    [known({ kind: 'none', awaiting: ['big'] }), {}, 'hold', 'no_inventory'],
    [known({ kind: 'missing', profile: 'x' }), {}, 'hold', 'profile_missing'],
    [known(selected({ boot: 'ignore' })), {}, 'ignore', 'profile_ignores'],
    [known(selected({ boot: 'hold' })), {}, 'hold', 'profile_holds'],
    [known(selected({ boot: 'disk' })), {}, 'disk', 'profile_disk'],
    [known(selected({})), {}, 'hold', 'image_missing'],
    [known(boots), {}, 'script', 'boots_profile'],
    [known(boots), { image: { missing: 'It is gone.' } }, 'hold', 'image_missing'],
    [known(boots), { image: { arch: 'aarch64' }, arch: 'x86_64' }, 'hold', 'arch_mismatch'],
    [known(boots), { image: { arch: 'aarch64' } }, 'script', 'boots_profile'],
    [known(boots), { image: { arch: 'x86_64' }, arch: 'x86_64' }, 'script', 'boots_profile'],
    [known(boots), { configFault: 'no such variable' }, 'hold', 'config_invalid'],
    [known(boots), { loaderMissing: 'own.efi' }, 'hold', 'loader_missing'],
    [known(onDisk), { image: { arch: 'x86_64', disk: true } }, 'script', 'installs'],
    [known(onDisk), { image: { arch: 'x86_64' } }, 'hold', 'home_unfit'],
    [known(boots), { image: { arch: 'x86_64', disk: true } }, 'hold', 'home_unfit'],
    [on('ordered'), { image: { arch: 'x86_64', disk: true } }, 'script', 'installs'],
    [on('writing'), { image: { arch: 'x86_64', disk: true } }, 'script', 'installs'],
    [on('written'), {}, 'disk', 'installed'],
    [on('written', BOOT_LIMIT), {}, 'hold', 'boot_loop'],
    [on('installed', BOOT_LIMIT), {}, 'disk', 'installed'],
    [known(boots, BOOT_LIMIT - 1), {}, 'script', 'boots_profile'],
    [known(boots, BOOT_LIMIT), {}, 'hold', 'boot_loop'],
    [known(boots, BOOT_LIMIT + 7), { image: { missing: 'x' } }, 'hold', 'boot_loop'],
    [{ ...known(boots, BOOT_LIMIT), alive: true } as Recognised, {}, 'hold', 'alive'],
    [{ ...known(selected({ boot: 'disk' })), alive: true } as Recognised, {}, 'hold', 'alive'],
    [{ ...known(selected({ boot: 'ignore' })), alive: true } as Recognised, {}, 'ignore', 'profile_ignores'],
    // The loop guard counts boots of images, not of disks.
    [known(selected({ boot: 'disk' }), 99), {}, 'disk', 'profile_disk'],
  ];
  it.each(table)('of %j with %j is %s, %s', (machine, readiness, kind, code) => {
    const verdict = judge(machine, readiness);
    expect(verdict).toMatchObject({ kind, reason: { code } });
    expect(verdict.reason.text.startsWith(REASONS[code])).toBe(true);
  });

  it('never boots a machine that nobody accepted, whatever else is true', () => {
    for (const machine of [{ kind: 'unknown' }, { kind: 'conflict', machines: ['a'] }] as const)
      for (const readiness of table.map((row) => row[1])) expect(judge(machine, readiness).kind).toBe('hold');
  });

  it('names what ends it, wherever something has to be done', () => {
    const quiet: ReasonCode[] = [
      'boots_profile',
      'chainload',
      'fetch_script',
      'not_a_boot_client',
      'profile_disk',
      'installs',
      'wipes',
      'installed',
    ];
    for (const code of Object.keys(REASONS) as ReasonCode[]) {
      const text = remedy({ code, text: '' }, { subject: 'node-1', recorded: true });
      if (quiet.includes(code)) expect(text, code).toBeUndefined();
      else expect(text!.length, code).toBeGreaterThan(10);
    }
  });
});

describe('the answer to DHCP', () => {
  const facts = (more: Partial<BootFacts>): BootFacts => ({
    stage: 'pxe',
    archCode: 0,
    mode: 'server',
    verdict: script,
    installed: everything,
    loaderRan: false,
    ...more,
  });

  /** stage, demanded loader, loader ran → decision */
  const table: readonly (readonly [Partial<BootFacts>, BootDecision['kind'], ReasonCode, loader?: string])[] =
    [
      [{ stage: 'none' }, 'ignore', 'not_a_boot_client'],
      [{ mode: 'off' }, 'ignore', 'network_off'],
      [{ stage: 'pxe' }, 'loader', 'chainload', 'undionly.kpxe'],
      [{ stage: 'pxe', loaderRan: true }, 'loader', 'chainload', 'undionly.kpxe'],
      [{ stage: 'pxe', archCode: 7 }, 'loader', 'chainload', 'ipxe.efi'],
      [{ stage: 'pxe', archCode: 9 }, 'loader', 'chainload', 'ipxe.efi'],
      [{ stage: 'pxe', archCode: 11 }, 'loader', 'chainload', 'ipxe-arm64.efi'],
      [{ stage: 'pxe', archCode: 6 }, 'loader', 'chainload', 'ipxe-i386.efi'],
      [{ stage: 'pxe', archCode: undefined }, 'loader', 'chainload', 'undionly.kpxe'],
      [{ stage: 'pxe', archCode: 2 }, 'ignore', 'arch_unsupported'],
      [{ stage: 'pxe', archCode: 41 }, 'ignore', 'arch_unsupported'],
      [{ stage: 'pxe', archCode: undefined, family: 'u-boot' }, 'ignore', 'arch_unsupported'],
      [{ stage: 'pxe', archCode: 41, loaderOverride: 'pi.img' }, 'loader', 'chainload', 'pi.img'],
      [{ stage: 'pxe', archCode: 7, loaderOverride: 'snponly.efi' }, 'loader', 'chainload', 'snponly.efi'],
      [{ stage: 'pxe', archCode: 0, loaderOverride: 'snponly.efi' }, 'loader', 'chainload', 'undionly.kpxe'],
      [{ stage: 'pxe', archCode: 7, loaderOverride: 'own.kpxe' }, 'loader', 'chainload', 'ipxe.efi'],
      [{ stage: 'ipxe', archCode: 0, loaderOverride: 'own.efi' }, 'script', 'fetch_script'],
      [{ stage: 'pxe', installed: () => false }, 'ignore', 'loader_missing'],
      [{ stage: 'http', archCode: 16 }, 'loader', 'chainload', 'ipxe.efi'],
      [{ stage: 'http', archCode: undefined }, 'loader', 'chainload', 'ipxe.efi'],
      [{ stage: 'ipxe' }, 'script', 'fetch_script'],
      [{ stage: 'ipxe', loaderRan: true }, 'script', 'fetch_script'],
      [{ stage: 'ipxe', archCode: 7, loaderOverride: 'own.efi' }, 'loader', 'chainload', 'own.efi'],
      [{ stage: 'ipxe', archCode: 7, loaderOverride: 'own.efi', loaderRan: true }, 'script', 'fetch_script'],
      [
        { stage: 'ipxe', archCode: 7, loaderOverride: 'own.efi', installed: () => false },
        'script',
        'fetch_script',
      ],
      [{ stage: 'ipxe-tftp' }, 'loader', 'chainload', 'ipxe.pxe'],
      [{ stage: 'ipxe-tftp', archCode: 7 }, 'loader', 'chainload', 'ipxe.efi'],
      [{ stage: 'ipxe-tftp', loaderRan: true }, 'ignore', 'loader_loop'],
      [{ stage: 'ipxe-tftp', loaderRan: true, loaderOverride: 'own.efi' }, 'ignore', 'loader_loop'],
    ];
  it.for(table)('%j gives %s, %s', ([more, kind, code, loader]) => {
    const decision = decide(facts(more));
    expect(decision).toMatchObject({ kind, reason: { code }, ...(loader ? { loader } : {}) });
  });

  it('leads an unknown machine as a known one, up to a script that holds it', () => {
    const stages: BootStage[] = ['pxe', 'http', 'ipxe', 'ipxe-tftp'];
    for (const stage of stages)
      for (const loaderRan of [false, true])
        for (const archCode of [undefined, ...ARCHITECTURES.map(({ code }) => code), 99]) {
          const one = decide(facts({ stage, loaderRan, archCode }));
          const other = decide(facts({ stage, loaderRan, archCode, verdict: hold }));
          if (one.kind === 'script') expect(other).toEqual(hold);
          else expect(other).toEqual(one);
        }
  });

  it('gives no boot file to a machine that is ignored, whatever asks', () => {
    const ignored = judge(known(selected({ boot: 'ignore' })));
    for (const stage of ['pxe', 'http', 'ipxe', 'ipxe-tftp'] as const)
      expect(decide(facts({ stage, verdict: ignored }))).toEqual(ignored);
  });

  it('gives an iPXE a loader at most once in a session', () => {
    for (const stage of ['ipxe', 'ipxe-tftp'] as const)
      for (const loaderOverride of [undefined, 'own.efi'])
        expect(decide(facts({ stage, archCode: 7, loaderOverride, loaderRan: true })).kind).not.toBe(
          'loader',
        );
  });

  it('a machine that only leaves to its disk gets a loader that returns to the firmware', () => {
    const verdict = { kind: 'disk', reason: { code: 'installed', text: '' } } as const;
    const given = (archCode: number, ...files: string[]) =>
      decide({ ...facts({ archCode, verdict }), installed: (name) => files.includes(name) });
    expect(given(7, 'ipxe.efi', 'snponly.efi')).toMatchObject({ loader: 'snponly.efi' });
    expect(given(7, 'ipxe.efi')).toMatchObject({ loader: 'ipxe.efi' });
    expect(given(0, 'undionly.kpxe', 'ipxe.pxe')).toMatchObject({ loader: 'undionly.kpxe' });
  });
});

describe('loaders', () => {
  it('take the first that is installed', () => {
    expect(loaderFor(7, { installed: (name) => name === 'snponly.efi' })).toEqual({
      ok: true,
      loader: 'snponly.efi',
    });
    expect(loaderFor(7, { installed: () => false })).toMatchObject({
      why: 'loader_missing',
      wanted: ['ipxe.efi', 'snponly.efi'],
    });
  });
  it('an iPXE in ROM gets a loader with native drivers before one with UNDI', () => {
    const given = (...files: string[]) =>
      loaderFor(0, { installed: (name) => files.includes(name), fromIpxe: true });
    expect(given('undionly.kpxe', 'ipxe.pxe')).toEqual({ ok: true, loader: 'ipxe.pxe' });
    expect(given('undionly.kpxe')).toEqual({ ok: true, loader: 'undionly.kpxe' });
  });
  it('a BIOS gets a loader with UNDI first, unless documents demand another one', () => {
    const installed = () => true;
    expect(loaderFor(0, { installed })).toEqual({ ok: true, loader: 'undionly.kpxe' });
    expect(loaderFor(0, { installed, override: 'ipxe.pxe' })).toEqual({ ok: true, loader: 'ipxe.pxe' });
  });
  it('serve the firmware whose loader is installed', () => {
    const served = (...files: string[]) => firmwareServed((name) => files.includes(name));
    expect(served('undionly.kpxe', 'snponly.efi')).toEqual(['x86 BIOS', 'x64 UEFI']);
    expect(served('grub.efi')).toEqual([]);
  });
  it('have each architecture once, and names without a path', () => {
    expect(new Set(ARCHITECTURES.map(({ code }) => code)).size).toBe(ARCHITECTURES.length);
    for (const name of loaderNames()) expect(name).toMatch(/^[a-z0-9.-]+$/);
  });
  it('loaders are named without a path to firmware, and by URL to iPXE and HTTP boot', () => {
    const name = (stage: BootStage) => loaderFile({ stage }, 'ipxe.efi', '10.77.0.1', 8080);
    expect(name('pxe')).toBe('ipxe.efi');
    expect(name('ipxe-tftp')).toBe('tftp://10.77.0.1/ipxe.efi');
    expect(name('http')).toBe(
      `http://10.77.0.1:8080${MACHINE_ROUTES.loader.path.replace(':name', 'ipxe.efi')}`,
    );
  });
});
