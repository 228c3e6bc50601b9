/** `muster signer run`. */
import { createLog } from '../../base/pino.files.ts';
import { runSigner } from '../../pki/signer/run.socket.ts';
import { EXIT, type Io } from '../io.ts';

interface RunOptions {
  readonly state: string;
  readonly config?: string;
  readonly vaultKey?: string;
  readonly directory?: string;
}

/**
 * Runs until a signal ends it.
 *
 * @throws {MusterError} E_VAULT_KEY without the vault's key, E_SIGNER without sockets
 */
export async function run(options: RunOptions, io: Io): Promise<number> {
  const log = createLog({ level: 'info', pretty: process.stdout.isTTY === true });
  const { state, config, vaultKey, directory } = options;
  try {
    await runSigner(
      { state, config, vaultKey, directory },
      {
        log,
        signal: io.signal,
        ready: () => log.info({}, 'the signer answers'),
      },
    );
  } finally {
    await log.flush();
  }
  return EXIT.ok;
}
