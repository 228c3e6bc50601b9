/** `muster backup verify` and `muster backup restore`: both work without a server. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { MusterError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { createMetrics } from '../../base/metrics.ts';
import { type AgeKey, ageOpen, readIdentities } from '../../pki/age.ts';
import { openSecrets } from '../../pki/secrets.ts';
import { vaultFrom } from '../../pki/vault.ts';
import { beginLife } from '../../store/life.ts';
import { openSqliteStore } from '../../store/sqlite.files.ts';
import { EXIT, type Io } from '../io.ts';
import { askHidden } from '../pki/passphrase.files.ts';
import {
  type ArchivedFile,
  type BackupDescription,
  readArchive,
  readDescription,
  readSignature,
  SIGNATURE,
} from './archive.ts';
import { passphraseIn } from './create.files.ts';

interface KeyOptions {
  readonly passphraseFile?: string;
  readonly identity?: string;
}

async function keyOf({ passphraseFile, identity }: KeyOptions): Promise<AgeKey> {
  if (identity !== undefined) return { identities: readIdentities(fs.readFileSync(identity, 'utf8')) };
  return {
    passphrase:
      passphraseFile === undefined
        ? await askHidden('Passphrase: ', { instead: '--passphrase-file FILE or --identity FILE' })
        : passphraseIn(passphraseFile),
  };
}

/** What a backup was found to hold. */
interface Found {
  readonly description: BackupDescription;
  readonly documents: number;
  readonly assets: ReadonlySet<string>;
  /** Id of the key that signed it. */
  readonly signedBy: string | undefined;
}

/**
 * `muster backup verify`: reads a backup to its end.
 *
 * @throws {MusterError} E_EXPORT when the key does not open it; E_BACKUP when it is not whole, or
 *   its store or keys do not open
 */
export async function verify(file: string, options: KeyOptions, io: Io): Promise<number> {
  const directory = fs.mkdtempSync(path.join(path.dirname(path.resolve(file)), '.muster-verify-'));
  try {
    const found = await unpack(file, await keyOf(options), { state: directory, assets: false });
    await checkStore(directory, found);
    io.out(`${file} ${foundText(found)}\n${signedText(found)}\n`);
  } finally {
    fs.rmSync(directory, { recursive: true, force: true });
  }
  return EXIT.ok;
}

/** Says which key signed it. */
const signedText = ({ signedBy }: Found): string =>
  signedBy === undefined
    ? 'it is not signed: whoever can open it may have changed it'
    : `signed with key ${signedBy}; compare it with the one that \`muster backup create\` showed`;

function foundText({ description, documents, assets }: Found): string {
  const { createdAt, version, assets: listed, withAssets, vaultKey } = description;
  const key = vaultKey === 'signer' ? 'no vault key, which the signer has' : 'vault key';
  const held = withAssets
    ? `${assets.size} of ${listed.length} files of images and artifacts`
    : `the list of ${listed.length} files of images and artifacts`;
  return `is whole: made at ${new Date(createdAt).toISOString()} by Muster ${version}; store, ${key}, ${documents} files of documents, ${held}`;
}

/** Refuses a store that is damaged, or whose keys the vault key of the backup does not open. */
async function checkStore(state: string, { description }: Pick<Found, 'description'>): Promise<void> {
  const database = path.join(state, 'muster.db');
  const db = new DatabaseSync(database, { readOnly: true });
  try {
    const [result] = Object.values(db.prepare('PRAGMA integrity_check').get() ?? {});
    if (result !== 'ok') throw new MusterError('E_BACKUP', `the store in the backup is damaged: ${result}`);
  } finally {
    db.close();
  }
  if (description.vaultKey === 'signer') return;
  await withStore(database, async (store) => {
    const vault = vaultFrom(
      fs.readFileSync(path.join(state, 'vault.key'), 'utf8'),
      'the vault key in the backup',
    );
    await openSecrets({ store, vault }).get('revisions');
  });
}

