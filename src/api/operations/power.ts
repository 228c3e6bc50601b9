/** Power of machines through their BMCs: states, orders, the lamp. */
import { z } from 'zod';
import { names, truth } from '../../base/body.ts';
import { type Millis, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { inParts } from '../../base/parts.ts';
import { BOOT_TARGETS, POWER_STATES } from '../../bmc/bmc.ts';
import { countingPin } from '../../bmc/certificate.ts';
import type { Known } from '../../bmc/known.ts';
import { type Order, PATIENCE, WANTS, type Want } from '../../bmc/order.ts';
import type { PowerOrders, ReadPower } from '../../bmc/orders.ts';
import { type Reach, whereOf } from '../../bmc/reach.ts';
import type { Upkeep } from '../../bmc/upkeep.ts';
import { BMC_VIEWS, SENSOR_KINDS, SENSOR_STATES } from '../../bmc/views.ts';
import type { Roster } from '../../machines/roster.ts';
import { checkMachines, type Principal } from '../access.ts';
import { dryRun, labelledPart, listOf, on, type Parsed, time, word } from '../contract/contract.ts';
import { checkMine, findMachine, labelsOf, ofClusters, placing } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';
import { byLabels } from '../selectors.ts';
import { timestamp } from '../times.ts';

export interface PowerDeps {
  readonly roster: Pick<Roster, 'get' | 'byMac' | 'list'>;
  readonly agents: {
    agentCluster(machine: string): string | undefined;
  };
  readonly power: PowerOrders & {
    /** How the BMC of a machine is reached; undefined: no document names one. */
    readonly reach: (machine: string) => Reach | undefined;
    readonly known: (machine: string) => Known | undefined;
    readonly rotate: Upkeep['rotate'];
    readonly certify: Upkeep['certify'];
    readonly replaceAuthority: Upkeep['replaceAuthority'];
    /** The certificates of the CA of BMCs, PEM; empty: there is none yet. */
    readonly authority: () => Promise<string>;
  };
}

const order = z
  .strictObject({
    id: z.string(),
    order: z.enum(WANTS),
    boot: z.enum(BOOT_TARGETS).optional(),
    by: z.string(),
    at: time,
    step: z.string().meta({ description: 'Where it is, or where it ended.' }),
    attempts: z.int(),
    end: z
      .strictObject({
        proved: z.boolean(),
        code: z.string().meta({ description: '`proved`, or a name of docs/power.md.' }),
        text: z.string(),
        at: time,
      })
      .optional(),
  })
  .meta({ id: 'PowerOrder', description: 'The last order about the power of a machine.' });

const powerView = z.strictObject({
  machine: z.string(),
  address: z.string().meta({ description: 'Of its BMC; its MAC address while it has no other.' }),
  protocol: z.string().meta({ description: 'What it speaks; auto: nobody has tried yet.' }),
  pin: z.string().optional().meta({ description: 'SHA-256 of the certificate that counts.' }),
  state: z.enum(POWER_STATES).optional(),
  readAt: time.optional().meta({ description: 'When the state was read.' }),
  fault: z.string().optional().meta({ description: 'Why the state is unknown.' }),
  order: order.optional(),
});
export type PowerView = Parsed<z.output<typeof powerView>>;
const list = listOf('PowerList', powerView);

const bmcView = z
  .strictObject({
    machine: z.string(),
    inventory: z
      .strictObject({
        manufacturer: z.string().optional(),
        model: z.string().optional(),
        serial: z.string().optional(),
        firmware: z.array(z.strictObject({ name: z.string(), version: z.string() })),
      })
      .optional(),
    sensors: z
      .array(
        z.strictObject({
          name: z.string(),
          kind: z.enum(SENSOR_KINDS),
          value: z.number().optional().meta({ description: 'Absent: there is no reading now.' }),
          unit: z.string(),
          state: z.enum(SENSOR_STATES).optional(),
        }),
      )
      .optional(),
    log: z
      .array(
        z.strictObject({
          at: time.optional().meta({ description: 'By the clock of the BMC.' }),
          severity: z.enum(SENSOR_STATES).optional(),
          text: z.string(),
        }),
      )
      .optional()
      .meta({ description: 'The newest entries, the newest last.' }),
  })
  .meta({ id: 'BmcView', description: 'What a BMC says of its machine; only what was asked for.' });

export const stamp = (at: number): string => timestamp(at as Millis);

const shownOrder = ({ id, want, boot, by, at, step, rung, end }: Order) => ({
  ...{ id, order: want, by, at: stamp(at), step, attempts: rung + 1 },
  ...(boot && { boot: boot.target }),
  ...(end && { end: { ...end, at: stamp(end.at) } }),
});

/** A machine with a BMC. */
function viewOf(machine: string, { power }: Pick<PowerDeps, 'power'>, read?: ReadPower) {
  const reach = power.reach(machine)!;
  const known = power.known(machine);
  const state = read ?? power.read(machine);
  const last = power.last(machine);
  const pin = countingPin(reach, known);
  return {
    ...{ machine, address: whereOf(reach), protocol: known?.protocol ?? reach.protocol },
    ...(pin !== undefined && { pin }),
    ...(state && { state: state.state, readAt: stamp(state.at) }),
    ...(state?.fault !== undefined && { fault: state.fault }),
    ...(last && { order: shownOrder(last) }),
  };
}

/** The most machines of one request: so many BMCs are asked for their states. */
const MOST = 1000;
/** How many BMCs are asked at the same time. */
const AT_ONCE = 64;

/** The machines that a request names, or selects; those have a BMC. */
export function chosen(
  { machines, labels }: { readonly machines: readonly string[]; readonly labels?: string | undefined },
  deps: PowerDeps,
  isMine: (machine: string) => boolean,
): readonly string[] {
  const named = machines.map((one) => findMachine(one, deps).name);
  if (labels === undefined) return named;
  const fits = byLabels(labels, 'labels');
  const labelsIn = labelsOf(deps);
  const selected = deps.roster
    .list()
    .filter(
      ({ name }) => fits({ metadata: { labels: labelsIn(name) } }) && deps.power.reach(name) && isMine(name),
    )
    .map(({ name }) => name);
  return [...new Set([...named, ...selected])];
}

/** @throws {MusterError} E_USAGE for more machines than one request may name */
export function checked(found: readonly string[]): readonly string[] {
  if (found.length > MOST)
    throw new MusterError('E_USAGE', `these are ${found.length} machines; name at most ${MOST} at once`);
  return found;
}

function mustReach(found: readonly string[], { power }: Pick<PowerDeps, 'power'>): void {
  for (const name of found)
    if (!power.reach(name)) throw new MusterError('E_BMC', `no document names a BMC of ${name}`);
}

/** Orders that take the power from a system that runs. */
const CUTS: ReadonlySet<Want> = new Set(['off', 'cycle', 'reset']);

function span(text: string | undefined, name: string): Millis | undefined {
  const found = text === undefined ? undefined : parseDuration(text);
  if (text !== undefined && found === undefined)
    throw new MusterError('E_USAGE', `${name}: "${text}" is not a duration; write it like 2s or 5m`);
  return found;
}

const ordered = z.strictObject({
  order: z.enum(WANTS).meta({
    description:
      'on; off: at once; shut-down: by its system; cycle: off and on; reset: at once, with its power on; boot: only where its next boot comes from.',
  }),
  machines: names('Their names, or hardware addresses.'),
  labels: word('Also those with these labels that have a BMC: `rack=a,role!=db`.'),
  cut: truth('off, cycle and reset take the power from systems that run; such an order says so here.'),
  boot: z.enum(BOOT_TARGETS).optional().meta({ description: 'Where its next boot alone comes from.' }),
  stagger: word('Between the beginnings of two machines, such as 2s. Default: none.'),
  atOnce: z.int().min(1).max(MOST).optional().meta({ description: 'How many are under way at once.' }),
  patience: word(
    `How long each attempt waits for the first sign of a machine. Default: ${PATIENCE / 60_000}m.`,
  ),
  hardAfter: word('How long a system may take to shut down, before its power is cut. Default: for ever.'),
});
type Ordered = Parsed<z.output<typeof ordered>>;

function checkOrder({ order: want, cut, boot, hardAfter }: Ordered): void {
  const refuse = (text: string): never => {
    throw new MusterError('E_USAGE', text);
  };
  if ((CUTS.has(want) || hardAfter !== undefined) && !cut)
    refuse(`${want} takes the power from what runs: {"cut": true} says that this is meant`);
  if (!CUTS.has(want) && hardAfter === undefined && cut)
    refuse(`${want} takes the power from nothing; leave cut out`);
  if (hardAfter !== undefined && want !== 'shut-down') refuse('only shut-down takes hardAfter');
  if (want === 'boot' && boot === undefined) refuse('boot needs the place: {"boot": "network"}');
  if ((want === 'off' || want === 'shut-down') && boot !== undefined)
    refuse(`after ${want} there is no next boot; give boot with on, cycle or reset`);
}

/** Asks the BMCs of machines, some at the same time. */
async function lookedAt(items: readonly PowerView[], deps: PowerDeps) {
  const looked: ReturnType<typeof viewOf>[] = [];
  for (const some of inParts(items, AT_ONCE)) {
    const asked = some.map(async ({ machine }) => viewOf(machine, deps, await deps.power.look(machine)));
    looked.push(...(await Promise.all(asked)));
  }
  return looked;
}

/** For whom an order counts: the operator, or what the server does by itself. */
export const nameOf = (principal: Principal | undefined): string => principal?.name ?? 'unknown';

export const POWER = [
  operation(
    'GET /v1/power',
    {
      access: 'view',
      within: true,
      costly: true,
      summary: 'Shows machines with a BMC: their power, and the last order about it.',
      query: z.strictObject({
        machines: word('Only these, with commas between them.'),
        live: on('Asks the BMCs now.'),
        ...labelledPart,
      }),
      answer: list,
    },
    async ({ query, ...asked }, deps: PowerDeps) => {
      const isMine = ofClusters(asked, deps);
      const { machines, live } = query;
      const given = machines?.split(',');
      for (const name of given ?? []) checkMine(name, asked, deps);
      const found =
        given?.map((name) => findMachine(name, deps).name) ??
        deps.roster.list().flatMap(({ name }) => (deps.power.reach(name) && isMine(name) ? [name] : []));
      mustReach(found, deps);
      const { items, ...more } = partOf(
        query,
        found.map((name) => viewOf(name, deps)),
        ({ machine }) => machine,
        ({ machine }) => labelsOf(deps)(machine),
      );
      return { kind: 'PowerList' as const, items: live ? await lookedAt(items, deps) : items, ...more };
    },
  ),
  operation(
    'POST /v1/power',
    {
      access: 'operate',
      within: true,
      takes: { second: 'cut' },
      summary: 'Orders that machines are switched on, off, restarted, or boot once from somewhere.',
      query: z.strictObject({ dryRun }),
      body: ordered,
      answer: list,
    },
    async ({ query, body, ...asked }, deps: PowerDeps) => {
      checkOrder(body);
      const found = checked(chosen(body, deps, ofClusters(asked, deps)));
      checkMachines('operate', found, asked.principal, placing(deps));
      if (found.length === 0) throw new MusterError('E_USAGE', 'this names no machine that has a BMC');
      const { order: want, boot, atOnce } = body;
      const wanted = {
        ...{ want, boot, atOnce, by: nameOf(asked.principal) },
        stagger: span(body.stagger, 'stagger'),
        patience: span(body.patience, 'patience'),
        hardAfter: span(body.hardAfter, 'hardAfter'),
      };
      mustReach(found, deps);
      if (!query.dryRun) await deps.power.give(found, wanted);
      return { kind: 'PowerList' as const, items: found.map((name) => viewOf(name, deps)) };
    },
  ),
  operation(
    'POST /v1/machines/:name/identify',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Lights the lamp of a machine by its BMC.',
      body: z.strictObject({
        seconds: z.int().min(0).max(255).default(60).meta({ description: '0 puts it out.' }),
      }),
      answer: z.strictObject({ machine: z.string(), seconds: z.int() }),
    },
    async ({ params, body }, deps: PowerDeps) => {
      const { name } = findMachine(params.name, deps);
      await deps.power.identify(name, body.seconds);
      return { machine: name, seconds: body.seconds };
    },
  ),
  operation(
    'GET /v1/machines/:name/bmc',
    {
      access: 'view',
      costly: true,
      summary:
        'Asks the BMC of a machine what the machine is made of, for its sensors, or for its event log.',
      query: z.strictObject({
        view: z.enum(BMC_VIEWS).default('inventory').meta({ description: 'Which of them.' }),
      }),
      answer: bmcView,
    },
    async ({ params, query }, deps: PowerDeps) => {
      const { name } = findMachine(params.name, deps);
      const { inventory, sensors, log } = await deps.power.show(name, query.view);
      return {
        machine: name,
        ...(inventory && { inventory: { ...inventory, firmware: [...inventory.firmware] } }),
        ...(sensors && { sensors: [...sensors] }),
        ...(log && {
          log: log.map(({ at, ...entry }) => ({ ...(at !== undefined && { at: stamp(at) }), ...entry })),
        }),
      };
    },
  ),
  operation(
    'DELETE /v1/machines/:name/bmc',
    {
      access: 'administer',
      takes: 'role',
      summary:
        'Forgets what was learnt of the BMC of a machine: its next certificate counts as the first, and a refused log-in is tried again.',
      answer: z.strictObject({ machine: z.string() }),
    },
    async ({ params }, deps: PowerDeps) => {
      const { name } = findMachine(params.name, deps);
      await deps.power.forget(name);
      return { machine: name };
    },
  ),
] as const;
