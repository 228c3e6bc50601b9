/**
 * The boot host of the rack: the real `muster serve`, operated by the command line, as operators do
 * it.
 */

import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { dump } from 'js-yaml';
import type { LeaseView } from '../api/operations/inventory.ts';
import type { EventView } from '../api/times.ts';
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { MusterEvent } from '../events/event.ts';
import { LOOPBACK } from './page.socket.ts';
import { type Output, type Running, run, start } from './process.files.ts';
import { MAIN } from './segment.files.ts';

export interface BootHost {
  /** Runs `muster WORDS…`. A failing exit code does not throw. */
  muster(
    words: readonly string[],
    options?: { readonly input?: string; readonly limitMs?: number },
  ): Promise<Output>;
  /** Runs a line of shell in the run's folder, with `muster` in its PATH. */
  shell(line: string): Promise<Output>;
  leases(): Promise<readonly LeaseView[]>;
  /** Stops the server gracefully; resolves with its exit code. */
  stop(): Promise<number | null>;
  /**
   * Starts the server again with its state.
   *
   * @throws {MusterError} E_LAB_SERVE when the server does not start.
   */
  restart(): Promise<void>;
  /** Whether the server has ended although nobody stopped it. */
  readonly crashed: boolean;
}

interface BootHostOptions {
  readonly project: string;
  /** The run's folder, which contains configuration, state and logs. */
  readonly directory: string;
  readonly documents: readonly object[];
  /** The port of the namespace's loopback where operators log in; undefined: nowhere. */
  readonly pagePort: number | undefined;
  readonly onEvent: (event: MusterEvent) => void;
}

/** Far more than the server needs, for a host that is busy with other work. */
const READY_WITHIN_MS = 180_000;
const POLL_MS = 200;
const SHELL_LIMIT_MS = 120_000;
/**
 * The socket is below /run, which belongs to the namespace, because the path of a unix socket must
 * be short.
 */
const SOCKET = '/run/muster/muster.sock';

/** The loaders of this host and, if they are unpacked, Debian's signed ones for Secure Boot. */
const loaderDirectories = (project: string): readonly string[] => [
  '/usr/lib/ipxe',
  ...[
    '.cache/peers/shim-signed-trixie/usr/lib/shim',
    '.cache/peers/grub-efi-amd64-signed-trixie/usr/lib/grub/x86_64-efi-signed',
  ]
    .map((one) => join(project, one))
    .filter((one) => existsSync(one)),
];

/**
 * Writes the configuration, starts `muster serve`, waits until it is ready, and follows its events.
 *
 * @throws {MusterError} E_LAB_SERVE when the server ends or is not ready in time.
 */
export async function startBootHost(options: BootHostOptions): Promise<BootHost> {
  const { project, directory, pagePort } = options;
  const command = join(project, 'bin/muster');
  const config = join(directory, 'config');
  const state = join(directory, 'state');
  const log = join(directory, 'serve.log');
  await mkdir(config, { recursive: true });
  await mkdir(state, { recursive: true });
  await writeFile(join(config, 'lab.yaml'), documentsText(options.documents));
  const vaultKey = join(directory, 'vault.key');
  await writeFile(vaultKey, `muster-vault-1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  const env = {
    MUSTER_SOCKET: SOCKET,
    PATH: [join(project, 'bin'), process.env.PATH].join(delimiter),
  };
  const muster: BootHost['muster'] = (words, more = {}) => run([command, ...words], { env, ...more });
  let last = 0;
  /** A restarted server lists the events of its earlier runs again; those are skipped. */
  const onLine = (line: string): void => {
    const view = JSON.parse(line) as EventView;
    const event: MusterEvent = { ...view, at: Date.parse(view.at) as Millis };
    if (event.sequence <= last) return;
    last = event.sequence;
    options.onEvent(event);
  };
  const up = async (): Promise<{ readonly serve: Running; readonly follower: Running }> => {
    const serve = await start(
      'muster serve',
      [
        ...[command, 'serve', '--config', config, '--state', state, '--socket', SOCKET],
        ...['--interface', MAIN, '--http-port', '8080'],
        ...loaderDirectories(project).flatMap((one) => ['--loaders', one]),
        ...['--vault-key', vaultKey],
        ...(pagePort === undefined ? [] : ['--operators-listen', `${LOOPBACK}:${pagePort}`]),
      ],
      { log, env },
    );
    await untilReady(serve, () => muster(['status']), log);
    const follower = await start('muster events', [command, 'events', '--follow', '-o', 'json'], {
      env,
      log: join(directory, 'events.err'),
      onLine,
    });
    return { serve, follower };
  };
  let on = await up();
  let asked = false;
  return {
    muster,
    shell: (line) =>
      run(['sh', '-c', 'cd "$0" && eval "$1"', directory, line], { env, limitMs: SHELL_LIMIT_MS }),
    async leases() {
      const { code, out } = await muster(['get', 'leases', '-o', 'json']);
      if (code !== 0) return [];
      const value = JSON.parse(out || '[]') as LeaseView[] | { items?: LeaseView[] };
      return Array.isArray(value) ? value : (value.items ?? []);
    },
    get crashed() {
      return !asked && !on.serve.running;
    },
    async stop() {
      asked = true;
      await on.follower.stop();
      return (await on.serve.stop()).code;
    },
    async restart() {
      on = await up();
      asked = false;
    },
  };
}

/** The documents as one text for `muster`. */
export const documentsText = (documents: readonly object[]): string =>
  documents.map((document) => dump(document, { lineWidth: 120 })).join('---\n');

async function untilReady(serve: Running, status: () => Promise<Output>, log: string): Promise<void> {
  const deadline = Date.now() + READY_WITHIN_MS;
  let last = '';
  while (Date.now() < deadline) {
    if (!serve.running) throw new MusterError('E_LAB_SERVE', `muster serve has ended; its log is ${log}`);
    const { code, out, err } = await status();
    if (code === 0) return;
    last = (out || err).trim();
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  await serve.stop();
  const after = `after ${READY_WITHIN_MS / 1000} s`;
  throw new MusterError('E_LAB_SERVE', `muster serve is not ready ${after}: ${last}; its log is ${log}`);
}
