/** `muster dns`: names of machines and clusters, for name servers that take no updates. */
import { MusterError } from '../../base/errors.ts';
import { NAME_TTL_SECONDS } from '../../pxe/names/names.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';

/**
 * Prints the records of a zone in the form of RFC 1035 §5.
 *
 * @throws {MusterError} E_NOT_FOUND when no document has names in the zone
 */
export async function zone(name: string, options: ServerOptions, io: Io): Promise<number> {
  const { items } = await openClient(options, io).ask('GET /v1/names', { query: { zone: name } });
  const lines = items.flatMap(({ state, name: owner, type, data }) =>
    state === 'leaving' ? [] : [`${owner}. ${type} ${type === 'PTR' ? `${data}.` : data}`],
  );
  if (lines.length === 0)
    throw new MusterError(
      'E_NOT_FOUND',
      `no machine has a name in zone "${name}"; \`muster get names\` lists all`,
    );
  io.out([`$TTL ${NAME_TTL_SECONDS}`, ...lines, ''].join('\n'));
  return EXIT.ok;
}

/** Forgets what is to be removed from a zone whose server is gone. */
export async function forget(name: string, options: ServerOptions, io: Io): Promise<number> {
  const { forgotten } = await openClient(options, io).ask('DELETE /v1/names/:zone', {
    params: { zone: name },
  });
  io.err(`${forgotten} names of zone ${name} are forgotten\n`);
  return EXIT.ok;
}
