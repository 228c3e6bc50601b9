/** `muster backup accept`: an operator says that a restored store is the right one. */
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';

/**
 * Lets a restored store serve.
 *
 * @throws {MusterError} E_USAGE without `--confirm`; the message says what is known
 */
export async function accept(
  options: ServerOptions & { readonly confirm?: boolean },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const { state, detail } = await client.ask('GET /v1/backup');
  if (state === 'usual') {
    io.out('the store of this boot host serves as usual; there is nothing to accept\n');
    return EXIT.ok;
  }
  if (options.confirm !== true)
    throw new MusterError(
      'E_USAGE',
      `${detail}. What was stored since the backup is lost. If this is the right store, add --confirm`,
    );
  await client.ask('POST /v1/backup/accept');
  io.out(
    state === 'superseded'
      ? 'accepted; start the server again: it answers machines then\n'
      : 'accepted; machines get their plans with their next polls\n',
  );
  return EXIT.ok;
}
