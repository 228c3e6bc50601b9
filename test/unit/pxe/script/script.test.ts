import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Millis } from '../../../../src/base/duration.ts';
import { kernelArgumentFault } from '../../../../src/base/kernel-argument.ts';
import type { Mac } from '../../../../src/base/mac.ts';
import { consoleText } from '../../../../src/pxe/script/console.ts';
import { kernelCommandLine } from '../../../../src/pxe/script/kernel-arguments.ts';
import {
  type BootScriptInput,
  bootScript,
  diskScript,
  entryScript,
  holdScript,
  startScript,
} from '../../../../src/pxe/script/script.ts';

const GOLDEN = path.join(import.meta.dirname, '../../../golden/script');
const base = { baseUrl: 'http://10.77.0.1:8080', session: 'V1StGXR8_Z5jdHi6B-myTA' };
const asking = { baseUrl: base.baseUrl, boot: 'V1StGXR8_Z5jdHi6B-myTA' };
const boot: BootScriptInput = {
  ...base,
  mac: '52:54:00:aa:00:01' as Mac,
  machine: 'node-1',
  profile: 'worker',
  image: 'debian-13',
  kernel: { sha256: 'a'.repeat(64), name: 'vmlinuz' },
  initrds: [{ sha256: 'b'.repeat(64), name: 'initrd.img' }, { sha256: 'c'.repeat(64) }],
  root: { sha256: 'd'.repeat(64), name: 'root.squashfs' },
  kernelArguments: [
    'console=ttyS0,115200n8',
    'dyndbg="file drivers/net/* +p"',
    'ds=nocloud;s=http://10.77.0.1:8080/boot/V1StGXR8_Z5jdHi6B-myTA/',
  ],
  time: 1_763_633_472_123 as Millis,
};

const scripts = {
  'start.ipxe': startScript(asking),
  'entry.ipxe': entryScript(base),
  'boot.ipxe': bootScript(boot),
  'boot-minimal.ipxe': bootScript({ ...boot, initrds: [], root: undefined, kernelArguments: [] }),
  'hold.ipxe': holdScript({
    ...asking,
    machine: 'm-525400aa0001',
    identity: '52:54:00:aa:00:01, QEMU, Standard PC (Q35 + ICH9, 2009)',
    reason: 'No document knows this machine. Accept it with `muster machine accept`.',
    remedy: 'muster machine accept m-525400aa0001 --profile PROFILE',
  }),
  'disk.ipxe': diskScript({ machine: 'node-1', reason: 'The profile says to boot from disk.' }),
};

/**
 * Commands of the iPXE that Debian 12 ships (git 36a4c85 of January 2019; listed from its
 * `ipxe.efi`).
 */
const COMMANDS_2019 = new Set(
  'boot chain clear cpuid dhcp echo exit goto imgfree inc initrd iseq isset kernel reboot sanboot set show sleep'.split(
    ' ',
  ),
);

/**
 * The commands of a script line as iPXE splits it: at blanks, then at `&&`, `||`, `;`; `#` begins a
 * comment.
 */
function commandsOf(line: string): string[][] {
  const commands: string[][] = [[]];
  for (const word of line.split(/\s+/).filter(Boolean)) {
    if (word.startsWith('#')) break;
    if (['&&', '||', ';'].includes(word)) commands.push([]);
    else commands.at(-1)!.push(word);
  }
  return commands.filter((words) => words.length > 0);
}

