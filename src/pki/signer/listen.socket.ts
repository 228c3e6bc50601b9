/**
 * The signer's sockets: one request a line, answered in one line with the same number. Who may ask
 * is decided by the permissions of the socket's file.
 */
import { createServer, type Socket } from 'node:net';
import { MusterError } from '../../base/errors.ts';
import { fieldsOf, parsed, textOf } from '../../base/foreign-json.ts';
import type { Service } from './service.ts';

/** A longer line is no request: the largest holds a few certificates. */
export const MOST_CHARACTERS = 4 * 1024 * 1024;
/** Requests of one connection that are answered at a time; more wait in the socket. */
const MOST_AT_ONCE = 64;

/** Answers the requests of everybody who may open the socket, until what it returns is called. */
export function listenWith(at: string | { readonly fd: number }, service: Service): Promise<() => void> {
  const connections = new Set<Socket>();
  const server = createServer((connection) => {
    connections.add(connection);
    connection.once('close', () => connections.delete(connection));
    answer(connection, service);
  });
  const end = (): void => {
    server.close();
    for (const connection of connections) connection.destroy();
  };
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(typeof at === 'string' ? { path: at } : at, () => resolve(end));
  });
}

function answer(connection: Socket, service: Service): void {
  let text = '';
  let busy = 0;
  connection.setEncoding('utf8');
  connection.on('error', () => {});
  connection.on('data', (more: string) => {
    text += more;
    const lines = text.split('\n');
    text = lines.pop()!;
    if (text.length > MOST_CHARACTERS) return void connection.destroy();
    for (const line of lines) {
      if (++busy >= MOST_AT_ONCE) connection.pause();
      void answered(line, service).then((said) => {
        if (!connection.destroyed) connection.write(`${said}\n`);
        if (--busy < MOST_AT_ONCE) connection.resume();
      });
    }
  });
}

/** The line that answers a line. Never throws. */
async function answered(line: string, service: Service): Promise<string> {
  const { id, ask, body } = fieldsOf(parsed(line));
  try {
    return JSON.stringify({ id, answer: await service(textOf(ask), body) });
  } catch (error) {
    const known = error instanceof MusterError;
    const { code, message } = known
      ? error
      : { code: 'E_INTERNAL', message: 'the signer failed; see its journal' };
    return JSON.stringify({ id, error: { code, message } });
  }
}
