/**
 * An order about the power of one machine, as a table of steps. Pure: `nextOf` says what has to be
 * asked of the BMC, or for what the order waits, and `answered` makes the next order of the answer.
 *
 * Every order ends *proved*, by what was seen, or *named*, by what did not happen. "Accepted" is
 * neither. A machine is reset or switched off only after two equal reads of its state in a row.
 */
import type { BmcFault, BootOnce, BootTarget, PowerOrder, PowerState } from './bmc.ts';

/** What operators order. `off`: at once; `shut-down`: by its system; `boot`: its next boot. */
export const WANTS = ['on', 'off', 'shut-down', 'cycle', 'reset', 'boot'] as const;
export type Want = (typeof WANTS)[number];

/** How an order ends that is not proved: the names, and what each means. */
export const NAMES = {
  'bmc-unreachable': 'The BMC does not answer.',
  'bmc-state-unknown': 'The BMC does not say twice in a row whether the machine is on.',
  'bmc-refused': 'The BMC refuses what it was asked for.',
  'bmc-locked-out': 'The BMC refuses the log-in, and Muster tries it no more before it is locked.',
  'pin-changed': 'The BMC shows another certificate than the one that counts.',
  'sessions-exhausted': 'The BMC has no room for another session.',
  'bmc-accepted-nothing-started': 'The BMC accepted the order, and the machine does not start.',
  'still-on': 'The BMC accepted the order, and the machine stays on.',
  'boot-once-ignored': 'The next boot does not come from where it was told to.',
  'wrong-machine-booted': 'Another machine booted instead of the one that was meant.',
  'post-stuck': 'The machine is on, and nothing is heard of it.',
  'order-replaced': 'Another order took the place of this one.',
  'order-interrupted': 'The server was away for long in the middle of the order, and did not go on with it.',
} as const;
export type EndName = keyof typeof NAMES;

export const STEPS = [
  'queued',
  'look',
  'boot-once',
  'read-back',
  'power',
  'settle',
  'sign',
  'pause',
] as const;
export type Step = (typeof STEPS)[number];

/** What is heard of a machine that boots: its firmware, or only its system. */
export type Sign = 'network' | 'system';

/** From when on a sign of the machine shows that an order worked; undefined: none does yet. */
export const signsFrom = ({ sent, begun }: Order): number | undefined => sent ?? begun;

/** What the boot host has heard since {@link signsFrom}. */
export interface Heard {
  /** The first sign of the machine itself. */
  readonly own?: Sign | undefined;
  /** Other machines that began to boot, and that nobody ordered to. */
  readonly others: readonly string[];
}

export interface End {
  readonly proved: boolean;
  /** `proved`, or what did not happen. */
  readonly code: 'proved' | EndName;
  readonly text: string;
}

/** An order as it is stored. Times are milliseconds since 1970. */
export interface Order {
  readonly id: string;
  readonly machine: string;
  readonly want: Want;
  /** Where the next boot alone comes from. */
  readonly boot?: { readonly target: BootTarget; readonly uefi: boolean } | undefined;
  readonly by: string;
  readonly at: number;
  /** It begins no sooner. */
  readonly from: number;
  /** How long one attempt waits for the first sign of the machine. */
  readonly patience: number;
  /** A system that does not end itself within this is switched off; absent: never. */
  readonly hardAfter?: number | undefined;
  readonly step: Step;
  /** When the step began. */
  readonly since: number;
  /** The last read of the state in this step. */
  readonly read?: PowerState | undefined;
  /** The last state that two reads agreed on. */
  readonly state?: PowerState | undefined;
  /** How often the boot target was sent. */
  readonly sets: number;
  /** Which attempt it is: 0, then a forced restart, then off, a pause, and on. */
  readonly rung: number;
  /** The power command of the step `power`, and when it was sent. */
  readonly command?: PowerOrder | undefined;
  readonly sent?: number | undefined;
  /** When the first of all power commands of this order was sent. */
  readonly begun?: number | undefined;
  /** It is tried once: one attempt without a sign ends it. */
  readonly once?: boolean | undefined;
  /** When the machine was restarted because it hung, before this order: at most an hour ago. */
  readonly recovered?: readonly number[] | undefined;
  /** Orders that were given together, of which so many are under way at once. */
  readonly group?: { readonly id: string; readonly atOnce: number } | undefined;
  /** What the BMC last did not do. */
  readonly fault?: Pick<BmcFault, 'code' | 'message'> | undefined;
  readonly end?: (End & { readonly at: number }) | undefined;
}

