/** `muster signer admit|withdraw|allow|status`: orders at the socket that root alone may open. */
import { MusterError } from '../../base/errors.ts';
import { SignerClient } from '../../pki/signer/client.socket.ts';
import type { SignerStatus } from '../../pki/signer/orders.ts';
import { PROOFS } from '../../pki/signer/site.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';

interface Where {
  readonly socket: string;
}

async function order(socket: string, kind: string, body: unknown): Promise<unknown> {
  await using client = new SignerClient(socket);
  return await client.request(kind, body);
}

/** @throws {MusterError} E_SIGNER when the signer does not answer */
export async function approve(
  machines: readonly string[],
  { socket, cluster, role }: Where & { readonly cluster: string; readonly role: readonly string[] },
  io: Io,
): Promise<number> {
  await order(socket, 'approve', { machines, cluster, roles: role });
  io.out(`${machines.join(', ')} may have what is for ${role.join(' and ')} of ${cluster}\n`);
  return EXIT.ok;
}

/** Throws as {@link approve}. */
export async function withdraw(machines: readonly string[], { socket }: Where, io: Io): Promise<number> {
  await order(socket, 'withdraw', { machines });
  io.out(`${machines.join(', ')}: admitted no more, apart from what documents say\n`);
  return EXIT.ok;
}

/**
 * Lets keys be given out or taken for five minutes.
 *
 * @throws {MusterError} E_USAGE for anything else than `export` and `import`; E_SIGNER
 */
export async function allow(what: string, { socket }: Where, io: Io): Promise<number> {
  if (!Object.hasOwn(PROOFS, what))
    throw new MusterError('E_USAGE', `"${what}" is not one of ${Object.keys(PROOFS).join(', ')}`);
  await order(socket, 'allow', { what });
  io.out(`for five minutes ${PROOFS[what as keyof typeof PROOFS]}\n`);
  return EXIT.ok;
}

/** Throws as {@link approve}. */
export async function status(
  { socket, output }: Where & { readonly output?: string },
  io: Io,
): Promise<number> {
  const found = (await order(socket, 'status', {})) as SignerStatus;
  const format = formatOf(output, ['table', 'json', 'yaml'], 'table');
  if (format !== 'table') {
    io.out(format === 'json' ? jsonText(found) : yamlText(found));
    return EXIT.ok;
  }
  const { keys, signs, machines, log } = found;
  io.out(`keys of the vault: ${keys.join(', ')}; the first seals\n`);
  io.out(`signs backups and its log with ${signs.id}\n`);
  io.out(`log: ${log.entries} entries${log.failing ? ', and the disk takes no more' : ''}\n`);
  const columns = [
    { heading: 'MACHINE', cell: (one: SignerStatus['machines'][number]) => one.machine },
    { heading: 'CLUSTER', cell: (one: SignerStatus['machines'][number]) => one.cluster || '-' },
    { heading: 'ROLES', cell: (one: SignerStatus['machines'][number]) => one.roles.join(',') },
  ];
  io.out(tableText(columns, machines, lookOf(io)));
  return EXIT.ok;
}
