/** The verb `muster bmc ca`. */
import { MusterError } from '../../base/errors.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';

/**
 * `muster bmc ca`: prints the CA that signs for BMCs, in PEM; with `replace` after it made another.
 *
 * @throws {MusterError} E_NOT_FOUND while there is none
 */
export async function bmcAuthority(
  options: ServerOptions & { readonly replace?: boolean },
  io: Io,
): Promise<number> {
  const client = openClient(options, io);
  const { certificates } = await client.ask(options.replace ? 'POST /v1/bmcs/ca' : 'GET /v1/bmcs/ca', {});
  if (certificates === '')
    throw new MusterError(
      'E_NOT_FOUND',
      'no certificate of a BMC was signed yet; `managedCertificate: true` in bmc of a Profile asks for them',
    );
  io.out(certificates);
  return EXIT.ok;
}
