/** `muster status`, `muster reload`, `muster version` */

import type { Readiness } from '../../api/deps.ts';
import { type Fault, MusterError } from '../../base/errors.ts';
import { VERSION } from '../../base/version.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, faultLine, faultsText, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';

interface Options extends ServerOptions {
  readonly output?: string;
}

interface Status extends Readiness {
  readonly version: string;
  readonly faults: readonly Fault[];
}

/** Exit code 1 when the server is not ready. */
export async function status(options: Options, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const value = await openClient(options, io).call<Status>('GET', '/v1/status');
  if (format === 'json') io.out(jsonText(value));
  else if (format === 'yaml') io.out(yamlText(value));
  else {
    io.out(`muster ${value.version}: ${value.ready ? 'ready' : 'not ready'}\n`);
    // Faults of documents are checks as well; below they have their places.
    const placed = new Set(value.faults.map(({ message }) => message));
    for (const { name, ok, detail } of value.checks.filter((check) => !placed.has(check.detail ?? '')))
      io.out(`${ok ? 'ok   ' : 'WAIT '}${name}${detail ? `: ${detail}` : ''}\n`);
    for (const fault of value.faults) io.out(`fault ${faultLine(fault)}\n`);
  }
  return value.ready ? EXIT.ok : EXIT.failure;
}

/** Exit code 1 when a file is invalid; the last good versions stay in force. */
export async function reload(options: Options, io: Io): Promise<number> {
  const { faults } = await openClient(options, io).call<{ faults: readonly Fault[] }>('POST', '/v1/reload');
  io.err(faultsText(faults));
  if (faults.length > 0) return EXIT.failure;
  io.out('reloaded\n');
  return EXIT.ok;
}

/** The server's version is left out when none answers; that is no failure. */
export async function version(options: Options, io: Io): Promise<number> {
  io.out(`muster ${VERSION}\n`);
  try {
    const client = openClient(options, io);
    const server = await client.call<{ version: string; node: string }>('GET', '/version');
    io.out(`server ${server.version} (node ${server.node})\n`);
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
  }
  return EXIT.ok;
}
