/** What a BMC needs of QEMU: the machine's serial port, and the words of QMP. */
import { rm } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { MusterError } from '../../base/errors.ts';

export interface SerialPort {
  /** Calls with what the machine says from now on; returns how to end that. */
  listen(listener: (octets: Buffer) => void): () => void;
  type(octets: Buffer): void;
  close(): Promise<void>;
}

/** The far end of a machine's serial port: QEMU connects to `path` before its machine starts. */
export async function serialPort(path: string): Promise<SerialPort> {
  const listeners = new Set<(octets: Buffer) => void>();
  let machine: Socket | undefined;
  const server = createServer((socket) => {
    machine = socket;
    socket.on('error', () => {});
    socket.on('data', (octets: Buffer) => {
      for (const listener of listeners) listener(octets);
    });
  });
  await rm(path, { force: true });
  await new Promise<void>((done, fail) => {
    server.once('error', fail);
    server.listen(path, done);
  });
  return {
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    type: (octets) => void machine?.write(octets),
    async close() {
      machine?.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}

/**
 * Gives QEMU one command of QMP and waits until it is taken.
 *
 * @throws {MusterError} E_LAB_TOOL when it is refused
 */
export async function tellQemu(path: string, command: string): Promise<void> {
  const socket = createConnection(path);
  try {
    socket.write(`{"execute":"qmp_capabilities"}\n{"execute":"${command}"}\n`);
    let answers = 0;
    for await (const line of createInterface({ input: socket })) {
      if (line.includes('"error"')) throw new MusterError('E_LAB_TOOL', `QMP ${command}: ${line}`);
      if (line.includes('"return"') && ++answers === 2) return;
    }
  } finally {
    socket.destroy();
  }
}
