/** A boot host with a whole cluster of simulated machines, to look at and to try commands on. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../../base/paths.ts';
import { hostProcess } from '../namespace.files.ts';
import { type HostPage, LOOPBACK, passOn } from '../page.socket.ts';
import { untilAborted } from '../process.files.ts';
import { type BootHost, importKubelet, openBootHost } from './boot-host.files.ts';
import { writeLoaders } from './storm.files.ts';

export interface ShowOrder {
  /** Besides these, one machine without a document asks to boot. */
  readonly machines: number;
  /** Where the host's browsers reach the page; undefined: nowhere, and the run ends by itself. */
  readonly page: HostPage | undefined;
  /** Machines that are powered on a second. */
  readonly perSecond: number;
  readonly say: (text: string) => void;
  /** Aborts when the operator ends it. */
  readonly signal: AbortSignal;
}

/**
 * Runs it in this network namespace, which must be one of its own. Resolves with the table of all
 * machines when they have settled; with a page, when the operator has ended it.
 */
export async function runShow({ machines, page, perSecond, say, signal }: ShowOrder): Promise<string> {
  const loaders = mkdtempSync(join(tmpdir(), 'muster-show-'));
  writeLoaders(loaders);
  const listen = page === undefined ? [] : ['--operators-listen', `${LOOPBACK}:${page.port}`];
  const host = await openBootHost(machines, { loaders, stranger: true, flags: listen });
  const stopPage = page && passOn(page, page.port);
  try {
    importKubelet(host);
    if (page) say(pageText(host));
    say(`powering ${machines} machines on, and one that has no document\n`);
    const stranger = { ...host.stranger!, firmware: 'ipxe' as const, discovers: true };
    const asks = host.powerOn({ machines: [stranger], perSecond: 0, keep: false, partial: true });
    asks.catch(() => {});
    const fleet = await host.keepOn({ machines: host.machines, perSecond, keep: false });
    say(`all have settled after ${fleet.result.seconds.toFixed(1)} s\n`);
    const table = host.muster('get', 'machines');
    if (page) {
      say(`${table}\n${keptText(host)}`);
      await untilAborted(signal);
    }
    await fleet.end();
    return table;
  } finally {
    await stopPage?.();
    await host.close();
    rmSync(loaders, { recursive: true, force: true });
  }
}

/** The link works once, so it is secret. */
const pageText = (host: BootHost): string =>
  `the page (the link works once and makes you its administrator; the certificate is Muster's own):\n  ${host
    .muster('operator', 'add', 'sim', '--role', 'admin')
    .trim()}\n`;

const keptText = ({ socket }: BootHost): string =>
  `look around with\n  nsenter --all --target $(pgrep -P ${hostProcess()}) ${join(projectRoot(), 'bin/muster')} top --socket ${socket}\nCtrl-C ends it\n`;
