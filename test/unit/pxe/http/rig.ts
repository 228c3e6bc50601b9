/**
 * A machines' HTTP server on loopback with its own files, and a client that shows the raw octets.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { systemClock } from '../../../../src/base/clock.ts';
import type { Millis } from '../../../../src/base/duration.ts';
import { ipv4 } from '../../../../src/base/ipv4.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import type { MachineReport } from '../../../../src/machines/machine.ts';
import { type Assets, openAssets } from '../../../../src/pxe/assets/assets.files.ts';
import type { ScriptRequest } from '../../../../src/pxe/boot.ts';
import type { MachineHttpOptions } from '../../../../src/pxe/http/machines.server.ts';
import { startMachineHttp } from '../../../../src/pxe/http/machines.server.ts';
import type { ServedNetwork } from '../../../../src/pxe/network.ts';

export interface Rig {
  readonly port: number;
  readonly sha256: string;
  readonly octets: Buffer;
  /** Hashes that Images name. */
  readonly needed: Set<string>;
  readonly assets: Assets;
  readonly events: NewEvent[];
  readonly asked: ScriptRequest[];
  readonly reports: { session: string; report: MachineReport; peer: string }[];
  metrics(): Promise<string>;
  close(): Promise<void>;
}

export const network = (httpPort: number): ServedNetwork => ({
  name: 'loop',
  subnet: { base: ipv4('127.0.0.0'), prefix: 8 },
  mode: 'server',
  serverAddress: ipv4('127.0.0.1'),
  httpPort,
  leaseTime: 3_600_000 as Millis,
  bootLeaseTime: 120_000 as Millis,
  pools: [],
  dns: [],
  ntp: [],
  probe: false,
  authoritative: true,
  relays: [],
  pxe: {},
  vendorClasses: [],
});

/** Starts a server whose sessions `live`, `waiting` and `broken` answer as they are named. */
export async function rig(
  options: Partial<MachineHttpOptions> & { readonly size?: number } = {},
): Promise<Rig> {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-http-'));
  const loaders = path.join(root, 'loaders');
  fs.mkdirSync(loaders);
  fs.writeFileSync(path.join(loaders, 'ipxe.efi'), 'an EFI program');
  fs.writeFileSync(path.join(root, 'secret'), 'secret');
  fs.chmodSync(path.join(root, 'secret'), 0o600);
  fs.symlinkSync(path.join(root, 'secret'), path.join(loaders, 'leak.efi'));
  const assets = await openAssets({
    directory: path.join(root, 'assets'),
    loaderDirectories: [loaders],
    log: silentLog,
  });
  const octets = Buffer.alloc(options.size ?? 100_000, 'muster ');
  const sha256 = createHash('sha256').update(octets).digest('hex');
  await assets.receive({
    sha256,
    offset: 0,
    body: (async function* () {
      yield octets;
    })(),
  });
  const events: NewEvent[] = [];
  const asked: ScriptRequest[] = [];
  const reports: Rig['reports'] = [];
  const needed = new Set<string>();
  const boot: MachineHttpOptions['boot'] = {
    inline: () => undefined,
    waits: () => ({ do: 'gone' }),
    inventory: async () => 'refused',
    wipeOrder: async () => 'refused',
    wipeReport: async () => 'refused',
    testOrder: async () => 'refused',
    testReport: async () => 'refused',
    rescue: async () => 'refused',
    install: async () => ({ do: 'gone' }),
    installList: async () => undefined,
    installExtent: async () => undefined,
    console: async () => 'refused',
    needs: (hash) => needed.has(hash),
    async script(request) {
      asked.push(request);
      if (request.boot === 'broken') throw new Error('boom');
      return {
        decision: { kind: 'hold', reason: { code: 'unknown_machine', text: '' } },
        script: '#!ipxe\n',
      };
    },
    config(session, file) {
      if (session === 'live') return { ok: true, contentType: 'text/yaml', body: `#${file}\n`, subject: 'm' };
      return session === 'waiting'
        ? { ok: false, status: 'wait', why: 'not rendered yet' }
        : { ok: false, status: 'gone', why: 'no such session; power the machine on again' };
    },
    async report(session, report, peer) {
      reports.push({ session, report, peer });
      return session === 'live'
        ? { believed: true, subject: 'm' }
        : { believed: false, why: 'no live session' };
    },
  };
  const metrics = createMetrics();
  let port = 0;
  const server = await startMachineHttp({
    listen: { host: '127.0.0.1', port: 0 },
    boot,
    assets,
    networks: () => [network(port)],
    subjectOf: () => undefined,
    admits: () => true,
    standing: () => 'host',
    events: { record: (event) => events.push(event) },
    metrics,
    log: silentLog,
    clock: systemClock,
    ...options,
  });
  port = server.port;
  return {
    port,
    sha256,
    octets,
    needed,
    assets,
    events,
    asked,
    reports,
    metrics: () => metrics.text(),
    async close() {
      await server.close();
      fs.rmSync(root, { recursive: true, force: true });
    },
  };
}

export interface RawAnswer {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The names of headers as they were sent. */
  readonly names: readonly string[];
  readonly body: Buffer;
}

/** Sends raw octets and reads until the server closes the connection, which they must ask for. */
export function raw(port: number, request: string | Buffer): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    const socket = net.connect(port, '127.0.0.1', () => socket.write(request));
    socket.on('data', (part: Buffer) => parts.push(part));
    socket.on('error', reject);
    socket.on('close', () => {
      const all = Buffer.concat(parts);
      const end = all.indexOf('\r\n\r\n');
      const [first = '', ...lines] = all.toString('latin1', 0, Math.max(end, 0)).split('\r\n');
      resolve({
        status: Number(first.split(' ')[1] ?? 0),
        headers: Object.fromEntries(
          lines.map((line) => [
            line.slice(0, line.indexOf(':')).toLowerCase(),
            line.slice(line.indexOf(':') + 2),
          ]),
        ),
        names: lines.map((line) => line.slice(0, line.indexOf(':'))),
        body: all.subarray(end + 4),
      });
    });
  });
}

/** One request on a new connection. */
export function ask(
  port: number,
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): Promise<RawAnswer> {
  const lines = Object.entries({ host: 'x', connection: 'close', ...headers }).map(
    ([k, v]) => `${k}: ${v}\r\n`,
  );
  return raw(port, `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
}
