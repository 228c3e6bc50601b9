/** The verbs `muster pki rotate` and `muster pki rotation`. */

import type { Given } from '../../api/contract/request.ts';
import type { Answer } from '../../api/operations.ts';
import { counted } from '../../base/counted.ts';
import { MusterError } from '../../base/errors.ts';
import type { ChangePreview } from '../../cluster/change/preview.ts';
import { breakable, breaksOf } from '../../pki/keysets.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, orderOf, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

interface Options extends ServerOptions {
  readonly output?: string;
}

interface RotateOptions extends Options {
  /** Absent: Muster's own keys. */
  readonly cluster?: string;
  readonly dryRun?: boolean;
  readonly pauseBefore?: readonly string[];
  readonly without?: readonly string[];
  readonly leave?: readonly string[];
}

/** A change of a cluster, of any kind, as the API shows it. */
type ChangeView = Answer<'GET /v1/clusters/:name/rotation'>;

/** How people and options name the scope of Muster's own keys. */
const OWN = 'muster';
const shownName = (scope: string): string => (scope === MUSTER_SCOPE ? OWN : scope);
const commandOf = (scope: string): string =>
  `muster pki rotation ${scope === MUSTER_SCOPE ? '--own' : scope}`;

/** `muster pki rotate`: begins a rotation, or shows what it would do. */
export async function rotate(keysets: readonly string[], options: RotateOptions, io: Io): Promise<number> {
  const { cluster = MUSTER_SCOPE, dryRun = false, pauseBefore, without, leave } = options;
  const format = formatOf(options.output, ['table', 'json', 'yaml'], 'table');
  const asked = {
    params: { name: cluster },
    body: { keysets, pauseBefore, without, leave },
  };
  const client = openClient(options, io);
  if (dryRun) {
    const preview = await previewOf(client, asked);
    io.out(
      format === 'json' ? jsonText(preview) : format === 'yaml' ? yamlText(preview) : previewText(preview),
    );
    return EXIT.ok;
  }
  const view = (await client.ask('POST /v1/clusters/:name/rotation', asked)) as ChangeView;
  print(view, format, io);
  if (format === 'table') io.out(`${commandOf(cluster)} shows how far it is\n`);
  return EXIT.ok;
}

type Asked = Given<'POST /v1/clusters/:name/rotation'>;

const previewOf = async (client: ApiClient, asked: Asked): Promise<ChangePreview> =>
  (await client.ask('POST /v1/clusters/:name/rotation', {
    ...asked,
    query: { dryRun: true },
  })) as ChangePreview;

interface DistrustOptions extends Options {
  /** Absent: Muster's own keys. */
  readonly cluster?: string;
  readonly now?: boolean;
  readonly confirm?: string;
  readonly without?: readonly string[];
}

/**
 * `muster pki distrust`: ends the old keys at once, because they are in the wrong hands.
 *
 * @throws {MusterError} E_USAGE without `--now`, and without `--confirm NAME`: then it prints what
 *   would restart and break
 */
export async function distrust(
  keysets: readonly string[],
  options: DistrustOptions,
  io: Io,
): Promise<number> {
  const { cluster = MUSTER_SCOPE, now = false, confirm, without } = options;
  const name = shownName(cluster);
  if (!now)
    throw new MusterError(
      'E_USAGE',
      'a rotation in steps is `muster pki rotate`; `--now` ends the old keys at once',
    );
  const client = openClient(options, io);
  const asked = {
    params: { name: cluster },
    body: { keysets, without, emergency: cluster },
  };
  if (confirm !== name) {
    io.out(previewText(await previewOf(client, asked)));
    const ended = keysets.includes('all') ? breakable(name === OWN ? 'muster' : 'cluster') : keysets;
    for (const one of ended) io.out(`${one} cuts off: ${breaksOf(one) ?? 'what uses it'}\n`);
    throw new MusterError(
      'E_USAGE',
      `this ends the old keys at once, and cannot be taken back; if that is right, add --confirm ${name}`,
    );
  }
  const view = (await client.ask('POST /v1/clusters/:name/rotation', asked)) as ChangeView;
  print(view, 'table', io);
  io.out(`${commandOf(cluster)} shows how far it is\n`);
  return EXIT.ok;
}

const ORDERS = {
  pause: 'POST /v1/clusters/:name/rotation/pause',
  resume: 'POST /v1/clusters/:name/rotation/resume',
  rollback: 'POST /v1/clusters/:name/rotation/roll-back',
} as const;

interface RotationOptions extends Options {
  readonly own?: boolean;
  readonly confirm?: string;
  readonly without?: readonly string[];
  readonly leave?: readonly string[];
}

