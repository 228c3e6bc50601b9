/**
 * The signer's process: has the vault's key, and answers what its rules allow. It loads no parser
 * of packets, no HTTP and no store (test/audit/signer.test.ts).
 */
import fs from 'node:fs';
import path from 'node:path';
import { type Clock, systemClock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { parsed } from '../../base/foreign-json.ts';
import { inheritedSockets } from '../../base/inherited.ts';
import type { Log } from '../../base/log.ts';
import { createMetrics } from '../../base/metrics.ts';
import { replaceFile } from '../../base/replace-file.files.ts';
import type { ChainPlace } from '../../events/audit-chain.ts';
import type { EventSink } from '../../events/event.ts';
import { createEventLog } from '../../events/log.ts';
import { openSecurityLog, type SecurityLog } from '../../events/security-log.files.ts';
import type { Sealer } from '../sealer.ts';
import { openSealer } from '../vault-key.files.ts';
import { openInventory } from './inventory.files.ts';
import { listenWith } from './listen.socket.ts';
import { openOrders } from './orders.ts';
import { openService, type Service } from './service.ts';
import { signingKey } from './signing-key.ts';

export interface SignerOptions {
  /** The signer's own directory: its log, and the machines that were approved. */
  readonly state: string;
  /** The documents that belong to root. */
  readonly config: string | undefined;
  /** The vault's key; undefined: the systemd credential. */
  readonly vaultKey: string | undefined;
  /** Where the sockets are made; undefined: the service manager passes them. */
  readonly directory: string | undefined;
}

/** Requests whose answer waits until they are in the log: they give keys out, or take them. */
const AFTER_LOG: ReadonlySet<string> = new Set(['handOut', 'export', 'take']);

/**
 * Runs until `signal` aborts.
 *
 * @throws {MusterError} E_VAULT_KEY without the key, E_SIGNER without sockets
 */
export async function runSigner(
  { state, config, vaultKey, directory }: SignerOptions,
  { log, signal, ready }: { readonly log: Log; readonly signal: AbortSignal; readonly ready: () => void },
): Promise<void> {
  await using closing = new AsyncDisposableStack();
  const clock: Clock = systemClock;
  fs.mkdirSync(state, { recursive: true, mode: 0o700 });
  const credentialsDirectory = process.env.CREDENTIALS_DIRECTORY;
  const sealer = openSealer({ file: vaultKey ?? path.join(state, 'vault.key'), credentialsDirectory });
  const events = createEventLog({
    clock,
    log,
    metrics: createMetrics(),
    perSubject: 1,
    subjects: 100,
    recent: 1,
  });
  const security = await openLog(state, sealer, { events, clock, log });
  closing.defer(() => security.close());
  const inventory = openInventory({ documents: config, file: path.join(state, 'approved.json'), clock });
  const services: Readonly<Record<string, Service>> = {
    server: openService({ sealer, site: inventory, note: noteTo(events, security) }),
    operator: openOrders({
      ...{ inventory, events },
      status: () => ({
        keys: sealer.ids,
        signs: { id: security.status().key.id, pem: security.status().key.pem },
        machines: inventory.list(),
        log: { entries: security.status().head?.sequence ?? 0, failing: security.status().failing },
      }),
    }),
  };
  for (const [name, service] of Object.entries(services)) {
    closing.defer(await listenWith(placeOf(name, directory), service));
  }
  ready();
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

const noteTo =
  (events: EventSink, security: Pick<SecurityLog, 'durable'>): Parameters<typeof openService>[0]['note'] =>
  async ({ kind, subject, fields, refused }) => {
    const said = { subject, fields: { request: kind, ...fields } };
    if (refused === undefined) events.record({ kind: 'signer.answered', ...said });
    else events.record({ kind: 'signer.refused', ...said, reason: { code: 'rule', text: refused } });
    if (AFTER_LOG.has(kind)) await security.durable();
  };

/** The chained log of requests; what is newest in it is kept besides, sealed. */
async function openLog(
  state: string,
  sealer: Sealer,
  { events, clock, log }: Pick<Parameters<typeof openSecurityLog>[0], 'events' | 'clock' | 'log'>,
): Promise<SecurityLog> {
  const file = path.join(state, 'log-head.json');
  return openSecurityLog({
    directory: path.join(state, 'audit'),
    key: signingKey(sealer),
    head: {
      async get() {
        if (!fs.existsSync(file)) return undefined;
        return parsed(sealer.open('signer/head', parsed(fs.readFileSync(file, 'utf8')))) as ChainPlace;
      },
      async put({ sequence, hash }) {
        replaceFile(file, JSON.stringify(sealer.seal('signer/head', JSON.stringify({ sequence, hash }))));
      },
    },
    ...{ events, clock, log, metrics: createMetrics() },
  });
}

/** Where a socket listens: passed by the service manager, or made here for its owner alone. */
function placeOf(name: string, directory: string | undefined): string | { readonly fd: number } {
  if (directory === undefined) {
    const found = inheritedSockets(process.env, process.pid).find((one) => one.name === name);
    if (found) return { fd: found.fd };
    throw new MusterError('E_SIGNER', `the service manager passed no socket "${name}"; name a --directory`);
  }
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
  const file = path.join(directory, `${name}.sock`);
  fs.rmSync(file, { force: true });
  return file;
}
