/** `muster explain`: explains a machine (by asking the server), a field of a kind, or a capture. */

import type { ExplanationView } from '../../api/operations/explain.ts';
import { MusterError } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import { CONDITIONS } from '../../machines/condition.ts';
import { machineName } from '../../resources/fields.ts';
import type { ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { kindNamed, kindOf } from '../names.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

export interface ExplainOptions extends ServerOptions {
  readonly output?: string;
  readonly network?: string;
  readonly arch?: string;
  readonly firmware?: string;
  readonly packet?: string;
  readonly config?: string;
}

const isMachineName = (text: string): boolean => machineName.safeParse(text).success;

/**
 * `muster explain`: prints what a machine would get and why, the fields of a kind, or the handling
 * of a captured packet.
 *
 * @throws {MusterError} E_USAGE when nothing to explain is named; what the server answers
 */
export async function explain(what: string | undefined, options: ExplainOptions, io: Io): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  if (options.packet !== undefined)
    return (await import('./packet.ts')).explainPacket(options.packet, options, io);
  if (what === undefined)
    throw new MusterError(
      'E_USAGE',
      'name what to explain: a MAC address, a machine, KIND[.field], or --packet FILE',
    );
  const [first = '', ...path] = what.split('.');
  const mac = parseMac(what);
  const kind = mac === undefined ? kindNamed(first) : undefined;
  if (kind !== undefined) {
    const { explainKind, isFieldOf } = await import('./kind.ts');
    // A machine may be called machine.lab.example.
    if (path.length === 0 || first !== first.toLowerCase() || isFieldOf(kind, path) || !isMachineName(what)) {
      io.out(explainKind(kind, path));
      return EXIT.ok;
    }
  }
  // Names of machines have no capital letters, and kinds in documents do, so this word is a
  // misspelt kind.
  if (mac === undefined && /^[A-Z][A-Za-z]*$/.test(first)) kindOf(first);
  const { openClient } = await import('../client.socket.ts');
  const { network, arch, firmware } = options;
  const answer = await openClient(options, io).call<ExplanationView>('GET', '/v1/explain', {
    query: { ...(mac === undefined ? { machine: what } : { mac }), network, arch, firmware },
  });
  if (format === 'json') io.out(jsonText(answer));
  else if (format === 'yaml') io.out(yamlText(answer));
  else {
    const { formatExplanation } = await import('../../pxe/decide/explain.ts');
    const { verdictsText } = await import('../machine/timeline.ts');
    const [name, ...rows] = formatExplanation(answer).split('\n');
    io.out([name, ...conditionRow(answer), ...rows].join('\n') + verdictsText(answer.verdicts, io.color));
  }
  return EXIT.ok;
}

/** The row that says what is so of the machine now; none where nothing is known of it. */
function conditionRow({ condition }: ExplanationView): readonly string[] {
  if (condition === undefined) return [];
  const { word, reason, silentSince } = condition;
  const why =
    silentSince === undefined
      ? (reason?.text ?? CONDITIONS[word].about)
      : `last heard at ${timeText(silentSince)}`;
  return [`  condition        ${word}: ${why}`];
}
