/** `muster cluster adopt-kubeadm`: takes over the keys of a cluster that kubeadm made. */
import fs from 'node:fs';
import path from 'node:path';
import { millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { ADOPTED, type AdoptedKeys, adoptedKeyset } from '../../pki/adopted.ts';
import { validate } from '../../resources/document.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { foreignYaml } from '../import/inventory.ts';
import { EXIT, type Io } from '../io.ts';
import { yamlText } from '../output.ts';
import { fromKubeadm } from './kubeadm-config.ts';

interface AdoptKubeadmOptions extends ServerOptions {
  readonly cluster: string;
  readonly controlPlanes: readonly string[];
  readonly workers?: readonly string[];
  readonly output?: string;
  readonly confirm?: string;
}

/** The files of each keyset below the directory `pki`, without their endings. */
const FILES = {
  ca: 'ca',
  'etcd-ca': 'etcd/ca',
  'front-proxy-ca': 'front-proxy-ca',
  sa: 'sa',
} as const satisfies Record<(typeof ADOPTED)[number], string>;

const CONFIG = 'kubeadm-config.yaml';

function textOf(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    throw new MusterError('E_FILE_READ', `${file}: ${(cause as NodeJS.ErrnoException).code}`, { cause });
  }
}

function keysIn(directory: string): AdoptedKeys {
  const pairs = ADOPTED.map((name) => {
    const at = path.join(directory, FILES[name]);
    const key = textOf(`${at}.key`);
    const pair = name === 'sa' ? { key } : { key, certificate: textOf(`${at}.crt`) };
    // What cannot be used is refused before anything is sent.
    adoptedKeyset(name, pair, millis(Date.now()));
    return [name, pair];
  });
  return Object.fromEntries(pairs) as AdoptedKeys;
}

/**
 * Writes the Cluster document and says what differs; with `--confirm` the server also takes over
 * the keys, and records that the cluster is founded.
 *
 * @throws {MusterError} E_FILE_READ for a missing file, E_PKI for keys that cannot be used, E_USAGE
 *   for a configuration that cannot be translated; and what the server answers
 */
export async function adoptKubeadm(directory: string, options: AdoptKubeadmOptions, io: Io): Promise<number> {
  const { cluster, controlPlanes, workers = [], output, confirm } = options;
  const config = foreignYaml(textOf(path.join(directory, CONFIG)), CONFIG);
  const { document, notes } = fromKubeadm(config, cluster, { controlPlanes, workers });
  const keys = keysIn(path.join(directory, 'pki'));
  const checked = validate(JSON.parse(JSON.stringify(document)));
  if (confirm !== undefined && confirm !== cluster)
    throw new MusterError('E_USAGE', `to take over ${cluster}, repeat its name: --confirm ${cluster}`);
  if (output !== undefined && fs.existsSync(output))
    throw new MusterError('E_USAGE', `${output} exists; name another file`);
  if (confirm !== undefined)
    await openClient(options, io).ask('POST /v1/clusters/:name/adopt-kubeadm', {
      params: { name: cluster },
      body: {
        confirm,
        ...(Object.fromEntries(ADOPTED.map((name) => [name, JSON.stringify(keys[name])])) as Record<
          (typeof ADOPTED)[number],
          string
        >),
      },
    });
  if (output === undefined) io.out(yamlText(document));
  else fs.writeFileSync(output, yamlText(document));
  for (const note of notes) io.err(`note: ${note}\n`);
  const faults = checked.ok ? [] : checked.faults;
  for (const { message, path: field } of faults)
    io.err(`to correct: ${field ?? 'the document'}: ${message}\n`);
  io.err(
    confirm === undefined
      ? `nothing was changed; --confirm ${cluster} takes the keys over\n`
      : `the keys of ${cluster} are taken over, and it counts as founded: no machine founds another etcd for it\n`,
  );
  return faults.length > 0 ? EXIT.failure : EXIT.ok;
}
