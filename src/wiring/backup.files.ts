/** Writes the archive of a backup of this boot host: store, vault key, documents, assets. */
import fs from 'node:fs';
import path from 'node:path';
import { VERSION } from '../base/version.ts';
import {
  archived,
  type BackupDescription,
  DESCRIPTION,
  isBackupName,
  TAR_END,
} from '../cli/backup/archive.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { readVaultKey } from '../pki/vault-key.files.ts';
import type { Common } from './common.ts';
import type { State } from './state.ts';

async function* once(octets: Uint8Array): AsyncGenerator<Uint8Array> {
  yield octets;
}

/** Makes the function that writes an archive. Its pieces are secret: they hold all keys. */
export function hostArchive(
  options: Pick<ServeOptions, 'state' | 'config' | 'vaultKey'>,
  { clock }: Pick<Common, 'clock'>,
  { store, assets }: Pick<State, 'store' | 'assets'>,
): (wanted: { readonly assets: boolean }) => AsyncIterable<Uint8Array> {
  return async function* ({ assets: withAssets }) {
    const copy = path.join(options.state, `backup-${process.pid}-${clock.now()}.db`);
    try {
      const vaultKey = Buffer.from(
        readVaultKey(options.vaultKey, options.state, process.env.CREDENTIALS_DIRECTORY),
      );
      await store.copyTo(copy);
      const listed = await assets.list();
      const description: BackupDescription = {
        v: 1,
        createdAt: clock.now(),
        version: VERSION,
        assets: listed.map(({ sha256, size }) => ({ sha256, size })),
        withAssets,
      };
      const text = Buffer.from(`${JSON.stringify(description, undefined, 1)}\n`);
      yield* archived(DESCRIPTION, text.length, once(text));
      yield* archived('vault.key', vaultKey.length, once(vaultKey));
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
      yield TAR_END;
    } finally {
      fs.rmSync(copy, { force: true });
    }
  };
}

/** The files of the configuration directory, relative to it. */
function documentsOf(directory: string | undefined): readonly string[] {
  if (directory === undefined) return [];
  return fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .filter((name) => isBackupName(`config/${name}`))
    .toSorted();
}
