/** Which accelerator the rack uses: KVM only where it is known to run a guest. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { accelerator } from '../../../src/lab/kvm.files.ts';

let directory: string;
let cacheFile: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-kvm-'));
  cacheFile = path.join(directory, 'lab/accelerator');
});
afterEach(() => {
  vi.unstubAllEnvs();
  fs.rmSync(directory, { recursive: true });
});

const VERSION = 'QEMU emulator version 9.9';
/**
 * A fake QEMU: prints its version, and boots by running `guest`, with the console's file in
 * $console. Each boot is noted.
 */
function qemu(guest: string): void {
  const program = path.join(directory, 'qemu-system-x86_64');
  const text = `#!/bin/sh
[ "$1" = --version ] && { echo '${VERSION}'; echo Copyright; exit; }
echo boot >>'${directory}/boots'
for word; do case $word in file:*) console=\${word#file:} ;; esac; done
${guest}
`;
  fs.writeFileSync(program, text, { mode: 0o755 });
  vi.stubEnv('PATH', `${directory}:${process.env.PATH}`);
}
const boots = () => fs.readFileSync(path.join(directory, 'boots'), 'utf8').trim().split('\n').length;
const device = (name: string): string => {
  const at = path.join(directory, name);
  fs.writeFileSync(at, '');
  return at;
};
const ask = (kvm: string) => accelerator({ cacheFile, kernel: 'kernel', initrd: 'initrd', device: kvm });

test('without the device the rack emulates; nothing is started and nothing is remembered', async () => {
  qemu('exit 0');
  expect(await ask(path.join(directory, 'no-such-device'))).toBe('tcg');
  expect(fs.readdirSync(directory)).toEqual(['qemu-system-x86_64']);
});

test('a guest that prints its first line proves KVM, once for this kernel and this QEMU', async () => {
  qemu('echo "muster: probe system" >"$console"; exec sleep 60');
  const kvm = device('kvm');
  expect([await ask(kvm), await ask(kvm), boots()]).toEqual(['kvm', 'kvm', 1]);
  const kernel = execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim();
  expect(fs.readFileSync(cacheFile, 'utf8')).toBe(`${kernel} ${VERSION}\nkvm\n`);
});

test('a device that runs no guest is not used, and that is remembered too', async () => {
  qemu('exit 1');
  const kvm = device('kvm');
  expect([await ask(kvm), await ask(kvm), boots()]).toEqual(['tcg', 'tcg', 1]);
});

test.each([
  ['of another kernel', `2.6.32 ${VERSION}\nkvm\n`],
  ['of another QEMU', `${os.release()} QEMU emulator version 1.0\nkvm\n`],
  ['that is no answer', `${os.release()} ${VERSION}\nmaybe\n`],
])('an answer %s does not count', async (_, known) => {
  qemu('exit 1');
  fs.mkdirSync(path.dirname(cacheFile));
  fs.writeFileSync(cacheFile, known);
  expect([await ask(device('kvm')), boots()]).toEqual(['tcg', 1]);
  expect(fs.readFileSync(cacheFile, 'utf8')).toBe(`${os.release()} ${VERSION}\ntcg\n`);
});
