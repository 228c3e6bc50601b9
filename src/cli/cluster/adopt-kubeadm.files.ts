/** `muster cluster adopt-kubeadm`: takes over the keys of a cluster that kubeadm made. */
import fs from 'node:fs';
import path from 'node:path';
import { millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { type AdoptedKeys, adoptedGeneration } from '../../pki/adopted.ts';
import { PrivateKey, PublicKey } from '../../pki/keys.ts';
import { ADOPTED, isAuthority, KEYSETS } from '../../pki/keysets.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { textOf } from '../import/import.files.ts';
import { foreignYaml } from '../import/inventory.ts';
import { writtenFaults } from '../import/written.ts';
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

const CONFIG = 'kubeadm-config.yaml';

function keysIn(directory: string): AdoptedKeys {
  const pairs = ADOPTED.map((name) => {
    const at = path.join(directory, KEYSETS[name].adoptedFrom);
    const key = textOf(`${at}.key`);
    const pair = isAuthority(name) ? { key, certificate: textOf(`${at}.crt`) } : { key };
    // What cannot be used is refused before anything is sent.
    try {
      adoptedGeneration(name, pair, millis(Date.now()));
    } catch (cause) {
      if (!(cause instanceof MusterError)) throw cause;
      const [fault] = cause.faults;
      const extension = fault?.path === 'key' ? 'key' : 'crt';
      throw new MusterError(cause.code, `${at}.${extension}: ${fault?.message}`, { cause });
    }
    return [name, pair];
  });
  return Object.fromEntries(pairs) as AdoptedKeys;
}

/**
 * What operators read about `sa.pub`: kubeadm's API servers accept tokens of each key in it, while
 * those of Muster accept only tokens of the key that signs.
 *
 * @throws {MusterError} E_CA_IMPORT when it does not have the key that signs
 */
function publicKeyNotes(directory: string, { key }: AdoptedKeys['sa']): readonly string[] {
  const file = path.join(directory, 'sa.pub');
  if (!fs.existsSync(file)) return [];
  const own = PrivateKey.fromPem(key).publicKey().spki;
  const blocks = textOf(file).match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g) ?? [];
  const others = blocks.filter((block) => !PublicKey.fromPem(block).spki.equals(own));
  if (others.length === blocks.length)
    throw new MusterError('E_CA_IMPORT', `${file}: it does not have the public key of sa.key`);
  if (others.length === 0) return [];
  return [
    `${file} has ${blocks.length} keys, and only that of sa.key is taken over: API servers of Muster refuse tokens that were signed by another one; let pods get new tokens (an hour at most), and replace Secrets with tokens, before the first control plane moves`,
  ];
}

/**
 * Writes the Cluster document and says what differs; with `--confirm` the server also takes over
 * the keys, and records that the cluster is founded.
 *
 * @throws {MusterError} E_FILE_READ for a missing file, E_CA_IMPORT for keys that cannot be used,
 *   E_USAGE for a configuration that cannot be translated; and what the server answers
 */
export async function adoptKubeadm(directory: string, options: AdoptKubeadmOptions, io: Io): Promise<number> {
  const { cluster, controlPlanes, workers = [], output, confirm } = options;
  const config = foreignYaml(textOf(path.join(directory, CONFIG)), CONFIG);
  const { document, notes } = fromKubeadm(config, cluster, { controlPlanes, workers });
  const keys = keysIn(path.join(directory, 'pki'));
  const said = [...notes, ...publicKeyNotes(path.join(directory, 'pki'), keys.sa)];
  // With --confirm nothing is taken over for a Cluster that could not be applied.
  const faults = writtenFaults([document]);
  const taken = confirm !== undefined && faults.length === 0;
  if (confirm !== undefined && confirm !== cluster)
    throw new MusterError('E_USAGE', `to take over ${cluster}, repeat its name: --confirm ${cluster}`);
  if (output !== undefined && fs.existsSync(output))
    throw new MusterError('E_USAGE', `${output} exists; name another file`);
  if (taken)
    await openClient(options, io).ask('POST /v1/clusters/:name/adopt-kubeadm', {
      params: { name: cluster },
      body: {
        confirm: cluster,
        ...keys,
      },
    });
  if (output === undefined) io.out(yamlText(document));
  else fs.writeFileSync(output, yamlText(document));
  for (const note of said) io.err(`note: ${note}\n`);
  for (const fault of faults) io.err(`to correct: ${fault}\n`);
  io.err(
    !taken
      ? `nothing was changed; ${faults.length > 0 ? `correct ${CONFIG} or the cluster first; then ` : ''}--confirm ${cluster} takes the keys over\n`
      : `the keys of ${cluster} are taken over, and it counts as founded: no machine founds another etcd for it\n`,
  );
  return faults.length > 0 ? EXIT.failure : EXIT.ok;
}
