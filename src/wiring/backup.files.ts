/** Writes the archive of a backup of this boot host: store, vault key, documents, assets. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Clock } from '../base/clock.ts';
import { VERSION } from '../base/version.ts';
import {
  archived,
  type BackupDescription,
  DESCRIPTION,
  isBackupName,
  SIGNATURE,
  TAR_END,
} from '../cli/backup/archive.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { readVaultKey } from '../pki/vault-key.files.ts';
import type { State } from './state.ts';

async function* once(octets: Uint8Array): AsyncGenerator<Uint8Array> {
  yield octets;
}

/** Makes the function that writes an archive. Its pieces are secret: they hold all keys. */
export function hostArchive(
  options: Pick<ServeOptions, 'state' | 'config' | 'vaultKey' | 'signer'>,
  { clock }: { readonly clock: Pick<Clock, 'now'> },
  { store, assets, vault }: Pick<State, 'store' | 'assets' | 'vault'>,
): (wanted: { readonly assets: boolean }) => AsyncIterable<Uint8Array> {
  const unsigned = async function* (withAssets: boolean): AsyncGenerator<Uint8Array> {
    const copy = path.join(options.state, `backup-${process.pid}-${clock.now()}.db`);
    try {
      const { vaultKey: file, state, signer } = options;
      const vaultKey =
        signer === undefined
          ? Buffer.from(readVaultKey(file, state, process.env.CREDENTIALS_DIRECTORY))
          : undefined;
      await store.copyTo(copy);
      const listed = await assets.list();
      const description: BackupDescription = {
        v: 1,
        createdAt: clock.now(),
        version: VERSION,
        assets: listed.map(({ sha256, size }) => ({ sha256, size })),
        withAssets,
        ...(vaultKey === undefined && { vaultKey: 'signer' as const }),
      };
      const text = Buffer.from(`${JSON.stringify(description, undefined, 1)}\n`);
      yield* archived(DESCRIPTION, text.length, once(text));
      if (vaultKey) yield* archived('vault.key', vaultKey.length, once(vaultKey));
      yield* archived('muster.db', fs.statSync(copy).size, fs.createReadStream(copy));
      for (const file of documentsOf(options.config)) {
        const octets = fs.readFileSync(path.join(options.config!, file));
        yield* archived(`config/${file}`, octets.length, once(octets));
      }
      if (withAssets)
        for (const { sha256, size } of listed) {
          const found = assets.find(sha256);
          if (found) yield* archived(`assets/${sha256}`, size, fs.createReadStream(found.path));
        }
    } finally {
      fs.rmSync(copy, { force: true });
    }
  };
  return async function* ({ assets: withAssets }) {
    const hash = createHash('sha256');
    for await (const piece of unsigned(withAssets)) {
      hash.update(piece);
      yield piece;
    }
    const signature = { v: 1, ...(await vault.signBackup(hash.digest('hex'))) };
    const text = Buffer.from(`${JSON.stringify(signature, undefined, 1)}\n`);
    yield* archived(SIGNATURE, text.length, once(text));
    yield TAR_END;
  };
}

/** The files of the configuration directory, relative to it. */
export function documentsOf(directory: string | undefined): readonly string[] {
  if (directory === undefined) return [];
  return fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .filter((name) => isBackupName(`config/${name}`))
    .toSorted();
}
