/** Real members of etcd in this process's network namespace, over TLS, for the store of Muster. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { unpacked } from './unpacked.ts';

/** Debian's packages that are unpacked: etcd 3.4 and 3.5. */
export type EtcdPackage = 'etcd-server' | 'etcd-server-trixie';

/** Below the ports that the kernel gives to clients. */
let nextPort = 24_000;

export interface StoreMembers {
  readonly endpoints: readonly string[];
  readonly files: { readonly ca: string; readonly cert: string; readonly key: string };
  /** The options of `muster serve` and `muster store copy`. */
  readonly options: readonly string[];
  /** `prefix` without slashes. */
  url(prefix: string): string;
  signal(place: number, signal: NodeJS.Signals): void;
  end(): Promise<void>;
}

/** Starts `count` members of one etcd, and waits until they answer. */
export async function startMembers(
  count: number,
  {
    from = 'etcd-server',
    words = ['--max-request-bytes=8388608'],
    address = '127.0.0.1',
  }: {
    readonly from?: EtcdPackage;
    readonly words?: readonly string[];
    /** Where clients reach them. */
    readonly address?: string;
  } = {},
): Promise<StoreMembers> {
  const { command, env } = unpacked(from, 'usr/bin/etcd');
  // In memory: three members that wait for one disk take several times as long.
  const home = fs.mkdtempSync(join('/dev/shm', 'muster-members-'));
  const files = pairs(home, address);
  const peers = Array.from({ length: count }, () => nextPort++);
  const clients = Array.from({ length: count }, () => nextPort++);
  const cluster = peers.map((port, i) => `m${i}=http://127.0.0.1:${port}`).join(',');
  const children: ChildProcess[] = clients.map((port, i) => {
    return spawn(
      command,
      [
        ...['--name', `m${i}`, '--data-dir', join(home, `m${i}`), '--initial-cluster', cluster],
        ...['--listen-peer-urls', `http://127.0.0.1:${peers[i]}`],
        ...['--initial-advertise-peer-urls', `http://127.0.0.1:${peers[i]}`],
        ...['--listen-client-urls', `https://${address}:${port}`],
        ...['--advertise-client-urls', `https://${address}:${port}`],
        ...['--cert-file', files.cert, '--key-file', files.key, '--trusted-ca-file', files.ca],
        ...['--client-cert-auth', ...words],
      ],
      { env, stdio: ['ignore', 'ignore', fs.openSync(join(home, `m${i}.log`), 'w')] },
    );
  });
  const endpoints = clients.map((port) => `${address}:${port}`);
  const healthy = (endpoint: string): boolean => {
    const asked = ['--cacert', files.ca, '--cert', files.cert, '--key', files.key];
    try {
      const text = execFileSync('curl', ['-s', '-m', '2', ...asked, `https://${endpoint}/health`]);
      return text.toString().includes('"true"');
    } catch {
      return false;
    }
  };
  for (let tries = 0; !endpoints.every(healthy); tries++) {
    if (tries > 100) throw new Error(`etcd does not answer: ${home}`);
    await wait(100);
  }
  return {
    endpoints,
    files,
    options: ['--store-ca', files.ca, '--store-cert', files.cert, '--store-key', files.key],
    url: (prefix) => `etcd://${endpoints.join(',')}/${prefix}`,
    signal: (place, signal) => void children[place]!.kill(signal),
    async end() {
      await Promise.all(
        children.map(async (child) => {
          if (child.exitCode !== null || child.signalCode !== null) return;
          const ended = once(child, 'exit');
          child.kill('SIGKILL');
          await ended;
        }),
      );
      fs.rmSync(home, { recursive: true });
    },
  };
}

/** A CA, and one pair that members and hosts share. */
function pairs(home: string, address: string) {
  const openssl = (...words: readonly string[]) =>
    execFileSync('openssl', words, { cwd: home, stdio: 'pipe' });
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  openssl('req', '-x509', ...ec, '-subj', '/CN=etcd-ca', '-keyout', 'ca.key', '-out', 'ca.pem');
  openssl('req', ...ec.slice(0, 5), '-subj', '/CN=muster', '-keyout', 'key.pem', '-out', 'pair.csr');
  fs.writeFileSync(
    join(home, 'names'),
    `subjectAltName=IP:${address}\nextendedKeyUsage=clientAuth,serverAuth\n`,
  );
  const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names'];
  openssl('x509', '-req', '-in', 'pair.csr', ...signing, '-out', 'cert.pem');
  return { ca: join(home, 'ca.pem'), cert: join(home, 'cert.pem'), key: join(home, 'key.pem') };
}
