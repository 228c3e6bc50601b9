/**
 * Certificates that kubectl fetches by itself. Each command of kubectl runs `muster kubeconfig NAME
 * --credential`, so a certificate is kept in a file that only this user may read, until shortly
 * before its end.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Answer } from '../../api/operations.ts';
import { duration } from '../../base/duration.ts';
import { parsed } from '../../base/foreign-json.ts';
import { replaceFile } from '../../base/replace-file.files.ts';
import { EXEC_API, kubeconfigText } from '../../pki/kubeconfig.ts';
import type { ApiClient } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';

type Credential = Answer<'POST /v1/clusters/:name/credential'>;

interface Asked {
  readonly client: ApiClient;
  readonly cluster: string;
  /** Undefined: the operator who is logged in. */
  readonly user: string | undefined;
  /** The address, or the path of the socket, of the boot host. */
  readonly server: string;
  readonly remote: boolean;
}

/** A certificate that ends sooner is not used any more: a command of kubectl may take a while. */
const LEFT = duration('5m');

/** Prints a kubeconfig without any secret, with which kubectl calls `muster` for certificates. */
export async function printExec({ client, cluster, user, server, remote }: Asked, io: Io): Promise<number> {
  const found = await client.ask('GET /v1/clusters/:name/endpoint', { params: { name: cluster } });
  const name = user ?? (await client.ask('GET /v1/whoami')).name;
  const args = ['kubeconfig', cluster, '--credential', ...(user === undefined ? [] : ['--user', user])];
  io.out(
    kubeconfigText({
      cluster,
      server: found.server,
      caBundle: found.ca,
      user: name,
      credential: {
        kind: 'exec',
        command: 'muster',
        args,
        env: remote ? { MUSTER_SERVER: server } : { MUSTER_SOCKET: server },
      },
    }),
  );
  return EXIT.ok;
}

/** Prints a certificate and its key for kubectl (ExecCredential). It is secret. */
export async function printCredential({ client, cluster, user, server }: Asked, io: Io): Promise<number> {
  const file = fileOf(io.env, [server, cluster, user ?? '']);
  const kept = file === undefined ? undefined : readKept(file);
  const { certificate, key, until } = kept ?? (await fetched(client, cluster, user));
  if (kept === undefined && file !== undefined) keep(file, { user: user ?? '', certificate, key, until });
  const status = { expirationTimestamp: until, clientCertificateData: certificate, clientKeyData: key };
  io.out(`${JSON.stringify({ apiVersion: EXEC_API, kind: 'ExecCredential', status })}\n`);
  return EXIT.ok;
}

function fetched(client: ApiClient, cluster: string, user: string | undefined): Promise<Credential> {
  return client.ask('POST /v1/clusters/:name/credential', { params: { name: cluster }, query: { user } });
}

function fileOf(env: Io['env'], parts: readonly string[]): string | undefined {
  const base = env.XDG_CACHE_HOME || (env.HOME ? path.join(env.HOME, '.cache') : undefined);
  const name = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
  return base === undefined ? undefined : path.join(base, 'muster', 'credentials', `${name}.json`);
}

/** The credential of a file that is this user's alone, if it is good for a while yet. */
function readKept(file: string): Credential | undefined {
  try {
    const { uid, mode } = fs.statSync(file);
    if (uid !== process.getuid?.() || (mode & 0o077) !== 0) return undefined;
    return decodeCredential(fs.readFileSync(file, 'utf8'), Date.now());
  } catch {
    return undefined;
  }
}

/** Reads the text of such a file; undefined when it is damaged, or ends soon after `now`. */
export function decodeCredential(text: string, now: number): Credential | undefined {
  const value = parsed(text) as Partial<Credential> | null | undefined;
  const { user, certificate, key, until } = value ?? {};
  const texts = [user, certificate, key, until].every((one) => typeof one === 'string');
  return texts && Date.parse(until!) - now > LEFT ? (value as Credential) : undefined;
}

/** A certificate that cannot be kept is fetched each time. */
function keep(file: string, credential: Credential): void {
  try {
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    replaceFile(file, JSON.stringify(credential));
  } catch {
    // A home that is read only, for instance.
  }
}
