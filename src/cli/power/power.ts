/** The verbs `muster power …`, `muster machine boot` and `muster machine identify`. */
import type { Answer, Body } from '../../api/operations.ts';
import { systemClock } from '../../base/clock.ts';
import { counted } from '../../base/counted.ts';
import { type Millis, millis, spanText } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { millisSince, timeText } from '../times.ts';

type PowerList = Answer<'GET /v1/power'>;
type View = PowerList['items'][number];
type Order = Body<'POST /v1/power'>;

const FORMATS = ['table', 'wide', 'json', 'yaml'] as const;

/** What an order came to: its end, or where it is. */
function orderText({ order }: View): string | undefined {
  if (order === undefined) return undefined;
  const { end, step, attempts } = order;
  const what = `${order.order}${order.boot === undefined ? '' : ` from ${order.boot}`}`;
  if (end) return `${what}: ${end.code}`;
  return `${what}: ${step}${attempts > 1 ? `, attempt ${attempts}` : ''}`;
}

const COLUMNS: readonly Column<View>[] = [
  { heading: 'NAME', cell: ({ machine }) => machine },
  {
    heading: 'POWER',
    cell: ({ state }) => state,
    color: ({ state }) => (state === 'on' ? 'green' : state === 'unknown' ? 'yellow' : undefined),
  },
  {
    heading: 'READ',
    cell: ({ readAt }) =>
      readAt === undefined ? undefined : `${spanText(millisSince(readAt, systemClock.now()))} ago`,
  },
  { heading: 'LAST ORDER', cell: orderText },
  { heading: 'BMC', cell: ({ address, protocol }) => `${address} ${protocol}` },
  { heading: 'FAULT', cell: ({ fault }) => fault, cuts: true },
  { heading: 'BY', wide: true, cell: ({ order }) => order && `${order.by}, ${timeText(order.at)}` },
  { heading: 'CERTIFICATE', wide: true, cell: ({ pin }) => pin?.slice(0, 16) },
];

export interface PowerOptions extends ServerOptions {
  readonly selector?: string;
  readonly output?: string;
}

/** `muster power status`: asks the BMCs. */
export async function powerStatus(
  machines: readonly string[],
  options: PowerOptions & { readonly last?: boolean },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, FORMATS, 'table');
  const { selector: labels, last } = options;
  const query = {
    ...(machines.length > 0 && { machines: machines.join(',') }),
    ...(labels !== undefined && { labels }),
    ...(!last && { live: true }),
  };
  // BMCs that do not answer are asked for half a minute.
  const found = await openClient(options, io).ask('GET /v1/power', { query }, { works: true });
  print(found, format, io);
  return found.items.some(({ state }) => state === 'unknown') ? EXIT.failure : EXIT.ok;
}

function print(found: PowerList, format: (typeof FORMATS)[number], io: Io): void {
  if (format === 'json') io.out(jsonText(found));
  else if (format === 'yaml') io.out(yamlText(found));
  else io.out(tableText(COLUMNS, found.items, { ...lookOf(io), wide: format === 'wide' }));
}

export interface OrderOptions extends PowerOptions {
  readonly stagger?: string;
  readonly atOnce?: number;
  readonly boot?: Order['boot'];
  readonly patience?: string;
  readonly now?: boolean;
  readonly within?: string;
  readonly wait?: 'order' | 'ready' | 'none';
  readonly yes?: boolean;
  readonly dryRun?: boolean;
}

/** What the words of the command order. */
const ORDERS = {
  on: () => ({ order: 'on' }),
  off: ({ now, within = '5m' }: OrderOptions) =>
    now ? { order: 'off', cut: true } : { order: 'shut-down', hardAfter: within, cut: true },
  cycle: () => ({ order: 'cycle', cut: true }),
  reset: () => ({ order: 'reset', cut: true }),
} as const satisfies Readonly<
  Record<string, (options: OrderOptions) => Pick<Order, 'order' | 'cut' | 'hardAfter'>>
>;
export type PowerWord = keyof typeof ORDERS;

/** `muster power on|off|cycle|reset`: orders it, and follows the order to its end. */
export function power(
  word: PowerWord,
  machines: readonly string[],
  options: OrderOptions,
  io: Io,
): Promise<number> {
  return give(machines, ORDERS[word](options), options, io);
}

/** `muster machine boot NAME --once network`: where the next boot alone comes from. */
export function bootOnce(
  machine: string,
  options: ServerOptions & { readonly once: NonNullable<Order['boot']> },
  io: Io,
): Promise<number> {
  return give([machine], { order: 'boot', boot: options.once }, options, io);
}