/** What is asked of a BMC. */
export type Ask =
  | { readonly is: 'power' }
  | { readonly is: 'boot' }
  | { readonly is: 'boot-once'; readonly target: BootTarget; readonly uefi: boolean }
  | { readonly is: 'order'; readonly order: PowerOrder };
export type Reply =
  | { readonly ok: true; readonly value?: PowerState | BootOnce | undefined }
  | { readonly ok: false; readonly fault: Pick<BmcFault, 'code' | 'message'> };

export type Move =
  | { readonly do: 'ask'; readonly ask: Ask }
  | { readonly do: 'wait'; readonly ms: number }
  /** The order changed without an answer; it has to be stored. */
  | { readonly do: 'become'; readonly order: Order };

const SECOND = 1000;
/** How often a state is read. */
export const EVERY = 2 * SECOND;
/** How long a BMC may take to answer, to say one state twice, and to do what it accepted. */
const LOOK = 60 * SECOND;
const ASK = 60 * SECOND;
const SETTLE = 30 * SECOND;
/** The machine is without power so long, so that its parts forget. */
const PAUSE = 10 * SECOND;
const RUNGS = 2;
/** The boot target is sent once more where it is not read back. */
const SETS = 2;
export const PATIENCE = 5 * 60 * SECOND;

/** Whether an order is to start the machine, which then shows a sign. */
const starts = ({ want }: Order): boolean => want === 'on' || want === 'cycle' || want === 'reset';

type New = Pick<Order, 'id' | 'machine' | 'want' | 'by' | 'at'> &
  Partial<Pick<Order, 'boot' | 'from' | 'patience' | 'hardAfter' | 'once' | 'group' | 'recovered'>>;

export const newOrder = (given: New): Order => ({
  from: given.at,
  patience: PATIENCE,
  ...given,
  step: 'queued',
  since: given.at,
  sets: 0,
  rung: 0,
});

const to = (order: Order, step: Step, now: number, more: Partial<Order> = {}): Order => ({
  ...order,
  step,
  since: now,
  read: undefined,
  fault: undefined,
  ...more,
});
const ended = (order: Order, now: number, end: End): Order => ({ ...order, end: { ...end, at: now } });
const proved = (order: Order, now: number, text: string): Order =>
  ended(order, now, { proved: true, code: 'proved', text });
/** A server that was away longer, or whose store was restored, does not go on with an order. */
const AWAY = 10 * 60 * SECOND;
export const isInterrupted = ({ since, from }: Order, now: number): boolean =>
  Math.abs(now - Math.max(since, from)) > AWAY && now > from;

/** Ends an order with a name; `more` is what is known besides. */
export const named = (order: Order, now: number, code: EndName, more = ''): Order =>
  ended(order, now, { proved: false, code, text: `${NAMES[code]}${more && ` ${more}`}` });

/** The power command that leads from a confirmed state to what is wanted; undefined: none. */
export function commandFor(
  { want, rung }: Pick<Order, 'want' | 'rung'>,
  state: Exclude<PowerState, 'unknown'>,
): PowerOrder | undefined {
  switch (want) {
    case 'boot':
      return undefined;
    case 'off':
      return state === 'off' ? undefined : 'off';
    case 'shut-down':
      return state === 'off' ? undefined : rung > 0 || state === 'paused' ? 'off' : 'shut-down';
    case 'on':
      // A machine that is on by itself stays so: nobody may restart what runs.
      if (state === 'on' && rung === 0) return undefined;
      break;
    default:
      break;
  }
  // BMCs accept a reset of a machine that is off, and do nothing.
  if (state === 'off') return 'on';
  if (rung >= RUNGS) return 'off';
  return want === 'cycle' && rung === 0 && state === 'on' ? 'cycle' : 'reset';
}

