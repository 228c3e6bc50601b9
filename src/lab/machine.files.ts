/**
 * A machine of the rack: its disks, its firmware's variables, its QEMU, and the output of its
 * serial ports.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { copyFile, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MusterError } from '../base/errors.ts';
import type { BootTarget } from '../bmc/bmc.ts';
import { type SerialPort, serialPort, tellQemu } from './bmc/qemu.socket.ts';
import { type Running, start } from './process.files.ts';
import { qemuArguments } from './qemu.ts';
import type { LabMachine } from './scenario.ts';
import { labTpm } from './tpm.files.ts';

/** The files of Debian's OVMF: its code, and the initial content of its variables. */
const UEFI = { code: '/usr/share/OVMF/OVMF_CODE_4M.fd', variables: '/usr/share/OVMF/OVMF_VARS_4M.fd' };
/** The same with Secure Boot, and with the keys of Microsoft among its variables. */
const SECURE = {
  code: '/usr/share/OVMF/OVMF_CODE_4M.secboot.fd',
  variables: '/usr/share/OVMF/OVMF_VARS_4M.ms.fd',
};
const MIB = 1048576;

export interface Box {
  readonly consoleFile: string;
  /** `boot`: what the firmware tries first, this time. */
  powerOn(boot?: BootTarget): Promise<void>;
  powerOff(): Promise<void>;
  /** Kills the machine; data that it wrote to its disks are kept. */
  powerCut(): Promise<void>;
  /** Asks the system to end (ACPI); a machine with a BMC alone. */
  shutDown(): Promise<void>;
  /** Stops its processors for good: it neither answers nor ends. */
  hang(): void;
  /** Its serial console, if it has a BMC. */
  readonly serial: SerialPort | undefined;
  /**
   * Empties the disks that the scenario declares blank.
   *
   * @throws {MusterError} E_LAB_TOOL while the machine is on.
   */
  wipe(): Promise<void>;
  /**
   * Puts another TPM in the place of its own.
   *
   * @throws {MusterError} E_LAB_TOOL while the machine is on.
   */
  newTpm(): Promise<void>;
  /** Removes the files of disks that are not kept; the machine must be off. */
  discard(): Promise<void>;
  readonly on: boolean;
  /** The number of octets that the console has shown. */
  consoleSize(): Promise<number>;
  consoleText(): Promise<string>;
  factsText(): Promise<string>;
  /** The present SHA-256 of each disk. */
  diskHashes(): Promise<string[]>;
}

/**
 * Prepares a machine that is switched off.
 *
 * @throws {MusterError} E_LAB_TOOL when the firmware is not installed.
 */
