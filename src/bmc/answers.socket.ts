/** Whether anything answers at an address. */
import { connect } from 'node:net';

/** kubelet, SSH, and one where nothing listens: a refusal comes from a system that runs. */
const PORTS = [10_250, 22, 9];
const PATIENCE_MS = 2000;

/** Whether a port accepts or refuses a connection; a firewall that drops says nothing. */
export async function answersAt(addresses: readonly string[]): Promise<boolean> {
  const asked = addresses.flatMap((address) => PORTS.map((port) => isThere(address, port)));
  return (await Promise.all(asked)).includes(true);
}

function isThere(host: string, port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ host, port, timeout: PATIENCE_MS });
    const end = (answered: boolean): void => {
      socket.destroy();
      done(answered);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(false));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code === 'ECONNREFUSED'));
  });
}
