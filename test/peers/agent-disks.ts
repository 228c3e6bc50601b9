/**
 * Real disks for a machine of the agent's tests: loop devices under disks' names in the machine's
 * /dev and /sys.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Machine, SOURCE } from './agent-kit.ts';

export const MIB = 1024 * 1024;
/** See {@link Disks.encrypt}. */
const MAPPER = fileURLToPath(new URL('agent-mapper.sh', import.meta.url));
const RESCAN = fileURLToPath(new URL('agent-partitions.sh', import.meta.url));
/** Runs the real sfdisk, then shows the partitions as the kernel would. */
const SFDISK = `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
sfdisk "$@" || exit
for node in "$@"; do :; done
exec sh ${RESCAN} "$MUSTER_ROOT" "\${node##*/}"
`;

/**
 * Sets up a free loop device and returns its path. Other processes may look for one at the same
 * moment; then it tries again.
 */
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
  readonly #names = new Set<string>();
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

  /** Attaches the disk behind `file` as `name`. */
  plug(name: string, file: string, serial: string): void {
    const loop = attachLoop(file);
    this.#loops.push(loop);
    this.#names.add(name);
    const number = /[0-9]+$/.exec(loop)![0];
    fs.mkdirSync(this.#machine.path('/dev'), { recursive: true });
    execFileSync('mknod', [this.#machine.path(`/dev/${name}`), 'b', '7', number]);
    const sys = `/sys/block/${name}`;
    this.#machine.write(`${sys}/size`, `${fs.statSync(file).size / 512}\n`);
    this.#machine.write(`${sys}/dev`, `7:${number}\n`);
    this.#machine.write(`${sys}/serial`, `  ${serial} \n`);
    this.#machine.write(`${sys}/ro`, '0\n');
    this.#machine.write(`${sys}/backing`, file);
    execFileSync('sh', [RESCAN, this.#machine.root, name]);
  }

  /**
   * Makes the kernel see the partitions after each call of sfdisk; the kernel that tests run on
   * may not support GPT.
   */
  seePartitions(): void {
    this.#machine.command('sfdisk', SFDISK);
  }

  /**
   * Lets the machine encrypt its disks, also where the kernel of the tests has no dm-crypt: the
   * header is real, and the octets after it are not encrypted.
   */
  encrypt(): void {
    this.#machine.command('cryptsetup', `#!/bin/sh\nexec sh ${MAPPER} "$@"\n`);
  }

  /** Detaches the disk; its file stays. */
  unplug(name: string): void {
    const number = this.#machine.read(`/sys/block/${name}/dev`).trim().slice(2);
    execFileSync('losetup', ['--detach', `/dev/loop${number}`]);
    this.#loops.splice(this.#loops.indexOf(`/dev/loop${number}`), 1);
    this.#detachPartitions(name);
    fs.rmSync(this.#machine.path(`/dev/${name}`));
    fs.rmSync(this.#machine.path(`/sys/block/${name}`), { recursive: true });
  }

  /** Unmounts everything that the machine has mounted, the last first, and closes what is open. */
  unmount(): void {
    const mounts = fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    for (const line of mounts.reverse()) {
      const at = line.split(' ')[4] ?? '';
      if (at.startsWith(`${this.#machine.root}/`)) unmount(at);
    }
    for (const name of ['muster-data', 'muster-etcd'])
      if (this.#machine.exists(`/dev/mapper/${name}`))
        execFileSync('sh', [MAPPER, 'close', name], { env: this.#machine.env() });
  }

  /**
   * Frees the devices. A second call does nothing, because another test may use a freed device by
   * then.
   */
  close(): void {
    this.unmount();
    for (const name of this.#names) this.#detachPartitions(name);
    for (const loop of this.#loops.splice(0)) execFileSync('losetup', ['--detach', loop]);
  }

  /** Removes the partitions' devices: a disk without a file behind it has none. */
  #detachPartitions(name: string): void {
    fs.rmSync(this.#machine.path(`/sys/block/${name}/backing`), { force: true });
    execFileSync('sh', [RESCAN, this.#machine.root, name]);
  }
}

/** Runs muster-disk.sh as muster-boot.sh does. */
export const askDisk = (machine: Machine, ...args: readonly string[]): string =>
  execFileSync('sh', [`${SOURCE}/muster-disk.sh`, ...args], { env: machine.env(), encoding: 'utf8' });

/**
 * Retries for a minute, because a process that was just killed holds the filesystem until its last
 * write has ended, and that takes long on a busy disk. The error names the processes that hold it,
 * where the host has fuser.
 */
function unmount(at: string): void {
  const end = Date.now() + 60_000;
  for (;;) {
    const { status, stderr } = spawnSync('umount', [at], { encoding: 'utf8' });
    if (status === 0) return;
    if (Date.now() > end) {
      const holders = spawnSync('fuser', ['-vm', at], { encoding: 'utf8' });
      throw new Error(`${stderr}${holders.stderr ?? ''}`);
    }
    execFileSync('sleep', ['0.1']);
  }
}
