/**
 * The TPM of a machine of the rack: an swtpm that runs while the machine is on and keeps its state.
 */
import { access, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { MusterError } from '../base/errors.ts';
import { type Running, start } from './process.files.ts';

export interface LabTpm {
  /** The control socket, to which QEMU connects. */
  readonly socket: string;
  /** Switches it on. It ends by itself when QEMU does. */
  powerOn(): Promise<void>;
  /** Resolves when it has ended and written its state. */
  ended(): Promise<void>;
  /** Puts another TPM in its place. */
  replace(): Promise<void>;
}

const LOOK_MS = 20;
const TRIES = 250;

/**
 * A TPM that is switched off; its state is in `directory`.
 *
 * @throws {MusterError} nothing itself; `powerOn` throws E_LAB_TOOL when swtpm is missing or does
 *   not start
 */
export function labTpm(machine: string, directory: string): LabTpm {
  const socket = join(directory, 'socket');
  let running: Running | undefined;
  return {
    socket,
    async powerOn() {
      await running?.stop();
      await mkdir(directory, { recursive: true });
      await rm(socket, { force: true });
      const control = ['--ctrl', `type=unixio,path=${socket}`, '--terminate'];
      const words = ['swtpm', 'socket', '--tpm2', '--tpmstate', `dir=${directory}`, ...control];
      running = await start(`${machine}'s TPM`, words, { log: join(directory, 'log') });
      for (let tries = 0; tries < TRIES; tries++) {
        if (await exists(socket)) return;
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
      throw new MusterError('E_LAB_TOOL', `swtpm of ${machine} made no socket; see ${directory}/log`);
    },
    async ended() {
      await running?.ended;
    },
    async replace() {
      await running?.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