export async function makeBox(
  machine: LabMachine,
  places: {
    readonly directory: string;
    readonly taps: readonly string[];
    readonly accel: 'kvm' | 'tcg';
    /** What a machine with `diskSystem` boots. */
    readonly diskSystem?: { readonly kernel: string; readonly initrd: string };
    /** For each disk, the file of which it is a copy; undefined for a disk that is not a copy. */
    readonly copied: readonly (string | undefined)[];
  },
): Promise<Box> {
  const file = (suffix: string) => join(places.directory, `${machine.name}.${suffix}`);
  const disks = machine.disks.map((_, index) => diskFile(places.directory, machine.name, index));
  const make = async (index: number): Promise<void> => {
    const { sizeMiB, blank, copyOf, filledWith } = machine.disks[index]!;
    if (blank || copyOf) await hollow(disks[index]!, sizeMiB * MIB);
    else await fill(disks[index]!, sizeMiB * MIB, filledWith);
  };
  const blankDisks = machine.disks.flatMap(({ blank, copyOf }, index) => (blank || copyOf ? [index] : []));
  for (const index of machine.disks.keys()) await make(index);
  const own = machine.secureBoot ? SECURE : UEFI;
  const uefi = machine.firmware === 'bios' ? undefined : { code: own.code, variables: file('uefi-vars') };
  if (uefi) {
    try {
      await copyFile(own.variables, uefi.variables);
    } catch (cause) {
      throw new MusterError('E_LAB_TOOL', `${own.variables} is missing; install the package ovmf`, {
        cause,
      });
    }
  }
  const tpm = machine.tpm ? labTpm(machine.name, file('tpm')) : undefined;
  const consoleFile = file('console');
  const factsFile = file('facts');
  await writeFile(consoleFile, '');
  await writeFile(factsFile, '');
  const bmc = machine.bmc && { console: file('serial.sock'), qmp: file('qmp.sock') };
  const serial = bmc && (await serialPort(bmc.console));
  const qemuPlaces = {
    accel: places.accel,
    diskSystem: places.diskSystem,
    taps: places.taps,
    disks,
    console: consoleFile,
    facts: factsFile,
    ...(uefi ? { uefi } : {}),
    ...(tpm ? { tpm: tpm.socket } : {}),
    ...(bmc && { bmc }),
  };
  let qemu: Running | undefined;
  return {
    consoleFile,
    serial,
    async powerOn(boot) {
      if (qemu?.running) return;
      for (const [index, from] of places.copied.entries()) if (from) await copyFile(from, disks[index]!);
      await tpm?.powerOn();
      const words = qemuArguments(machine, qemuPlaces, boot);
      await writeFile(file('qemu'), `qemu-system-x86_64 ${words.map(quoted).join(' ')}\n`);
      qemu = await start(machine.name, ['qemu-system-x86_64', ...words], { log: file('qemu.log') });
    },
    async powerOff() {
      if (qemu?.running) process.kill(qemu.pid, 'SIGCONT');
      await qemu?.stop();
      await tpm?.ended();
    },
    async shutDown() {
      if (qemu?.running && bmc) await tellQemu(bmc.qmp, 'system_powerdown');
    },
    hang() {
      if (qemu?.running) process.kill(qemu.pid, 'SIGSTOP');
    },
    async powerCut() {
      await qemu?.kill();
      await tpm?.ended();
    },
    async wipe() {
      if (qemu?.running) throw new MusterError('E_LAB_TOOL', `${machine.name} is on; cut its power first`);
      for (const index of blankDisks) await make(index);
    },
    async newTpm() {
      if (qemu?.running) throw new MusterError('E_LAB_TOOL', `${machine.name} is on; cut its power first`);
      await tpm?.replace();
    },
    async discard() {
      await serial?.close();
      for (const index of blankDisks)
        if (!machine.disks[index]!.keep) await rm(disks[index]!, { force: true });
    },
    get on() {
      return qemu?.running ?? false;
    },
    consoleSize: async () => (await stat(consoleFile)).size,
    consoleText: async () => await readFile(consoleFile, 'latin1'),
    factsText: async () => await readFile(factsFile, 'utf8'),
    diskHashes: async () => {
      const hashes: string[] = [];
      for (const disk of disks) hashes.push(await sha256(disk));
      return hashes;
    },
  };
}

/** The path of a machine's disk in the run's folder. */
export const diskFile = (directory: string, machine: string, index: number): string =>
  join(directory, `${machine}.disk${index}`);

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word}'`);

async function fill(path: string, octets: number, text: string): Promise<void> {
  const handle = await open(path, 'w');
  try {
    const piece = Buffer.alloc(MIB, text);
    for (let at = 0; at < octets; at += MIB) await handle.write(piece, 0, MIB, at);
  } finally {
    await handle.close();
  }
}

/** Makes a sparse file of zeros. */
async function hollow(path: string, octets: number): Promise<void> {
  await writeFile(path, '');
  await truncate(path, octets);
}

/** The SHA-256 of a file, in hexadecimal digits. */
async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path)) hash.update(piece as Buffer);
  return hash.digest('hex');
}