async function withStore<T>(
  file: string,
  work: (store: Awaited<ReturnType<typeof openSqliteStore>>) => Promise<T>,
): Promise<T> {
  const store = await openSqliteStore({ path: file, log: silentLog, metrics: createMetrics() });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/**
 * `muster backup restore`: makes a state directory.
 *
 * @throws {MusterError} E_USAGE for a directory that is not empty; otherwise as {@link verify}
 */
export async function restore(
  file: string,
  options: KeyOptions & { readonly state: string; readonly config?: string },
  io: Io,
): Promise<number> {
  const { state, config } = options;
  for (const directory of [state, ...(config === undefined ? [] : [config])])
    if (fs.existsSync(directory) && fs.readdirSync(directory).length > 0)
      throw new MusterError('E_USAGE', `${directory} is not empty; move what is there away first`);
  const key = await keyOf(options);
  fs.mkdirSync(state, { recursive: true, mode: 0o700 });
  const found = await unpack(file, key, { state, assets: true, ...(config !== undefined && { config }) });
  await checkStore(state, found);
  const life = await withStore(path.join(state, 'muster.db'), (store) =>
    beginLife(store, found.description.createdAt, Date.now()),
  );
  const { assets: listed } = found.description;
  const missing = listed.filter(({ sha256 }) => !found.assets.has(sha256)).length;
  io.out(
    [
      `${state} has the store of ${new Date(found.description.createdAt).toISOString()}, life ${life}`,
      found.documents > 0
        ? config === undefined
          ? `the ${found.documents} files of documents were left out; name a directory with --config, or keep the one that is there`
          : `${config} has ${found.documents} files of documents`
        : 'the backup has no files of documents',
      ...(missing > 0
        ? [
            `${missing} files of images and artifacts are not in the backup: add them again (\`muster image ls\`)`,
          ]
        : []),
      ...(found.description.vaultKey === 'signer'
        ? [
            'the vault key is not in the backup: give the signer of this host its copy before the server starts',
          ]
        : []),
      signedText(found),
      'give both directories to the user of the server (chown -R muster:), start it, look at `muster status`,',
      'and let it serve with `muster backup accept --confirm`',
      '',
    ].join('\n'),
  );
  return EXIT.ok;
}

interface Places {
  readonly state: string;
  readonly config?: string;
  /** Whether files of images and artifacts are written, or only read. */
  readonly assets: boolean;
}

/**
 * Writes the files of a backup. The store comes into place last, so a partial restore never starts.
 */
async function unpack(file: string, key: AgeKey, places: Places): Promise<Found> {
  let description: BackupDescription | undefined;
  let signedBy: string | undefined;
  const assets = new Set<string>();
  const names = new Set<string>();
  for await (const one of readArchive(ageOpen(fs.createReadStream(file), key))) {
    names.add(one.name);
    if (description === undefined) {
      description = await readDescription(one);
      continue;
    }
    if (one.name === SIGNATURE) {
      signedBy = (await readSignature(one)).key;
      continue;
    }
    const to = placeOf(one.name, places);
    if (to === undefined) await read(one);
    else await write(one, to);
    if (one.name.startsWith('assets/')) assets.add(one.name.slice('assets/'.length));
  }
  const hasKey = names.has('vault.key') || description?.vaultKey === 'signer';
  if (description === undefined || !names.has('muster.db') || !hasKey)
    throw new MusterError('E_BACKUP', 'the backup lacks the store or the vault key; use another backup');
  fs.renameSync(path.join(places.state, 'muster.db.restored'), path.join(places.state, 'muster.db'));
  const documents = [...names].filter((name) => name.startsWith('config/')).length;
  return { description, documents, assets, signedBy };
}

/** Where a file goes; undefined when it is only read. */
function placeOf(name: string, { state, config, assets }: Places): string | undefined {
  if (name === 'muster.db') return path.join(state, 'muster.db.restored');
  if (name === 'vault.key') return path.join(state, name);
  if (name.startsWith('config/'))
    return config === undefined ? undefined : path.join(config, name.slice('config/'.length));
  return assets ? path.join(state, assetPlace(name)) : undefined;
}

/** Assets lie as the asset store keeps them (src/pxe/assets/assets.files.ts). */
const assetPlace = (name: string): string => `assets/sha256/${name.slice('assets/'.length)}`;

async function read({ content }: ArchivedFile): Promise<void> {
  for await (const _ of content);
}

/**
 * Writes a file. The asset store believes that its files have their hashes, so they are compared.
 */
async function write({ name, content }: ArchivedFile, to: string): Promise<void> {
  const hash = createHash('sha256');
  fs.mkdirSync(path.dirname(to), { recursive: true, mode: 0o700 });
  const handle = fs.openSync(to, 'wx', 0o600);
  try {
    for await (const piece of content) {
      hash.update(piece);
      for (let at = 0; at < piece.length; ) at += fs.writeSync(handle, piece, at);
    }
    fs.fsyncSync(handle);
    if (name.startsWith('assets/') && hash.digest('hex') !== path.basename(to))
      throw new MusterError('E_BACKUP', `${name} does not have its hash; make another backup`);
  } finally {
    fs.closeSync(handle);
  }
}
