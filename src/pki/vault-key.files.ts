/**
 * Where the vault's key comes from: a systemd credential, or a file that only its owner can read.
 */
import fs from 'node:fs';
import path from 'node:path';
import { MusterError } from '../base/errors.ts';
import { newVaultKey, type Vault, vaultFrom } from './vault.ts';

/** `LoadCredentialEncrypted=muster-vault-key` in the unit. */
export const VAULT_CREDENTIAL = 'muster-vault-key';

/**
 * The credential if there is one, else `file`. A file that others may read is refused; systemd
 * guards its credentials itself. Throws E_VAULT_KEY that says which file and what to do.
 */
export function openVault(options: {
  readonly file: string;
  /** `$CREDENTIALS_DIRECTORY`. */
  readonly credentialsDirectory?: string | undefined;
}): Vault {
  const credential =
    options.credentialsDirectory === undefined
      ? undefined
      : path.join(options.credentialsDirectory, VAULT_CREDENTIAL);
  if (credential !== undefined && fs.existsSync(credential)) return vaultFrom(read(credential), credential);
  const text = read(options.file);
  if ((fs.statSync(options.file).mode & 0o077) !== 0)
    throw new MusterError(
      'E_VAULT_KEY',
      `others than its owner can read ${options.file}; chmod 0600 it, and rotate the key`,
    );
  return vaultFrom(text, options.file);
}

/** In the state directory, when no other place is named. */
export const VAULT_KEY_FILE = 'vault.key';

/**
 * As {@link openVault}, for a server's start: `file` if one is named (it must be there), else the
 * credential, else the one in the state directory, which is made when there is nothing yet that was
 * sealed with another. `warn` is told what an operator should know.
 */
export function startVault(options: {
  readonly file: string | undefined;
  readonly credentialsDirectory: string | undefined;
  readonly state: string;
  /** Whether the store holds what a vault key sealed. */
  readonly sealed: boolean;
  readonly warn: (text: string) => void;
}): Vault {
  const { file, credentialsDirectory, state, sealed, warn } = options;
  if (file !== undefined) return openVault({ file });
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
      `${own} was made: the key that private keys are encrypted with lies beside them. Keep a copy elsewhere, and rather give --vault-key or the credential ${VAULT_CREDENTIAL}`,
    );
  }
  return openVault({ file: own, credentialsDirectory });
}

function read(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw new MusterError('E_VAULT_KEY', `${file} cannot be read: ${code}`, { cause });
  }
}

/** Makes a key file; never over one that is there. True when it was made. */
export function createVaultKey(file: string): boolean {
  try {
    const handle = fs.openSync(file, 'wx', 0o600);
    try {
      fs.writeSync(handle, `${newVaultKey()}\n`);
      fs.fsyncSync(handle);
    } finally {
      fs.closeSync(handle);
    }
    syncDirectory(path.dirname(file));
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw new MusterError('E_VAULT_KEY', `${file} cannot be made: ${(cause as NodeJS.ErrnoException).code}`, {
      cause,
    });
  }
}

/** So that the file's name survives a power cut as well as its content. */
function syncDirectory(directory: string): void {
  const handle = fs.openSync(directory, 'r');
  try {
    fs.fsyncSync(handle);
  } finally {
    fs.closeSync(handle);
  }
}