describe.each(Object.entries(scripts))('the script %s', (name, text) => {
  it('is the golden one', () => {
    const file = path.join(GOLDEN, name);
    if (process.env.UPDATE_GOLDEN) fs.writeFileSync(file, text);
    expect(text).toBe(fs.readFileSync(file, 'utf8'));
  });

  it('uses only commands that the iPXE of Debian 12 and of QEMU has', () => {
    for (const line of text.split('\n').slice(1))
      for (const [command] of commandsOf(line.replace(/^:\S+/, ''))) expect(COMMANDS_2019).toContain(command);
  });

  it('jumps only to labels that it has, and has each label once', () => {
    const labels = [...text.matchAll(/^:(\S+)/gm)].map(([, label]) => label!);
    expect(new Set(labels).size).toBe(labels.length);
    for (const [, label] of text.matchAll(/goto (\S+)/g)) expect(labels).toContain(label);
  });

  it('does not end at a line that fails: every command that may fail has an alternative', () => {
    for (const line of text.split('\n').slice(1)) {
      const first = commandsOf(line)[0]?.[0];
      if (first === undefined || first.startsWith(':') || ['set', 'goto', 'exit'].includes(first)) continue;
      expect(line, line).toContain('||');
    }
  });

  it('ends with a command that leaves it', () => {
    expect(text).toMatch(/^#!ipxe\n/);
    expect(text.trimEnd().split('\n').at(-1)).toBe('exit 1');
  });
});

describe('the first script', () => {
  it('is constant text for a session, short enough for any loader', () => {
    expect(startScript(asking)).toBe(startScript(asking));
    expect(scripts['start.ipxe'].length).toBeLessThan(2048);
  });

  it('sends the boot NIC, all NICs and the board’s identity', () => {
    for (const asked of [
      'mac=${netX/mac:hexhyp}',
      '${net7/mac:hexhyp}',
      'uuid=${uuid}',
      'serial=${serial:uristring}',
    ])
      expect(scripts['start.ipxe']).toContain(asked);
  });
});

describe('text from documents and machines in a script', () => {
  it('is only words on the console, whatever it was', () => {
    const hostile = fc.string({ unit: fc.constantFrom(...'${}|&;#\\\n\r\t :`"\'abc…é\0'), maxLength: 80 });
    fc.assert(
      fc.property(hostile, hostile, (identity, reason) => {
        const text = holdScript({ ...asking, machine: 'm', identity, reason, remedy: 'x' });
        const clean = holdScript({ ...asking, machine: 'm', identity: 'y', reason: 'y', remedy: 'x' });
        expect(text.split('\n').length).toBe(clean.split('\n').length);
        const shape = (script: string) =>
          script.split('\n').map((line) => commandsOf(line).map(([command]) => command));
        expect(shape(text)).toEqual(shape(clean));
        expect([...text.matchAll(/\$\{/g)].length).toBe([...clean.matchAll(/\$\{/g)].length);
      }),
      { numRuns: 2000 },
    );
  });

  it('is cut to what a console shows', () => expect(consoleText('a'.repeat(1000)).length).toBe(200));

  it.each([
    'a${net0/mac}',
    'a\nb',
    'a\tb',
    '#a',
    'a #b',
    '||',
    'a && b',
    '"a ; b"',
    'a\\',
    '',
    ' a',
    'a  b',
    'ä',
    'x="a b',
  ])('%j cannot be a kernel argument', (argument) => {
    expect(kernelArgumentFault(argument)).toBeTypeOf('string');
    expect(() => bootScript({ ...boot, kernelArguments: [argument] })).toThrow(
      expect.objectContaining({ code: 'E_KERNEL_ARGUMENT' }),
    );
  });

  it.each([
    'quiet',
    'ds=nocloud;s=http://x/',
    'a="b c"',
    'x=a||b',
    'p=#1',
    'systemd.mask=a.service',
    '--',
    'a$b',
    'a{b}',
  ])('%j can', (argument) => expect(kernelArgumentFault(argument)).toBeUndefined());

  it('arrives word for word as kernel arguments, or is refused', () => {
    const words = fc.array(fc.string({ unit: fc.constantFrom(...'ab=,.;:/-"${}#|& \\'), maxLength: 12 }), {
      maxLength: 5,
    });
    fc.assert(
      fc.property(words, (list) => {
        if (list.some((argument) => kernelArgumentFault(argument) !== undefined)) return;
        const [command, ...rest] = commandsOf(`kernel URL ${kernelCommandLine(list)}`);
        expect(rest).toEqual([]);
        // iPXE joins the words after the URL with one blank.
        expect(command!.slice(2).join(' ')).toBe(list.join(' '));
      }),
      { numRuns: 3000 },
    );
  });

  it('that is longer than a kernel accepts is refused', () =>
    expect(() => kernelCommandLine(Array.from({ length: 300 }, (_, n) => `a${n}=bcdef`))).toThrow(
      /characters long/,
    ));
});