/** The rest of an order whose state is confirmed. */
function confirmed(order: Order, state: Exclude<PowerState, 'unknown'>, now: number): Order {
  const known = { ...order, state };
  const command = commandFor(known, state);
  const hasBoot =
    order.boot !== undefined && (command !== undefined || state !== 'off' || order.want === 'boot');
  if (hasBoot && order.boot) return to(known, 'boot-once', now, { command, sets: 0 });
  return command === undefined ? whole(known, now) : to(known, 'power', now, { command, sent: undefined });
}

/** The end of an order that needs no power command. */
function whole(order: Order, now: number): Order {
  const { want, boot, state } = order;
  if (boot) {
    const was = want === 'on' ? 'it was on already; ' : '';
    return proved(order, now, `${was}the BMC says that its next boot comes from ${boot.target}`);
  }
  return proved(order, now, `it was ${state} already`);
}

/** The next attempt, or the end of the last one. */
function climb(order: Order, now: number): Order {
  const { rung, state, want, once } = order;
  if (rung < RUNGS && !once)
    return to(order, 'look', now, { rung: rung + 1, command: undefined, sent: undefined });
  if (!starts(order) || order.command === 'off')
    return named(order, now, 'still-on', `It was asked for ${want} ${once ? 'once' : 'three times'}.`);
  const tried = once ? '' : 'A forced restart, and off and on again, did not help.';
  return named(order, now, state === 'on' ? 'post-stuck' : 'bmc-accepted-nothing-started', tried);
}

/** What it means that the machine was heard. */
function heard(order: Order, sign: Sign, now: number): Order {
  const target = order.boot?.target;
  if ((target === 'network' || target === 'http') && sign === 'system')
    return named(
      order,
      now,
      'boot-once-ignored',
      'Its system started, and its firmware never asked for a boot.',
    );
  if (target === 'disk' && sign === 'network')
    return named(order, now, 'boot-once-ignored', 'Its firmware asked the network for a boot.');
  return proved(
    order,
    now,
    sign === 'network'
      ? 'its firmware asked for a boot after the order'
      : 'its system started after the order',
  );
}

/** The name of what a BMC did not do until the step was late. */
function late({ fault }: Order): EndName {
  if (fault?.code === 'sessions-exhausted') return 'sessions-exhausted';
  return fault?.code === 'unreachable' ? 'bmc-unreachable' : 'bmc-state-unknown';
}

const says = ({ fault }: Order): string => (fault ? `The last answer: ${fault.message}.` : '');

/** Steps before a command. */
const BEFORE: readonly Step[] = ['look', 'boot-once', 'read-back', 'power'];

/** What is to be done for an order that has not ended. */
export function nextOf(order: Order, seen: Heard, now: number): Move {
  const { step, since } = order;
  const age = now - since;
  const become = (next: Order): Move => ({ do: 'become', order: next });
  const ask = (one: Ask): Move => ({ do: 'ask', ask: one });
  // A machine that is late is not restarted in its boot.
  if (seen.own && order.rung > 0 && BEFORE.includes(step) && order.state !== 'off')
    return become(heard(order, seen.own, now));
  switch (step) {
    case 'queued':
      return now < order.from ? { do: 'wait', ms: order.from - now } : become(to(order, 'look', now));
    case 'look':
      return age > LOOK ? become(named(order, now, late(order), says(order))) : ask({ is: 'power' });
    case 'boot-once':
      if (age > ASK) return become(named(order, now, late(order), says(order)));
      return ask({ is: 'boot-once', ...order.boot! });
    case 'read-back':
      return age > ASK ? become(named(order, now, late(order), says(order))) : ask({ is: 'boot' });
    case 'power':
      if (age > ASK) return become(named(order, now, late(order), says(order)));
      // The command may have been sent before the server ended: what became of it is looked at.
      if (order.sent !== undefined) return become(to(order, 'settle', now));
      return ask({ is: 'order', order: order.command! });
    case 'settle':
      return settling(order, seen, now);
    case 'sign':
      if (seen.own) return become(heard(order, seen.own, now));
      if (age <= order.patience) return { do: 'wait', ms: Math.min(EVERY, order.patience - age + 1) };
      return become(unheard(order, seen, now));
    case 'pause':
      return age < PAUSE
        ? { do: 'wait', ms: PAUSE - age }
        : become(to(order, 'power', now, { command: 'on', sent: undefined }));
  }
}

