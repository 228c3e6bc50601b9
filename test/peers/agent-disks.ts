/** Real disks for a machine of the agent's tests: loop devices under the names of disks, in /dev and /sys as the kernel has them. */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import type { Machine } from './agent-kit.ts';

export const MIB = 1024 * 1024;

/** Others look for a free device at the same moment: the first that sets it up has it. Returns its path. */
export function attachLoop(file: string): string {
  for (let attempt = 1; ; attempt++)
    try {
      return String(
        execFileSync('losetup', ['--find', '--show', file], { stdio: ['ignore', 'pipe', 'pipe'] }),
      ).trim();
    } catch (error) {
      if (attempt === 50) throw error;
      execFileSync('sleep', ['0.1']);
    }
}

export class Disks {
  readonly #loops: string[] = [];
  readonly #machine: Machine;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** A new disk of zeros, as `name`. Returns the file behind it. */
  add(name: string, mib: number, serial: string): string {
    const file = this.#machine.path(`/${name}.img`);
    fs.writeFileSync(file, '');
    fs.truncateSync(file, mib * MIB);
    this.plug(name, file, serial);
    return file;
  }

  /** The disk behind `file`, as `name`. */
  plug(name: string, file: string, serial: string): void {
    const loop = attachLoop(file);
    this.#loops.push(loop);
    const number = /[0-9]+$/.exec(loop)![0];
    fs.mkdirSync(this.#machine.path('/dev'), { recursive: true });
    execFileSync('mknod', [this.#machine.path(`/dev/${name}`), 'b', '7', number]);
    const sys = `/sys/block/${name}`;
    this.#machine.write(`${sys}/size`, `${fs.statSync(file).size / 512}\n`);
    this.#machine.write(`${sys}/dev`, `7:${number}\n`);
    this.#machine.write(`${sys}/serial`, `  ${serial} \n`);
    this.#machine.write(`${sys}/ro`, '0\n');
  }

  /** Takes it out; its file stays. */
  unplug(name: string): void {
    const number = this.#machine.read(`/sys/block/${name}/dev`).trim().slice(2);
    execFileSync('losetup', ['--detach', `/dev/loop${number}`]);
    this.#loops.splice(this.#loops.indexOf(`/dev/loop${number}`), 1);
    fs.rmSync(this.#machine.path(`/dev/${name}`));
    fs.rmSync(this.#machine.path(`/sys/block/${name}`), { recursive: true });
  }

  /** Unmounts all that the machine has mounted, the last first. */
  unmount(): void {
    const mounts = fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    for (const line of mounts.reverse()) {
      const at = line.split(' ')[4] ?? '';
      if (at.startsWith(`${this.#machine.root}/`)) unmount(at);
    }
  }

  /** Once more is nothing: a device that was given back may be somebody else's by then, in this process or in the other half of the stage. */
  close(): void {
    this.unmount();
    for (const loop of this.#loops.splice(0)) execFileSync('losetup', ['--detach', loop]);
  }
}

/** What was killed a moment ago may still hold it. */
function unmount(at: string): void {
  for (let tries = 50; tries > 0; tries--) {
    if (spawnSync('umount', [at]).status === 0) return;
    execFileSync('sleep', ['0.1']);
  }
  execFileSync('umount', [at]);
}