/**
 * `muster pki rotation`: shows the rotation of a cluster, or with `--own` of Muster's own keys, or
 * orders something of it. With `--own` the first argument is the order.
 *
 * @throws {MusterError} E_USAGE for an unknown order, and without a cluster
 */
export async function rotation(
  first: string | undefined,
  second: string | undefined,
  options: RotationOptions,
  io: Io,
): Promise<number> {
  const [cluster, order] = options.own ? [MUSTER_SCOPE, first] : [first, second];
  if (cluster === undefined || (options.own && second !== undefined))
    throw new MusterError('E_USAGE', "name the Cluster, or say --own for Muster's own keys");
  const format = formatOf(options.output, ['table', 'json', 'yaml'], 'table');
  const client = openClient(options, io);
  const { without = [], leave = [] } = options;
  const params = { name: cluster };
  if (order === 'accept') return acceptKeys(cluster, options, io);
  const ordered = order === undefined ? undefined : orderOf(ORDERS, order, { last: 'accept' });
  let view: ChangeView | undefined;
  if (without.length > 0 || leave.length > 0)
    view = await client.ask('POST /v1/clusters/:name/rotation/leave-out', {
      params,
      body: { without, leave },
    });
  if (ordered !== undefined) view = await client.ask(ORDERS[ordered], { params });
  view ??= await client.ask('GET /v1/clusters/:name/rotation', { params });
  print(view, format, io);
  return EXIT.ok;
}

/**
 * Lets the keys of a restored store count, although machines have later ones.
 *
 * @throws {MusterError} E_USAGE without `--confirm CLUSTER`, and what the server answers
 */
async function acceptKeys(cluster: string, { confirm = '', ...options }: RotationOptions, io: Io) {
  const params = { name: cluster };
  const body = { confirm };
  await openClient(options, io).ask('POST /v1/clusters/:name/rotation/accept', { params, body });
  io.out(`the keys of this store count for ${cluster}; machines get them with their next polls\n`);
  return EXIT.ok;
}

/** Prints how far a change is. */
export function print(view: ChangeView, format: 'table' | 'json' | 'yaml', io: Io): void {
  io.out(format === 'json' ? jsonText(view) : format === 'yaml' ? yamlText(view) : rotationText(view));
}

const MARKS = { done: 'done', now: '  ->', next: '', 'rolled-back': 'back' } as const;

/** A rotation as text: a line for each step, then what is waited for. */
function rotationText(view: ChangeView): string {
  const lines = [
    `${view.kind} of ${shownName(view.cluster)}, ordered by ${view.by}, ${timeText(view.at)}: ${stateOf(view)}`,
  ];
  for (const { name, sentence, state, machines, text, noReturn } of view.steps) {
    const shown = machines ? ` (${counted(machines, 'machine')})` : '';
    lines.push(`${MARKS[state].padEnd(5)}${name.padEnd(11)} ${sentence}${shown}${text ? ` ${text}.` : ''}`);
    if (noReturn && state !== 'done') lines.push(`${' '.repeat(17)}It cannot be rolled back from here on.`);
  }
  if (view.holding) lines.push(`HELD: ${view.holding.text} ${view.holding.remedy}`);
  for (const [machine, text] of Object.entries(view.waiting))
    lines.push(`waits for ${machine === '' ? shownName(view.cluster) : machine}: ${text}`);
  if (view.without.length > 0) lines.push(`left out: ${view.without.join(', ')}`);
  return `${lines.join('\n')}\n`;
}

function stateOf({ ended, paused, holding, back, step }: ChangeView): string {
  if (ended) return ended.as === 'done' ? 'complete' : 'rolled back';
  if (paused) return `paused before or at ${step}`;
  const at = back ? `rolling back, at ${step}` : `at ${step}`;
  return holding ? `held ${at}` : at;
}

/** The hooks that a change would ask, as text. */
export const hooksLines = ({ hooks }: { readonly hooks: readonly string[] }): string =>
  hooks.map((hook) => `It asks the hook ${hook}.\n`).join('');

/** What a change would do, as text. */
export function previewText({ steps, minutes, restarts }: ChangePreview): string {
  const lines: string[] = [];
  for (const step of steps) {
    if (step.noReturn) lines.push('--- It cannot be rolled back from here on.');
    lines.push(`${step.name.padEnd(11)} ${step.sentence} (about ${step.minutes} min)`);
    for (const [program, machines] of Object.entries(step.restarts))
      lines.push(`${' '.repeat(12)}restarts ${program} on ${machines.join(', ')}`);
  }
  const most = Math.max(0, ...Object.values(restarts));
  lines.push(`In all about ${minutes} min; at most ${most} restarts of programs on a machine.`);
  return `${lines.join('\n')}\n`;
}
