/**
 * Opens the operators' unix socket so that other users cannot connect to it at any moment, and
 * removes it only if this server made it.
 */
import fs from 'node:fs';
import type http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { OPERATORS_GROUP } from '../base/paths.ts';

/** Access to the socket is the only authentication of the API so far. */
const SOCKET_MODE = 0o660;
/** Size of sun_path in unix(7), without its final zero. */
const MAX_PATH = 107;

/**
 * Listens on `file` with mode 0660, owned by the operators' group if that exists and this process
 * may change the group of a file. A socket that no server answers on (a crash left it) is replaced.
 * The socket is made in a directory that only this user may enter, and moved into place once its
 * mode is right.
 *
 * @returns a function that removes the socket, unless another server has replaced it meanwhile
 * @throws {MusterError} E_SOCKET_IN_USE when another server answers there or `file` is not a
 *   socket; E_USAGE when the path is too long
 */
export async function listenOnSocket(
  server: http.Server,
  file: string,
  log: Log,
): Promise<() => Promise<void>> {
  const directory = path.dirname(file);
  fs.mkdirSync(directory, { recursive: true, mode: 0o750 });
  await refuseIfAlive(file);
  const own = fs.mkdtempSync(path.join(directory, '.s'));
  const fresh = path.join(own, 's');
  try {
    if (Math.max(fresh.length, file.length) > MAX_PATH)
      throw new MusterError(
        'E_USAGE',
        `--socket: ${file} is too long for a unix socket (${MAX_PATH} octets)`,
      );
    await listening(server, fresh);
    fs.chmodSync(fresh, SOCKET_MODE);
    giveToOperators(fresh, log);
    fs.renameSync(fresh, file);
  } finally {
    fs.rmSync(own, { recursive: true, force: true });
  }
  const { ino, dev } = fs.statSync(file);
  return async () => {
    const now = fs.statSync(file, { throwIfNoEntry: false });
    if (now && now.ino === ino && now.dev === dev) fs.unlinkSync(file);
  };
}

function listening(server: net.Server, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(file, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/**
 * Checks that the path is free, or that no server answers on the socket there.
 *
 * @throws {MusterError} E_SOCKET_IN_USE when another server answers, or the file is not a socket
 */
async function refuseIfAlive(file: string): Promise<void> {
  const there = fs.lstatSync(file, { throwIfNoEntry: false });
  if (!there) return;
  if (!there.isSocket()) throw new MusterError('E_SOCKET_IN_USE', `${file} exists and is not a socket`);
  const alive = await new Promise<boolean>((resolve) => {
    const probe = net.connect(file);
    probe
      .once('connect', () => resolve(true))
      .once('error', (error: NodeJS.ErrnoException) => {
        resolve(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT');
      });
    probe.once('close', () => resolve(false));
    probe.once('connect', () => probe.destroy());
  });
  if (alive) throw new MusterError('E_SOCKET_IN_USE', `another server answers on ${file}`);
}

function giveToOperators(file: string, log: Log): void {
  const line = fs
    .readFileSync('/etc/group', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${OPERATORS_GROUP}:`));
  if (!line) return;
  const group = Number(line.split(':')[2]);
  if (fs.statSync(file).gid === group) return;
  try {
    fs.chownSync(file, -1, group);
  } catch (error) {
    log.warn(
      { socket: file, group: OPERATORS_GROUP, err: messageOf(error) },
      'the socket could not be given to the group of operators; only its owner may use it',
    );
  }
}
