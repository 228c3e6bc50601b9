/**
 * `muster change`: shows the change of a cluster, follows it, or orders something of it. The verbs
 * that begin one, such as `muster cluster upgrade`, do it here.
 */
import type { Answer, Body } from '../../api/operations.ts';
import { counted } from '../../base/counted.ts';
import { type Millis, millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, orderOf, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type Begun = Answer<'POST /v1/clusters/:name/change'>;
/** A change, of any kind, as the API shows it. */
type ChangeView = Answer<'GET /v1/clusters/:name/change'>;
type ChangePreview = Exclude<Begun, ChangeView>;

const FORMATS = ['table', 'json', 'yaml'] as const;
type Format = (typeof FORMATS)[number];

export interface ChangeOptions extends ServerOptions {
  readonly output?: string;
}

export interface BeginOptions extends ChangeOptions {
  readonly dryRun?: boolean;
}

/** How people read the name of Muster's own scope. */
export const shownName = (scope: string): string => (scope === MUSTER_SCOPE ? 'muster' : scope);

/** Begins a change, or shows what it would do. The exit code says whether it can begin. */
export async function begin(
  cluster: string,
  request: Body<'POST /v1/clusters/:name/change'>,
  options: BeginOptions,
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, FORMATS, 'table');
  const { dryRun } = options;
  const answer = await openClient(options, io).ask('POST /v1/clusters/:name/change', {
    params: { name: cluster },
    ...(dryRun && { query: { dryRun } }),
    body: request,
  });
  if ('minutes' in answer) {
    print(answer, format, previewText, io);
    return answer.faults.length === 0 ? EXIT.ok : EXIT.failure;
  }
  print(answer, format, changeText, io);
  if (format === 'table') io.out(`muster change ${cluster} shows how far it is\n`);
  return EXIT.ok;
}

const ORDERS = {
  pause: 'POST /v1/clusters/:name/change/pause',
  resume: 'POST /v1/clusters/:name/change/resume',
  'roll-back': 'POST /v1/clusters/:name/change/roll-back',
  'leave-out': 'POST /v1/clusters/:name/change/leave-out',
} as const;

/**
 * `muster change`: without an order it shows the change that is under way, or the last one.
 *
 * @param machines with `leave-out`: those that are not waited for any more
 * @throws {MusterError} E_USAGE for an unknown order, and what the server answers
 */
export async function change(
  cluster: string,
  order: string | undefined,
  machines: readonly string[],
  options: ChangeOptions & { readonly leave?: readonly string[] },
  io: Io,
): Promise<number> {
  const { leave = [] } = options;
  const format = formatOf(options.output, FORMATS, 'table');
  const ordered =
    order === undefined || order === 'watch' ? undefined : orderOf(ORDERS, order, { last: 'watch' });
  const isLeaving = ordered === 'leave-out';
  if (!isLeaving && machines.length + leave.length > 0)
    throw new MusterError('E_USAGE', 'only leave-out takes machines, or things that --leave names');
  if (isLeaving && machines.length + leave.length === 0)
    throw new MusterError(
      'E_USAGE',
      'name the machines that are left out, or with --leave what is left behind',
    );
  const client = openClient(options, io);
  const params = { name: cluster };
  const show = (view: ChangeView): void => print(view, format, changeText, io);
  if (order === 'watch')
    return watched(() => client.ask('GET /v1/clusters/:name/change', { params }), show, format, io);
  if (isLeaving) show(await client.ask(ORDERS[ordered], { params, body: { without: machines, leave } }));
  else if (ordered !== undefined) show(await client.ask(ORDERS[ordered], { params, body: {} }));
  else show(await client.ask('GET /v1/clusters/:name/change', { params }));
  return EXIT.ok;
}

const LOOK_EVERY: Millis = millis(1000);

/**
 * Prints a change, and then what is new of it, until it has ended. The exit code says whether it is
 * complete.
 */
async function watched(
  look: () => Promise<ChangeView>,
  show: (view: ChangeView) => void,
  format: Format,
  io: Io,
): Promise<number> {
  const shown = new Set<string>();
  for (;;) {
    const view = await look();
    if (format === 'table') {
      const lines = changeText(view).trimEnd().split('\n');
      for (const line of lines) if (!shown.has(line)) io.out(`${line}\n`);
      shown.clear();
      for (const line of lines) shown.add(line);
    } else if (!shown.has(JSON.stringify(view))) {
      show(view);
      shown.clear();
      shown.add(JSON.stringify(view));
    }
    if (view.ended) return view.ended.as === 'done' ? EXIT.ok : EXIT.failure;
    if (io.signal.aborted) return EXIT.ok;
    await io.pause(LOOK_EVERY);
  }
}

function print<T>(value: T, format: Format, text: (value: T) => string, io: Io): void {
  io.out(format === 'json' ? jsonText(value) : format === 'yaml' ? yamlText(value) : text(value));
}

const MARKS = { done: 'done', now: '  ->', next: '', 'rolled-back': 'back' } as const;

/** A change as text: a line for each step, then what is waited for. */
function changeText(view: ChangeView): string {
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

/** Where a change is, for example `held at trust`. */
export function stateOf({ ended, paused, holding, back, step }: ChangeView): string {
  if (ended) return ended.as === 'done' ? 'complete' : 'rolled back';
  if (paused) return `paused before or at ${step}`;
  const at = back ? `rolling back, at ${step}` : `at ${step}`;
  return holding ? `held ${at}` : at;
}

/** What a change would do, as text. */
export function previewText({
  steps,
  minutes,
  restarts,
  about,
  hooks,
  waits,
  faults,
}: ChangePreview): string {
  const lines = Object.entries(about).map(([subject, text]) => `${subject}: ${text}`);
  for (const step of steps) {
    if (step.noReturn) lines.push('--- It cannot be rolled back from here on.');
    lines.push(`${step.name.padEnd(11)} ${step.sentence} (about ${step.minutes} min)`);
    for (const [program, machines] of Object.entries(step.restarts))
      lines.push(`${' '.repeat(12)}restarts ${program} on ${machines.join(', ')}`);
  }
  const most = Math.max(0, ...Object.values(restarts));
  lines.push(`In all about ${minutes} min; at most ${most} restarts of programs on a machine.`);
  lines.push(...hooks.map((hook) => `It asks the hook ${hook}.`));
  if (waits !== undefined) lines.push(waits);
  lines.push(...faults.map(({ message }) => `REFUSED: ${message}`));
  return `${lines.join('\n')}\n`;
}
