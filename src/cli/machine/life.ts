/** The verbs `muster machine life`, `take-out`, `bring-back` and `retire`. */
import type { Answer } from '../../api/operations.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
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

function lifeText({ machine, state, about, reason, by, at, waits, byHand, allows, next }: LifeView): string {
  const lines = [
    `${machine} is ${state}. ${about}`,
    ...(reason === undefined ? [] : [`  why     ${reason} (${by}, ${timeText(at!)})`]),
    ...(waits === undefined ? [] : [`  waits   ${waits}`]),
    ...(byHand ? [`  power   no document names its BMC: switch it off by hand`] : []),
    `  allows  ${allows.join(', ') || 'nothing'}`,
    `  next    ${next}`,
  ];
  return lines.map((line) => `${line}\n`).join('');
}

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
