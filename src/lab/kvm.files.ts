/**
 * Finds out whether this host's KVM runs a guest. Nested virtual machines often have a KVM device
 * that does not work.
 */
import { accessSync, constants } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { run, start } from './process.files.ts';

/**
 * A guest that shows nothing for this long does not run. With KVM its first line takes one or two
 * seconds.
 */
const GUEST_WITHIN_MS = 8000;
const POLL_MS = 100;

/**
 * Boots the probe system's kernel for a few seconds under KVM and looks for its first line.
 * `cacheFile` stores the result for this kernel and this QEMU.
 */
export async function accelerator(options: {
  readonly cacheFile: string;
  readonly kernel: string;
  readonly initrd: string;
  /** Default: `/dev/kvm`. */
  readonly device?: string;
}): Promise<'kvm' | 'tcg'> {
  try {
    accessSync(options.device ?? '/dev/kvm', constants.R_OK | constants.W_OK);
  } catch {
    return 'tcg';
  }
  const version = (await run(['qemu-system-x86_64', '--version'])).out.split('\n')[0];
  const key = `${release()} ${version}`;
  const known = await readFile(options.cacheFile, 'utf8').catch(() => '');
  const [knownKey, answer] = known.split('\n');
  if (knownKey === key && (answer === 'kvm' || answer === 'tcg')) return answer;
  const found = (await runsGuest(options.kernel, options.initrd)) ? 'kvm' : 'tcg';
  await mkdir(join(options.cacheFile, '..'), { recursive: true });
  await writeFile(options.cacheFile, `${key}\n${found}\n`);
  return found;
}

async function runsGuest(kernel: string, initrd: string): Promise<boolean> {
  const directory = await mkdtemp(join(tmpdir(), 'muster-kvm-'));
  const console = join(directory, 'console');
  const qemu = await start('kvm probe', [
    ...['qemu-system-x86_64', '-accel', 'kvm', '-cpu', 'host', '-machine', 'pc', '-m', '256', '-nodefaults'],
    ...['-display', 'none', '-no-reboot', '-serial', `file:${console}`, '-kernel', kernel, '-initrd', initrd],
    ...['-append', 'console=ttyS0'],
  ]);
  try {
    const deadline = Date.now() + GUEST_WITHIN_MS;
    while (Date.now() < deadline && qemu.running) {
      if ((await readFile(console, 'latin1').catch(() => '')).includes('muster: probe system')) return true;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    return false;
  } finally {
    await qemu.stop();
    await rm(directory, { recursive: true, force: true });
  }
}
