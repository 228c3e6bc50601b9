/**
 * The way from a browser on the host to the page of the rack's boot host, whose network the host
 * cannot reach. A socket that was opened on the host stays in the host's network when a process in
 * the namespace inherits it. That process passes on what it receives there.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import net, { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pageDirectory } from '../api/page.files.ts';
import { MusterError } from '../base/errors.ts';

/** Only programs on this host can connect. */
export const LOOPBACK = '127.0.0.1';

/** The environment variable with the inherited socket: its descriptor and its port. */
const PAGE = 'MUSTER_LAB_PAGE';

/** A listening socket of the host that this process inherited. */
export interface HostPage {
  readonly fd: number;
  readonly port: number;
}

/**
 * Reads the value of `--page`.
 *
 * @throws {MusterError} E_USAGE
 */
export function pagePort(text: string): number {
  if (/^[0-9]{1,5}$/.test(text) && Number(text) < 65536) return Number(text);
  throw new MusterError('E_USAGE', `--page "${text}" is not a port`);
}

/**
 * Opens the socket for the page on the host. Called outside the namespace; returns the environment
 * for {@link inheritedPage} inside.
 *
 * @throws {MusterError} E_PORT_IN_USE, E_SOCKET_OPEN; E_LAB_TOOL when the page is not built
 */
export async function openPage(port: number): Promise<Record<string, string>> {
  const index = join(pageDirectory(), 'index.html');
  if (!existsSync(index)) throw new MusterError('E_LAB_TOOL', `${index} is missing; run: make page`);
  const page = await listenOnHost(port);
  return { [PAGE]: `${page.fd}:${page.port}` };
}

/**
 * Listens on the loopback of this network, with a socket that other programs can inherit.
 *
 * @param port 0 lets the kernel choose
 * @throws {MusterError} E_PORT_IN_USE, E_SOCKET_OPEN
 */
export async function listenOnHost(port: number): Promise<HostPage> {
  const server = net.createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const taken = cause.code === 'EADDRINUSE';
      const why = taken ? 'another program uses it; give another port, or 0 for any' : cause.message;
      const code = taken ? 'E_PORT_IN_USE' : 'E_SOCKET_OPEN';
      reject(new MusterError(code, `--page: port ${port} of ${LOOPBACK}: ${why}`, { cause }));
    });
    server.listen(port, LOOPBACK, resolve);
  });
  const open = (server.address() as AddressInfo).port;
  const fd = inheritable((server as unknown as { _handle: { fd: number } })._handle.fd);
  server.close();
  return { fd, port: open };
}

/** A copy of a descriptor, which stays open in the program that replaces this one: dup(2). */
function inheritable(fd: number): number {
  // A static import would keep a Node without the module from starting at all.
  const ffi = createRequire(import.meta.url)('node:ffi') as typeof import('node:ffi');
  const { dup } = ffi.dlopen('libc.so.6', { dup: { arguments: ['int32'], return: 'int32' } }).functions;
  const copy = dup!(fd) as number;
  if (copy < 0) throw new MusterError('E_SOCKET_OPEN', '--page: the socket cannot be passed on');
  return copy;
}

/** The socket that {@link openPage} opened; undefined without one. */
export function inheritedPage(env: Readonly<Record<string, string | undefined>>): HostPage | undefined {
  const [fd, port] = (env[PAGE] ?? '').split(':').map(Number);
  return fd && port ? { fd, port } : undefined;
}

/**
 * Connects every client of the inherited socket to `port` of this network's loopback. Returns the
 * function that ends it.
 */
export function passOn({ fd }: Pick<HostPage, 'fd'>, port: number): () => Promise<void> {
  const open = new Set<net.Socket>();
  const server = net.createServer({ allowHalfOpen: true }, (client) => {
    const inside = net.connect({ host: LOOPBACK, port, allowHalfOpen: true });
    passTo(client, inside);
    passTo(inside, client);
    for (const one of [client, inside]) {
      open.add(one);
      one.once('close', () => open.delete(one));
    }
  });
  server.listen({ fd });
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve());
      for (const one of open) one.destroy();
    });
}

/** Writes what one socket receives to the other one; ends that one if this one fails. */
function passTo(from: net.Socket, to: net.Socket): void {
  from.pipe(to);
  // The listener keeps a client that leaves from ending the run.
  from.on('error', () => to.destroy());
}
