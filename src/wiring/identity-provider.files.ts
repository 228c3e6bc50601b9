/** Reads the description of the site's identity provider, with the files that it names. */
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { openProvider } from '../api/accounts/provider.socket.ts';
import { ProviderLogins } from '../api/accounts/provider-logins.ts';
import { decodeProvider } from '../api/accounts/provider-settings.ts';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { Secret } from '../base/secret.ts';
import type { ServeOptions } from '../cli/serve/options.ts';

/**
 * The log-ins at the provider of `--oidc`; undefined without it. The provider itself is not asked
 * yet: the boot host starts also while it is away.
 *
 * @throws {MusterError} E_SCHEMA; E_UNREADABLE for a file that cannot be read, or that others can
 *   change, and for a secret that others can read
 */
export function providerLogins(
  { oidc }: Pick<ServeOptions, 'oidc'>,
  clock: Clock,
): ProviderLogins | undefined {
  if (oidc === undefined) return undefined;
  const settings = decodeProvider(read(oidc, 0o022), oidc);
  const near = (file: string): string => resolve(dirname(oidc), file);
  const { clientSecretFile, authorityFile } = settings;
  const provider = openProvider({
    settings,
    secret:
      clientSecretFile === undefined ? undefined : new Secret(read(near(clientSecretFile), 0o027).trim()),
    authority: authorityFile === undefined ? undefined : read(near(authorityFile), 0o022),
    clock,
  });
  return new ProviderLogins({ provider, settings, clock });
}

/** @param forbidden bits of the mode with which somebody else could change or read the file */
function read(file: string, forbidden: number): string {
  let mode: number;
  let text: string;
  try {
    ({ mode } = statSync(file));
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new MusterError('E_UNREADABLE', `--oidc: ${file} cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
  if ((mode & forbidden) !== 0)
    throw new MusterError(
      'E_UNREADABLE',
      `--oidc: ${file} has the mode ${(mode & 0o777).toString(8)}; \`chmod ${forbidden === 0o022 ? 'go-w' : 'g-w,o='} ${file}\``,
    );
  return text;
}
