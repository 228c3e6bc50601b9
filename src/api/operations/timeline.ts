/** The timeline of a boot with its diagnosis, and what the machine printed on its console. */
import { z } from 'zod';
import type { Agents } from '../../agent/serve/agents.ts';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import type { BmcConsoles } from '../../bmc/consoles.ts';
import type { LivePiece } from '../../bmc/live-text.ts';
import { type Timeline, timelineOf } from '../../diagnosis/timeline.ts';
import type { ConsoleBoot, Consoles } from '../../machines/console.files.ts';
import { checkWaits } from '../access.ts';
import { count, on, type Parsed, time, word } from '../contract/contract.ts';
import { boot, stage, verdict } from '../contract/timeline.ts';
import { findMachine, placing } from '../find-machine.ts';
import { follow, stream, streams } from '../follow.ts';
import { operation } from '../operation.ts';
import { withTimestamps } from '../times.ts';
import { type HistoryDeps, machineEvents, verdictView } from '../verdicts.ts';

interface ConsoleDeps extends Pick<HistoryDeps, 'roster'> {
  /** What machines printed on their consoles. */
  readonly consoles: Pick<Consoles, 'boots' | 'lines'>;
  readonly agents: Pick<Agents, 'waits' | 'agentCluster'>;
  readonly clock: Clock;
  readonly power: {
    /** What BMCs carry of the consoles of machines. */
    readonly consoles: Pick<Consoles, 'boots' | 'lines'> & Pick<BmcConsoles, 'held' | 'type' | 'live'>;
  };
}

const entry = z.strictObject({
  sequence: z.int(),
  at: time,
  kind: z.string(),
  stage,
  sinceStart: z.number().meta({ description: 'Milliseconds since the boot began.' }),
  gap: z.number().meta({ description: 'Milliseconds in which nothing was heard before.' }),
  waitedFor: z.string().optional(),
  duration: z.number().optional().meta({ description: 'Milliseconds that a transfer took.' }),
  bytesPerSecond: z.number().optional(),
  text: z.string(),
  code: z.string().optional(),
  claim: z.literal(true).optional().meta({ description: 'The machine said so; nobody else saw it.' }),
  fields: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
});

const piece = z.strictObject({ text: z.string() }).meta({
  id: 'ConsolePiece',
  description: 'With escape sequences; what looks like a secret is hidden.',
});
const pieceView = ({ text }: LivePiece): { text: string } => ({ text });

const timeline = z
  .strictObject({
    kind: z.literal('Timeline'),
    machine: z.string(),
    boots: z.array(boot),
    boot: boot.optional(),
    stages: z.array(z.strictObject({ stage, text: z.string(), from: time, to: time, silent: z.number() })),
    entries: z.array(entry),
    verdicts: z.array(verdict),
  })
  .meta({ id: 'Timeline' });
export type TimelineView = Parsed<z.output<typeof timeline>>;

/** Converts a timeline to what the API shows. */
export function timelineView({ boot, boots, stages, entries, verdicts, ...rest }: Timeline) {
  return {
    kind: 'Timeline' as const,
    ...rest,
    ...(boot && { boot: withTimestamps(boot, 'at', 'until') }),
    boots: boots.map((one) => withTimestamps(one, 'at', 'until')),
    stages: stages.map((one) => withTimestamps(one, 'from', 'to')),
    entries: entries.map((one) => withTimestamps(one, 'at')),
    verdicts: verdicts.map(verdictView),
  };
}

/** Finds a boot by its id or by how many boots back it is (`0`, `-1`, …). */
const bootNamed = (boots: readonly ConsoleBoot[], named: string): ConsoleBoot | undefined =>
  /^(0|-\d+)$/.test(named) ? boots[-Number(named)] : boots.find(({ id }) => id === named);