async function give(
  machines: readonly string[],
  order: Pick<Order, 'order' | 'cut' | 'hardAfter' | 'boot'>,
  options: OrderOptions,
  io: Io,
): Promise<number> {
  const { selector, stagger, atOnce, boot, patience, wait = 'order', yes, dryRun } = options;
  if (machines.length === 0 && selector === undefined)
    throw new MusterError('E_USAGE', 'name machines, or select them with -l');
  const format = formatOf(options.output, FORMATS, 'table');
  const client = openClient(options, io);
  const body = {
    ...order,
    machines: [...machines],
    ...(selector !== undefined && { labels: selector }),
    ...(stagger !== undefined && { stagger }),
    ...(atOnce !== undefined && { atOnce }),
    ...(boot !== undefined && { boot }),
    ...(patience !== undefined && { patience }),
  };
  const preview = await client.ask('POST /v1/power', { query: { dryRun: true }, body });
  const isMany = preview.items.length > 1;
  if (dryRun || (isMany && !yes)) {
    print(preview, format, io);
    const what = `${order.order} of ${counted(preview.items.length, 'machine')}`;
    io.err(`Nothing was ordered: this is what ${what} is about.${isMany ? ' Repeat it with --yes.' : ''}\n`);
    return dryRun ? EXIT.ok : EXIT.failure;
  }
  const given = await client.ask('POST /v1/power', { body });
  const names = given.items.map(({ machine }) => machine);
  if (wait === 'none') {
    print(given, format, io);
    return EXIT.ok;
  }
  return follow(client, names, { format, isReady: wait === 'ready' }, io);
}

const LOOK_EVERY: Millis = millis(1000);

/** Follows orders to their ends. The exit code says whether all are proved. */
async function follow(
  client: ApiClient,
  names: readonly string[],
  { format, isReady }: { readonly format: (typeof FORMATS)[number]; readonly isReady: boolean },
  io: Io,
): Promise<number> {
  const told = new Set<string>();
  for (;;) {
    const found = await client.ask('GET /v1/power', { query: { machines: names.join(',') } });
    for (const { machine, order } of found.items) {
      if (order?.end === undefined || told.has(machine)) continue;
      told.add(machine);
      if (format === 'table' || format === 'wide')
        io.out(`machine/${machine} ${order.order}: ${order.end.code}: ${order.end.text}\n`);
    }
    if (told.size === names.length) {
      if (format === 'json' || format === 'yaml') print(found, format, io);
      const bad = found.items.filter(({ order }) => order?.end?.proved !== true);
      for (const { machine } of bad) io.err(`muster explain ${machine} says what to do about it\n`);
      if (bad.length > 0) return EXIT.failure;
      return isReady ? await untilReady(client, names, io) : EXIT.ok;
    }
    if (io.signal.aborted) return EXIT.ok;
    await io.pause(LOOK_EVERY);
  }
}

/** Waits until machines are ready, or one of them cannot become so by itself. */
async function untilReady(client: ApiClient, names: readonly string[], io: Io): Promise<number> {
  const left = new Set(names);
  for (;;) {
    for (const name of left) {
      const { status } = await client.ask('GET /v1/:kind/:name', { params: { kind: 'machines', name } });
      const condition = status.condition?.word;
      if (condition === 'ready' || condition === 'booted') {
        left.delete(name);
        io.out(`machine/${name} ${condition}\n`);
      }
      if (condition === 'refused' || condition === 'held' || condition === 'failing') {
        io.err(`machine/${name} is ${condition}: muster explain ${name} says why\n`);
        return EXIT.failure;
      }
    }
    if (left.size === 0 || io.signal.aborted) return EXIT.ok;
    await io.pause(LOOK_EVERY);
  }
}

/** `muster machine identify`: lights the lamp. */
export async function identify(
  machine: string,
  options: ServerOptions & { readonly seconds?: number; readonly off?: boolean },
  io: Io,
): Promise<number> {
  const seconds = options.off ? 0 : (options.seconds ?? 60);
  const lit = await openClient(options, io).ask('POST /v1/machines/:name/identify', {
    params: { name: machine },
    body: { seconds },
  });
  io.out(`machine/${lit.machine}: its lamp is ${seconds === 0 ? 'out' : `lit for ${seconds} s`}\n`);
  return EXIT.ok;
}

/** `muster power forget`: the next certificate and log-in of a BMC count as the first. */
export async function forgetBmc(machine: string, options: ServerOptions, io: Io): Promise<number> {
  const done = await openClient(options, io).ask('DELETE /v1/machines/:name/bmc', {
    params: { name: machine },
  });
  io.out(`machine/${done.machine}: what was learnt of its BMC is forgotten\n`);
  return EXIT.ok;
}
