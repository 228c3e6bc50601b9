/** `muster apply -f`, `muster delete` */

import { MusterError } from '../base/errors.ts';
import type { ApplyResult } from '../resources/catalog.ts';
import { PLURAL } from '../resources/kinds.ts';
import { type ApiClient, connectApi } from './client.socket.ts';
import { EXIT, type Io, printWarnings, socketPath } from './io.ts';
import { kindAndNames, kindOf } from './names.ts';
import { readTexts } from './sources.files.ts';

interface Common {
  readonly socket?: string;
  readonly dryRun?: boolean;
}

/** How an action is told: kubectl's words. */
const SAID = {
  created: 'created',
  changed: 'configured',
  unchanged: 'unchanged',
  deleted: 'deleted',
} as const;

/** Sends sources to be applied; what comes back says what happened, or would. */
export async function applyThrough(
  client: ApiClient,
  paths: readonly string[],
  dryRun: boolean,
  signal: AbortSignal,
): Promise<ApplyResult> {
  return await client.call<ApplyResult>('POST', '/v1/apply', {
    query: { dryRun: dryRun ? 'true' : undefined },
    body: { json: { sources: await readTexts(paths, signal) } },
    signal,
  });
}

/** Applies all documents of the files, or none. */
export async function apply(
  options: Common & { readonly filename: readonly string[] },
  io: Io,
): Promise<number> {
  const client = connectApi(socketPath(options.socket, io.env));
  const { results, warnings } = await applyThrough(
    client,
    options.filename,
    options.dryRun ?? false,
    io.signal,
  );
  for (const { kind, name, action } of results)
    io.out(`${kind.toLowerCase()}/${name} ${SAID[action]}${options.dryRun ? ' (dry run)' : ''}\n`);
  printWarnings(warnings, io);
  return EXIT.ok;
}

/** `KIND NAME…` or `KIND/NAME…`. Stops at the first that cannot be deleted. */
export async function remove(words: readonly string[], options: Common, io: Io): Promise<number> {
  const { kind: word, names } = kindAndNames(words);
  const kind = kindOf(word);
  if (names.length === 0) throw new MusterError('E_USAGE', `say which: muster delete ${word} NAME`);
  const client = connectApi(socketPath(options.socket, io.env));
  for (const name of names) {
    await client.call('DELETE', `/v1/${PLURAL[kind]}/${encodeURIComponent(name)}`, {
      query: { dryRun: options.dryRun ? 'true' : undefined },
    });
    io.out(`${kind.toLowerCase()} "${name}" deleted${options.dryRun ? ' (dry run)' : ''}\n`);
  }
  return EXIT.ok;
}