function settling(order: Order, seen: Heard, now: number): Move {
  const { command, since, hardAfter } = order;
  const goesOff = command === 'off' || command === 'shut-down';
  if (!goesOff && seen.own) return { do: 'become', order: heard(order, seen.own, now) };
  const limit = command === 'shut-down' ? (hardAfter ?? order.patience) : Math.min(SETTLE, order.patience);
  if (now - since <= limit) return { do: 'ask', ask: { is: 'power' } };
  const { fault } = order;
  if (fault) return { do: 'become', order: named(order, now, late(order), says(order)) };
  if (command === 'shut-down' && hardAfter === undefined)
    return { do: 'become', order: named(order, now, 'still-on', 'Its system did not end itself.') };
  return { do: 'become', order: climb(order, now) };
}

/** Nothing was heard of the machine in time. */
function unheard(order: Order, { others }: Heard, now: number): Order {
  // The next attempt would restart the other machine once more.
  if (others.length > 0)
    return named(
      order,
      now,
      'wrong-machine-booted',
      `Nothing was heard of ${order.machine}, but of ${others.slice(0, 3).join(', ')}.`,
    );
  return climb(order, now);
}

/** Faults after which the BMC is not asked again for this order. */
const FINAL: Partial<Record<BmcFault['code'], EndName>> = {
  password: 'bmc-locked-out',
  'pin-changed': 'pin-changed',
  refused: 'bmc-refused',
};

/** The order after an answer. */
export function answered(order: Order, ask: Ask, reply: Reply, now: number): Order {
  if (!reply.ok) return notDone(order, ask, reply.fault, now);
  switch (ask.is) {
    case 'power':
      return readState(order, reply.value as PowerState, now);
    case 'boot-once':
      return to(order, 'read-back', now, { sets: order.sets + 1 });
    case 'boot':
      return readBack(order, reply.value as BootOnce, now);
    case 'order':
      return to(order, 'settle', now);
  }
}

function notDone(order: Order, ask: Ask, fault: Pick<BmcFault, 'code' | 'message'>, now: number): Order {
  const final = FINAL[fault.code];
  if (final) return named({ ...order, fault }, now, final, `It says: ${fault.message}.`);
  // A command whose answer is lost may have been carried out; one that was not taken was not.
  if (ask.is === 'order' && (fault.code === 'unreachable' || fault.code === 'not-understood'))
    return to(order, 'settle', now);
  if (ask.is === 'order') return { ...order, fault, sent: undefined };
  return { ...order, fault, read: undefined };
}

function readState(order: Order, read: PowerState, now: number): Order {
  const known = { ...order, fault: undefined, read };
  if (read === 'unknown' || read !== order.read) return known;
  if (order.step === 'look') return confirmed(known, read, now);
  const { command, want } = order;
  if (command === 'off' || command === 'shut-down') {
    if (read !== 'off') return { ...known, state: read };
    if (want === 'off' || want === 'shut-down') return proved({ ...known, state: read }, now, 'it is off');
    return to(known, 'pause', now, { state: read });
  }
  if (read !== 'on') return { ...known, state: read };
  // The setup of a firmware is on the screen of the machine, and asks nobody.
  if (order.boot?.target === 'setup')
    return proved({ ...known, state: read }, now, 'it is on; the setup of its firmware sends nothing');
  return to(known, 'sign', now, { state: read });
}

function readBack(order: Order, said: BootOnce, now: number): Order {
  const { target, uefi } = order.boot!;
  // Some systems allow no PXE, and get HTTP instead.
  const isThere = said.target === target || (target === 'network' && said.target === 'http');
  const isSo = isThere && (target === 'none' || said.uefi === undefined || said.uefi === uefi);
  if (isSo)
    return order.command === undefined ? whole(order, now) : to(order, 'power', now, { sent: undefined });
  if (order.sets < SETS) return to(order, 'boot-once', now);
  const mode = said.uefi === undefined ? '' : said.uefi ? ', by UEFI' : ', by BIOS';
  return named(order, now, 'boot-once-ignored', `The BMC took ${target}, and says ${said.target}${mode}.`);
}

/** A command is stored as sent before it is, so that no restart of the server sends it twice. */
export const sending = (order: Order, now: number): Order => ({
  ...order,
  sent: now,
  begun: order.begun ?? now,
});