export const TIMELINE = [
  operation(
    'GET /v1/machines/:name/timeline',
    {
      access: 'view',
      costly: true,
      summary:
        'Shows what happened in a boot of a machine, with durations, what was waited for, and verdicts.',
      query: z.strictObject({ boot: word('An id; 0 the last one, -1 the one before.') }),
      answer: timeline,
    },
    ({ params: { name: named }, query }, deps: HistoryDeps) => {
      const mac = parseMac(named);
      const member = deps.roster.get(named) ?? (mac && deps.roster.byMac(mac));
      const machine = member?.name ?? mac ?? named;
      const events = machineEvents(machine, deps);
      if (member === undefined && events.length === 0)
        throw new MusterError(
          'E_NOT_FOUND',
          `there is no machine "${named}", and no event names one; \`muster get machines\` lists all`,
        );
      const found = timelineOf({ machine, events, boot: query.boot, now: deps.clock.now() });
      if (found === undefined)
        throw new MusterError(
          'E_NOT_FOUND',
          `no boot "${query.boot}" of ${machine} is known; without ?boot= the answer lists those that are`,
        );
      return timelineView(found);
    },
  ),
  operation(
    'GET /v1/machines/:name/console',
    {
      access: 'view',
      costly: true,
      summary: 'Shows what a machine printed in a boot: its kernel and system. It is the machine’s claim.',
      query: z.strictObject({
        boot: word('The id of a boot of the kernel; 0 the last one, -1 the one before.'),
        after: count('Only lines after the one with this number.', Number.MAX_SAFE_INTEGER),
        bmc: on(
          'Shows what its BMC carries instead, from the first line of the firmware: `bmc.console` of its document.',
        ),
      }),
      answer: z
        .strictObject({
          kind: z.literal('Console'),
          machine: z.string(),
          bmc: z
            .strictObject({ since: time.optional(), fault: z.string().optional() })
            .optional()
            .meta({ description: 'Since when the console of its BMC is open, or why it is not.' }),
          claim: z.literal(true).meta({ description: 'The machine said so; nobody else saw it.' }),
          boots: z.array(z.strictObject({ id: z.string(), at: time })),
          boot: z.string().optional(),
          lines: z
            .array(z.strictObject({ number: z.int(), text: z.string() }))
            .meta({ description: 'Numbers are missing where lines were removed.' }),
          waits: z
            .literal(true)
            .optional()
            .meta({ description: 'Its key waits for an approval: no code in its lines proves anything.' }),
        })
        .meta({ id: 'Console' }),
    },
    async ({ params, query, principal }, deps: ConsoleDeps) => {
      const { name } = findMachine(params.name, deps);
      checkWaits(principal, name, deps.agents, placing(deps));
      const { consoles } = deps.power;
      const held = query.bmc ? consoles.held(name) : undefined;
      if (query.bmc && held === undefined)
        throw new MusterError('E_BMC', `no document says that the boot host holds the console of ${name}`);
      const kept = query.bmc ? consoles : deps.consoles;
      const boots = await kept.boots(name);
      const found = bootNamed(boots, query.boot ?? '0');
      if (found === undefined && query.boot !== undefined)
        throw new MusterError(
          'E_NOT_FOUND',
          `nothing is kept of boot "${query.boot}" of ${name}; without ?boot= the answer lists the boots that are kept`,
        );
      const lines = found === undefined ? [] : await kept.lines(name, found.id, query.after ?? 0);
      return {
        kind: 'Console' as const,
        machine: name,
        claim: true as const,
        ...(held && { bmc: withTimestamps(held, 'since') }),
        boots: boots.map((one) => withTimestamps(one, 'at')),
        ...(found && { boot: found.id }),
        lines: [...lines],
        ...(deps.agents.waits(name) !== undefined && { waits: true as const }),
      };
    },
  ),
  operation(
    'GET /v1/machines/:name/console/live',
    {
      access: 'operate',
      costly: true,
      summary:
        'Streams what the serial console of a machine shows, through its BMC, as a terminal needs it: what it showed last, then what comes.',
      query: z.strictObject({}),
      answer: z.strictObject({ kind: z.literal('LiveConsole'), pieces: z.array(piece) }),
      streams: true,
    },
    ({ params, headers, signal }, deps: ConsoleDeps) => {
      const { name } = findMachine(params.name, deps);
      const live = deps.power.consoles.live(name);
      if (!streams({}, headers)) return { kind: 'LiveConsole' as const, pieces: live.kept().map(pieceView) };
      const followed = {
        kept: () => live.kept(),
        subscribe: (listener: (one: LivePiece) => void) => live.subscribe(listener),
        ...{ wanted: () => true, view: pieceView, after: 0 },
      };
      return stream(follow(followed, deps.clock, signal));
    },
  ),
  operation(
    'POST /v1/machines/:name/console',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Types into the serial console of a machine, through its BMC.',
      body: z.strictObject({
        text: z.string().min(1).max(4096).meta({ description: 'As a terminal sends it: Enter is `\\r`.' }),
      }),
      answer: z.strictObject({ machine: z.string() }),
    },
    ({ params, body }, deps: ConsoleDeps) => {
      const { name } = findMachine(params.name, deps);
      deps.power.consoles.type(name, body.text);
      return { machine: name };
    },
  ),
] as const;
