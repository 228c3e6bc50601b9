/** The verbs of `muster machine` about its life: `life`, `take-out`, `wipe` and the others. */
import type { Answer } from '../../api/operations.ts';
import type { Timestamp } from '../../api/times.ts';
import type { Wipe } from '../../machines/life/wipe-order.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { readTexts } from '../documents/sources.files.ts';
import { EXIT, type Io } from '../io.ts';
import { formatOf, jsonText, yamlText } from '../output.ts';
import { timeText } from '../times.ts';

type LifeView = Answer<'GET /v1/machines/:name/life'>;

/** `muster machine life`. */
export async function life(
  machine: string,
  options: ServerOptions & { readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'json', 'yaml'] as const, 'table');
  const view = await openClient(options, io).ask('GET /v1/machines/:name/life', {
    params: { name: machine },
  });
  io.out(format === 'json' ? jsonText(view) : format === 'yaml' ? yamlText(view) : lifeText(view));
  return EXIT.ok;
}

function lifeText({
  machine,
  state,
  about,
  reason,
  by,
  at,
  waits,
  byHand,
  begun,
  rescue: rescued,
  allows,
  next,
}: LifeView): string {
  const lines = [
    `${machine} is ${state}. ${about}`,
    ...(reason === undefined ? [] : [`  why     ${reason} (${by}, ${timeText(at!)})`]),
    ...(waits === undefined ? [] : [`  waits   ${waits}`]),
    ...(byHand ? [`  power   no document names its BMC: ${byHandText(state)}`] : []),
    ...(begun ? ['  wipe    it has begun'] : []),
    ...(rescued ? rescueLines(rescued) : []),
    `  allows  ${allows.join(', ') || 'nothing'}`,
    `  next    ${next}`,
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/** How an operator gets into a rescue system, with the key by which ssh knows it. */
function rescueLines({ until, hostKey, address }: NonNullable<LifeView['rescue']>): readonly string[] {
  const ends = timeText(until as Timestamp);
  if (hostKey === undefined || address === undefined)
    return [`  rescue  until ${ends}; it has not begun yet`];
  return [
    `  rescue  until ${ends}: ssh root@${address}`,
    `  key     for ~/.ssh/known_hosts: ${address} ${hostKey}`,
  ];
}

const byHandText = (state: LifeView['state']): string =>
  ['wiping', 'testing', 'rescue'].includes(state)
    ? 'restart it by hand, from the network'
    : 'switch it off by hand';

interface TakeOutOptions extends ServerOptions {
  readonly reason: string;
  readonly drain: boolean;
}

/** `muster machine take-out`. */
export async function takeOut(machine: string, options: TakeOutOptions, io: Io): Promise<number> {
  const { reason, drain } = options;
  const out = await openClient(options, io).ask('POST /v1/machines/:name/take-out', {
    params: { name: machine },
    body: { reason, noDrain: !drain },
  });
  io.out(`machine/${out.machine} is taken out\n`);
  if (out.cluster !== undefined)
    io.err(
      `It leaves ${out.cluster} first and is switched off then: muster machine life ${out.machine} shows it.\n`,
    );
  return EXIT.ok;
}

/** `muster machine bring-back`. */
export async function bringBack(machine: string, options: ServerOptions, io: Io): Promise<number> {
  const back = await openClient(options, io).ask('POST /v1/machines/:name/bring-back', {
    params: { name: machine },
  });
  io.out(`machine/${back.machine} is in use\n`);
  io.err(`It boots when it is switched on: muster power on ${back.machine}, if it has a BMC.\n`);
  return EXIT.ok;
}

interface RetireOptions extends ServerOptions {
  readonly reason: string;
  readonly confirm?: string;
  readonly unwiped?: boolean;
}

/** `muster machine retire`. */
export async function retire(machine: string, options: RetireOptions, io: Io): Promise<number> {
  const { reason, confirm = '', unwiped = false } = options;
  const gone = await openClient(options, io).ask('POST /v1/machines/:name/retire', {
    params: { name: machine },
    body: { reason, confirm, unwiped },
  });
  io.out(`machine/${gone.machine} is retired\n`);
  return EXIT.ok;
}

/** Who restarts a machine for what it is to do in the discovery system. */
const restartText = ({ byHand }: { readonly byHand?: true }): string =>
  byHand ? 'It has no BMC: restart it from the network' : 'Its BMC restarts it';

interface WipeOptions extends ServerOptions {
  readonly level: Wipe['level'];
  readonly reason: string;
  readonly disk?: readonly string[];
  readonly confirm?: string;
}

/** `muster machine wipe`. */
export async function wipe(machine: string, options: WipeOptions, io: Io): Promise<number> {
  const { level, reason, disk = [], confirm = '' } = options;
  const out = await openClient(options, io).ask('POST /v1/machines/:name/wipe', {
    params: { name: machine },
    body: { level, reason, disks: [...disk], confirm },
  });
  io.out(`machine/${out.machine} is to be wiped\n`);
  io.err(`${restartText(out)}; muster machine wipes ${out.machine} shows the result.\n`);
  return EXIT.ok;
}

interface TestOptions extends ServerOptions {
  readonly reason?: string;
  readonly for?: string;
  readonly report?: boolean;
  readonly output?: string;
}

/** `muster machine test`: orders a test, or prints the reports. */
export async function test(machine: string, options: TestOptions, io: Io): Promise<number> {
  if (options.report) return await tests(machine, options, io);
  const { reason, for: lasts } = options;
  const out = await openClient(options, io).ask('POST /v1/machines/:name/test', {
    params: { name: machine },
    body: { ...(reason !== undefined && { reason }), ...(lasts !== undefined && { lasts }) },
  });
  io.out(`machine/${out.machine} is to be tested\n`);
  io.err(`${restartText(out)}; muster machine test ${out.machine} --report shows the result.\n`);
  return EXIT.ok;
}

/** Prints what was kept of a machine's orders, each as a text of its own. */
function printReports<T>(
  items: readonly T[],
  text: (item: T) => string,
  none: string,
  { output }: { readonly output?: string },
  io: Io,
): void {
  const format = formatOf(output, ['table', 'json', 'yaml'] as const, 'table');
  if (format === 'json') io.out(jsonText(items));
  else if (format === 'yaml') io.out(yamlText(items));
  else if (items.length === 0) io.err(none);
  else io.out(items.map(text).join('\n'));
}

/** Prints the reports of tests. Fails when the newest one has faults. */
async function tests(machine: string, options: TestOptions, io: Io): Promise<number> {
  const { items } = await openClient(options, io).ask('GET /v1/machines/:name/tests', {
    params: { name: machine },
  });
  printReports(items, testText, `No test of ${machine} has ended.\n`, options, io);
  return (items[0]?.faults ?? []).length === 0 ? EXIT.ok : EXIT.failure;
}

type Test = Answer<'GET /v1/machines/:name/tests'>['items'][number];

/** Megabytes per second. */
const rate = (octets: number, ms: number): string =>
  ms === 0 ? 'too short for a rate' : `${(octets / 1000 / ms).toFixed(1)} MB/s`;

function testText({ id, machine, serial, product, reason, by, orderedAt, at, faults, ...of }: Test): string {
  const { memory, disks, network } = of;
  return [
    `Test ${id}: ${faults.length === 0 ? 'passed' : 'FAILED'}`,
    ...faults.map((fault) => `  fault    ${fault}`),
    `  machine  ${machine}, ${product ?? 'unknown product'}, serial number ${serial ?? 'unknown'}`,
    `  ordered  by ${by} at ${orderedAt}: ${reason}`,
    `  ended    ${at}`,
    ...(memory
      ? [`  memory   ${memory.octets} octets for ${Math.round(memory.ms / 1000)} s, ${memory.errors} errors`]
      : []),
    ...disks.map(
      (one) =>
        `  disk     ${one.name}, serial number ${one.serial || 'unknown'}, ${one.model || 'unknown model'}: ${one.code}, ${one.read} of ${one.octets} octets at ${rate(one.read, one.ms)}; health ${one.health}, self-test ${one.selfTest}`,
    ),
    ...(network
      ? [
          `  network  ${network.card}: ${rate(network.octets, network.ms)} from the boot host, ${network.lost} of ${network.sent} packets lost, ${network.errors} errors`,
        ]
      : []),
  ]
    .map((line) => `${line}\n`)
    .join('');
}

interface ReplaceOptions extends ServerOptions {
  readonly mac?: readonly string[];
  readonly keepDisks?: boolean;
  readonly confirm?: string;
}

/** `muster machine replace`. */
export async function replace(machine: string, by: string, options: ReplaceOptions, io: Io): Promise<number> {
  const { mac = [], keepDisks: keepsDisks = false, confirm = '' } = options;
  const now = await openClient(options, io).ask('POST /v1/machines/:name/replace', {
    params: { name: machine },
    body: { by, macs: [...mac], keepsDisks, confirm },
  });
  io.out(`machine/${now.name} has the hardware of ${by}\n`);
  io.err(`It boots as ${now.name} from now on. If a document names its BMC, correct the address there.\n`);
  return EXIT.ok;
}

interface RescueOptions extends ServerOptions {
  readonly reason: string;
  readonly key: string;
  readonly for?: string;
}

/** `muster machine rescue`. */
export async function rescue(machine: string, options: RescueOptions, io: Io): Promise<number> {
  const { reason, for: lasts } = options;
  const [key] = await readTexts([options.key], io.signal);
  const out = await openClient(options, io).ask('POST /v1/machines/:name/rescue', {
    params: { name: machine },
    body: { reason, key: key!.text, ...(lasts !== undefined && { lasts }) },
  });
  io.out(`machine/${out.machine} boots the rescue system\n`);
  io.err(`${restartText(out)}; muster machine life ${out.machine} shows how to log in.\n`);
  return EXIT.ok;
}

/** `muster machine call-off`. */
export async function callOff(machine: string, options: ServerOptions, io: Io): Promise<number> {
  const out = await openClient(options, io).ask('POST /v1/machines/:name/call-off', {
    params: { name: machine },
  });
  io.out(`machine/${out.machine} is ${out.state}\n`);
  return EXIT.ok;
}

/** `muster machine wipes`: prints certificates. Fails when the last wipe did not count. */
export async function wipes(
  machine: string,
  options: ServerOptions & { readonly output?: string },
  io: Io,
): Promise<number> {
  const { items } = await openClient(options, io).ask('GET /v1/machines/:name/wipes', {
    params: { name: machine },
  });
  printReports(items, certificateText, `No wipe of ${machine} has ended.\n`, options, io);
  return items[0]?.failed === undefined ? EXIT.ok : EXIT.failure;
}

function certificateText(of: Answer<'GET /v1/machines/:name/wipes'>['items'][number]): string {
  const { id, machine, serial, product, level, reason, by, orderedAt, at, failed, disks } = of;
  return [
    `Wipe ${id}: ${failed === undefined ? 'proved' : `FAILED, ${failed}`}`,
    `  machine  ${machine}, ${product ?? 'unknown product'}, serial number ${serial ?? 'unknown'}`,
    `  level    ${level}`,
    `  ordered  by ${by} at ${orderedAt}: ${reason}`,
    `  ended    ${at}`,
    ...disks.map(
      (one) =>
        `  disk     ${one.name}, serial number ${one.serial || 'unknown'}, ${one.model || 'unknown model'}, ${one.octets} octets: ${
          one.result === 'left'
            ? `left alone (${one.code})`
            : `${one.result === 'done' ? 'wiped' : one.code}${one.method ? ` by ${one.method} (${one.evidence ?? 'no evidence'})` : ''}; of ${one.canaries} sectors written before, ${one.left} are left and ${one.zeros} read as zeros`
        }`,
    ),
  ]
    .map((line) => `${line}\n`)
    .join('');
}
