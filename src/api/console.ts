/** The handler for what machines printed on their consoles. */
import { MusterError } from '../base/errors.ts';
import type { ConsoleBoot } from '../machines/console.files.ts';
import { withoutCodes } from '../machines/console.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';
import { findMachine } from './machines.ts';
import { withTimestamps } from './times.ts';

/** Finds a boot by its id or by how many boots back it is (`0`, `-1`, …). */
const bootNamed = (boots: readonly ConsoleBoot[], named: string): ConsoleBoot | undefined =>
  /^(0|-\d+)$/.test(named) ? boots[-Number(named)] : boots.find(({ id }) => id === named);

/**
 * Shows what a machine printed in a boot. Codes of keys that wait are left out now, because a key
 * may wait for its approval longer than its lines are here.
 */
export const showConsole: Handler<ApiDeps> = async ({ params, query }, deps) => {
  const { name } = findMachine(params.name ?? '', deps);
  const boots = await deps.consoles.boots(name);
  const named = query.get('boot');
  const boot = bootNamed(boots, named ?? '0');
  if (boot === undefined && named !== null)
    throw new MusterError(
      'E_NOT_FOUND',
      `nothing is kept of boot "${named}" of ${name}; without ?boot= the answer lists the boots that are kept`,
    );
  const codes = deps.agents
    .waiting({ codes: true })
    .flatMap(({ code }) => (code === undefined ? [] : [code]));
  const after = Number(query.get('after') ?? 0);
  const lines = boot === undefined ? [] : await deps.consoles.lines(name, boot.id, after);
  return json({
    kind: 'Console' as const,
    machine: name,
    claim: true as const,
    boots: boots.map((one) => withTimestamps(one, 'at')),
    ...(boot && { boot: boot.id }),
    lines: lines.map(({ number, text }) => ({ number, text: withoutCodes(text, codes) })),
  });
};
