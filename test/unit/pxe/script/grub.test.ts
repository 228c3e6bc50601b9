/** Scripts for GRUB carry out the same decisions as those for iPXE. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { millis } from '../../../../src/base/duration.ts';
import { silentLog } from '../../../../src/base/log.ts';
import type { Mac } from '../../../../src/base/mac.ts';
import { readLoaders, writeOwnLoaders } from '../../../../src/pxe/assets/loaders.files.ts';
import { grubBootScript, grubConfig, grubHoldScript } from '../../../../src/pxe/script/grub.ts';
import { type BootScriptInput, bootScript } from '../../../../src/pxe/script/script.ts';
import { loaderName } from '../../../../src/pxe/tftp/request.ts';
import { openWorld, type World } from '../../api/world.ts';

const INPUT: BootScriptInput = {
  ...{ baseUrl: 'http://10.77.0.1:8080', session: 'SESSION', mac: '52:54:00:aa:00:01' as Mac },
  ...{ machine: 'node-1', profile: 'worker', image: 'debian-13' },
  kernel: { sha256: 'a'.repeat(64), name: 'vmlinuz' },
  initrds: [{ sha256: 'b'.repeat(64) }, { sha256: 'c'.repeat(64) }],
  root: { sha256: 'd'.repeat(64), name: 'root.squashfs' },
  kernelArguments: ['console=ttyS0,115200n8', 'ds=nocloud;s=http://10.77.0.1:8080/boot/SESSION/'],
  time: millis(1_700_000_000_000),
};
/** The words of a line, as GRUB and a shell read quotes. */
const words = (line: string): readonly string[] =>
  execFileSync('sh', ['-c', `printf '%s\\n' ${line}`], { encoding: 'utf8' })
    .trimEnd()
    .split('\n');

describe('a script for GRUB', () => {
  it('loads kernel and initrds by HTTP, with the arguments that iPXE’s script has', () => {
    const script = grubBootScript(INPUT);
    const [, kernel, ...line] = words(/^if (linux .*) ; then$/m.exec(script)![1]!);
    expect(kernel).toBe(`(http,10.77.0.1:8080)/assets/${'a'.repeat(64)}/vmlinuz`);
    const ipxe = /kernel --name vmlinuz \S+ (.*?) &&/.exec(bootScript(INPUT))![1]!.split(' ');
    expect(line.filter((word) => !word.startsWith('BOOTIF='))).toEqual(
      ipxe.filter((word) => !word.startsWith('BOOTIF=') && !word.startsWith('initrd=')),
    );
    expect(line).toContain('BOOTIF=01-52-54-00-aa-00-01');
    expect(words(/if (initrd .*) ; then boot/.exec(script)![1]!)).toHaveLength(3);
  });

  it('tells the boot host which file could not be loaded, and starts over', () => {
    const script = grubBootScript(INPUT);
    for (const what of ['kernel', 'initrd'])
      expect(script).toContain(`configfile '(http,10.77.0.1:8080)/boot/SESSION/refused/${what}'`);
    expect(script).toMatch(/sleep 30\nreboot\n$/);
  });

  it('says why a machine is held in whatever words, and never runs them', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (reason) => {
        const script = grubHoldScript({
          ...{ baseUrl: INPUT.baseUrl, boot: 'b', machine: 'm', identity: 'i', remedy: 'r', reason },
        });
        const lines = script.trimEnd().split('\n');
        expect(lines).toHaveLength(6);
        expect(words(lines[1]!.slice('echo '.length))).toHaveLength(1);
      }),
      { numRuns: 20 },
    );
  });

  it('refuses an argument with quotes, which GRUB would change', () => {
    for (const argument of ['a="b c"', "it's", 'a\\b'])
      expect(() => grubBootScript({ ...INPUT, kernelArguments: [argument] })).toThrow('cannot pass quotes');
  });

  it('is asked for by a configuration that GRUB finds by TFTP', () => {
    expect(grubConfig(8080)).toContain(
      'configfile "(http,$net_default_server:8080)/boot.grub?mac=$net_default_mac&arch=$grub_cpu&platform=efi"',
    );
    for (const name of ['/grub/grub.cfg', 'grub/grub.cfg', 'grub.cfg'])
      expect(loaderName(name), name).toBe('grub.cfg');
    expect(loaderName('grub/other.cfg')).toBeUndefined();
  });
});

it('Debian’s signed loaders are there by the names that firmware and shim ask for', () => {
  const home = mkdtempSync(join(tmpdir(), 'muster-signed-'));
  const own = writeOwnLoaders({ state: home, httpPort: 8081 });
  for (const name of ['shimx64.efi.signed', 'grubnetx64.efi.signed', 'grubx64.efi.signed'])
    writeFileSync(join(home, name), name);
  const loaders = readLoaders([own, home], silentLog);
  expect(loaders.get('shimx64.efi')?.path).toBe(join(home, 'shimx64.efi.signed'));
  // Not the GRUB that looks for its configuration on a disk.
  expect(loaders.get('grubx64.efi')?.path).toBe(join(home, 'grubnetx64.efi.signed'));
  expect(readFileSync(loaders.get('grub.cfg')!.path, 'utf8')).toContain(
    '$net_default_server:8081)/boot.grub',
  );
  rmSync(home, { recursive: true });
});

describe('a machine with Secure Boot', () => {
  let world: World;
  beforeEach(async () => {
    world = await openWorld();
  });
  afterEach(() => world.close());
  const asks = (loader?: 'grub') =>
    world.boot.script({
      boot: undefined,
      identity: { macs: ['52:54:00:aa:00:01' as Mac] },
      bootMac: '52:54:00:aa:00:01' as Mac,
      peer: '10.77.0.100',
      baseUrl: 'http://10.77.0.1:8080',
      network: undefined,
      ...(loader && { loader }),
    });

  it('gets the decision that it would get by iPXE, as a script for GRUB', async () => {
    const [ipxe, grub] = [await asks(), await asks('grub')];
    expect(grub.decision).toEqual(ipxe.decision);
    expect(ipxe.script).toMatch(/^#!ipxe\n/);
    expect(grub.script).toMatch(/^echo 'Muster: /);
  });
});
