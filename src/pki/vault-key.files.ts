/**
 * Reads the vault's key from a systemd credential, or from a file that only its owner can read.
 */
import fs from 'node:fs';
import path from 'node:path';
import { MusterError } from '../base/errors.ts';
import { syncDirectorySync } from '../base/replace-file.files.ts';
import { newVaultKey, type Sealer, sealerFrom } from './sealer.ts';

/** The name of the systemd credential: `LoadCredentialEncrypted=muster-vault-key` in the unit. */
export const VAULT_CREDENTIAL = 'muster-vault-key';

/**
 * Opens the vault with the credential if there is one, else with `file`. A file that others may
 * read is refused; systemd protects its credentials itself.
 *
 * @throws {MusterError} E_VAULT_KEY, which names the file and what to do.
 */
export function openSealer(options: {
  readonly file: string;
  /** `$CREDENTIALS_DIRECTORY`. */
  readonly credentialsDirectory?: string | undefined;
}): Sealer {
  const credential =
    options.credentialsDirectory === undefined
      ? undefined
      : path.join(options.credentialsDirectory, VAULT_CREDENTIAL);
  if (credential !== undefined && fs.existsSync(credential)) return sealerFrom(read(credential), credential);
  const text = read(options.file);
  if ((fs.statSync(options.file).mode & 0o077) !== 0)
    throw new MusterError(
      'E_VAULT_KEY',
      `others than its owner can read ${options.file}; chmod 0600 it, and rotate the key`,
    );
  return sealerFrom(text, options.file);
}

/** The key file in the state directory, used when no other is named. */
export const VAULT_KEY_FILE = 'vault.key';

/**
 * {@link openSealer} for a server's start. Uses `file` if one is named (it must exist), else the
 * credential, else the key file in the state directory, which is made if the store holds nothing
 * that was sealed. `warn` gets a message for the operator.
 *
 * @throws {MusterError} E_VAULT_KEY when the key is missing although the store needs it, cannot be
 * read or made, or is not a vault key
 */
export function startSealer(options: {
  readonly file: string | undefined;
  readonly credentialsDirectory: string | undefined;
  readonly state: string;
  /** Whether the store holds anything that a vault key sealed. */
  readonly sealed: boolean;
  readonly warn: (text: string) => void;
}): Sealer {
  const { file, credentialsDirectory, state, sealed, warn } = options;
  if (file !== undefined) return openSealer({ file });
  const own = path.join(state, VAULT_KEY_FILE);
  const credential =
    credentialsDirectory !== undefined && fs.existsSync(path.join(credentialsDirectory, VAULT_CREDENTIAL));
  if (!credential && !fs.existsSync(own)) {
    if (sealed)
      throw new MusterError(
        'E_VAULT_KEY',
        `the store has keys that were sealed with a vault key, and there is none: neither --vault-key nor the credential ${VAULT_CREDENTIAL} is given, and ${own} does not exist`,
      );
    createVaultKey(own);
    warn(
      `${own} was made: it encrypts the private keys in the same directory. Keep a copy elsewhere, or better, use --vault-key or the credential ${VAULT_CREDENTIAL}`,
    );
  }
  return openSealer({ file: own, credentialsDirectory });
}

/**
 * The text of the vault key with which {@link startSealer} started: secret.
 *
 * @throws {MusterError} E_VAULT_KEY when it cannot be read
 */
export function readVaultKey(
  file: string | undefined,
  state: string,
  credentialsDirectory: string | undefined,
): string {
  if (file !== undefined) return read(file);
  const credential =
    credentialsDirectory === undefined ? undefined : path.join(credentialsDirectory, VAULT_CREDENTIAL);
  if (credential !== undefined && fs.existsSync(credential)) return read(credential);
  return read(path.join(state, VAULT_KEY_FILE));
}

function read(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw new MusterError('E_VAULT_KEY', `${file} cannot be read: ${code}`, { cause });
  }
}

/**
 * Makes a key file; never replaces one.
 *
 * @returns whether it was made: false when the file exists
 * @throws {MusterError} E_VAULT_KEY when the file cannot be made
 */
export function createVaultKey(file: string): boolean {
  try {
    const handle = fs.openSync(file, 'wx', 0o600);
    try {
      fs.writeSync(handle, `${newVaultKey()}\n`);
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
    syncDirectorySync(path.dirname(file));
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw new MusterError('E_VAULT_KEY', `${file} cannot be made: ${(cause as NodeJS.ErrnoException).code}`, {
      cause,
    });
  }
}
