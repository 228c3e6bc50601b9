/** The verbs `muster machine add` and `muster machine accept`. */

import type { Answer } from '../../api/operations.ts';
import { MusterError } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import type { KnownMachine } from '../../machines/machine.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io, printWarnings } from '../io.ts';

export interface AddOptions extends ServerOptions {
  readonly profile?: string;
  readonly name?: string;
  readonly cluster?: string;
  readonly address?: string;
}

/**
 * `muster machine add`: creates a Machine document for a MAC address in any usual spelling.
 *
 * @throws {MusterError} E_USAGE when the text is not a MAC address.
 */
export async function add(mac: string, options: AddOptions, io: Io): Promise<number> {
  const canonical = parseMac(mac);
  if (!canonical)
    throw new MusterError('E_USAGE', `"${mac}" is not a MAC address; write it like 52:54:00:aa:00:01`);
  const { profile, name, address, cluster } = options;
  const made = await openClient(options, io).ask('POST /v1/machines/add', {
    body: { mac: canonical, profile, name, address, cluster },
  });
  io.out(`machine/${made.name} created\n`);
  printWarnings(made.warnings, io);
  return EXIT.ok;
}

export interface AcceptOptions extends ServerOptions {
  readonly profile?: string;
  readonly name?: string;
  readonly cluster?: string;
  /** Addresses that it claimed besides the one that it booted from. */
  readonly mac?: readonly string[];
}

/**
 * `muster machine accept`: accepts a machine, and prints what its document takes of what it
 * claimed. `machine` is its name in `muster get machines`, or a MAC address.
 */
export async function accept(machine: string, options: AcceptOptions, io: Io): Promise<number> {
  const { profile, name, cluster, mac = [] } = options;
  const accepted = await openClient(options, io).ask('POST /v1/machines/:name/accept', {
    params: { name: machine },
    body: { profile, name, cluster, macs: mac },
  });
  io.out(`machine/${accepted.name} accepted\n`);
  io.err(claimsText(accepted));
  return EXIT.ok;
}

/** What is in the document, and what the machine says of itself besides. */
function claimsText({ spec, status: { seen } }: Answer<'POST /v1/machines/:name/accept'>): string {
  const { macs = [], uuid, serial } = (spec ?? {}) as Partial<NonNullable<KnownMachine['spec']>>;
  const others = seen.macs.filter((one) => !macs.includes(one));
  const taken = [
    `MAC ${macs.join(', ')}`,
    uuid === undefined ? [] : `UUID ${uuid}`,
    serial === undefined ? [] : `serial ${serial}`,
  ].flat();
  const said = [
    others.length === 0 ? [] : `MAC ${others.join(', ')} (\`--mac\` takes those that are its own)`,
    [seen.manufacturer, seen.product].filter(Boolean).join(' ') || [],
  ].flat();
  return `  its document has: ${taken.join('; ')}\n${said.length === 0 ? '' : `  it also claims: ${said.join('; ')}\n`}`;
}

/** `muster machine install`: lets a machine install its system at its next boot. */
export async function install(
  machine: string,
  options: ServerOptions & { readonly release?: string; readonly restart?: true },
  io: Io,
): Promise<number> {
  const { release, restart = false } = options;
  const { name } = await openClient(options, io).ask('POST /v1/machines/:name/install', {
    params: { name: machine },
    body: { ...(release !== undefined && { release }), restart },
  });
  const data = release === undefined ? 'on a blank disk' : `on disk ${release}, whose data may go`;
  const when = restart
    ? `now; its BMC restarts it, which \`muster power status ${name}\` shows`
    : 'at its next boot';
  io.out(`machine/${name} installs its system ${data}, ${when}\n`);
  return EXIT.ok;
}
