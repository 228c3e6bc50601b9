/**
 * `muster cluster etcd-client`: writes credentials of an etcd client to three files, or prints
 * them.
 */
import fs from 'node:fs';
import path from 'node:path';
import { MusterError } from '../../base/errors.ts';
import type { EtcdClient } from '../../cluster/joining/user-credentials.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';

interface EtcdClientOptions extends ServerOptions {
  readonly output?: string;
  readonly user?: string;
}

/**
 * Writes or prints credentials that are made for this call. The default user is the caller, from
 * SUDO_USER or USER.
 *
 * @throws {MusterError} E_USAGE unless either a directory or a format is given.
 */
export async function etcdClient(
  cluster: string,
  directory: string | undefined,
  options: EtcdClientOptions,
  io: Io,
): Promise<number> {
  const format = options.output && formatOf(options.output, ['json', 'yaml'] as const, 'json');
  if ((directory === undefined) === (format === undefined))
    throw new MusterError('E_USAGE', 'name a directory for the files, or print them with -o json or -o yaml');
  const user = options.user ?? (io.env.SUDO_USER || io.env.USER || 'admin');
  const made = await openClient(options, io).ask('POST /v1/clusters/:name/etcd-client', {
    params: { name: cluster },
    query: { user },
  });
  if (directory === undefined) io.out(format === 'yaml' ? yamlText(made) : jsonText(made));
  else io.out(settingsOf(made, written(made, path.resolve(directory))));
  return EXIT.ok;
}

interface Files {
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
}

function written(made: EtcdClient, directory: string): Files {
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
  const put = (name: string, text: string): string => {
    const file = path.join(directory, name);
    fs.rmSync(file, { force: true });
    fs.writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
    return file;
  };
  return {
    ca: put('ca.crt', made.ca),
    certificate: put('client.crt', made.certificate),
    key: put('client.key', made.key),
  };
}

/** Lines that a shell evaluates: `eval "$(muster cluster etcd-client one DIRECTORY)"`. */
function settingsOf({ members }: EtcdClient, { ca, certificate, key }: Files): string {
  const settings = {
    ETCDCTL_ENDPOINTS: members.map(({ url }) => url).join(','),
    ETCDCTL_CACERT: ca,
    ETCDCTL_CERT: certificate,
    ETCDCTL_KEY: key,
  };
  return Object.entries(settings)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'\n`)
    .join('');
}
