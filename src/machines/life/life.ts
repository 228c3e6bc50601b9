/**
 * The states of a machine's life, and the orders that each allows. An order that does not fit is
 * refused with the state and what it allows. Pure; docs/life.md shows the table.
 */

/** The orders of operators about the life of a machine. */
export const LIFE_ORDERS = [
  'take-out',
  'bring-back',
  'rescue',
  'replace',
  'wipe',
  'test',
  'call-off',
  'retire',
] as const;
export type LifeOrder = (typeof LIFE_ORDERS)[number];

interface LifeRow {
  /** What is so of a machine in this state. */
  readonly about: string;
  /** The orders that it allows, and the state after each. */
  readonly allows: Readonly<Partial<Record<LifeOrder, LifeState>>>;
  /** What an operator orders next; NAME is the machine. */
  readonly next: string;
}

/** `in-use` is the state of each machine that has no other. */
export const LIFE = {
  'in-use': {
    about: 'It boots and works as its documents say.',
    allows: { 'take-out': 'taken-out', rescue: 'rescue', replace: 'in-use' },
    next: 'muster machine take-out NAME --reason WHY',
  },
  'taken-out': {
    about: 'It leaves its cluster and is switched off; its boots are held.',
    allows: {
      'take-out': 'taken-out',
      'bring-back': 'in-use',
      rescue: 'rescue',
      replace: 'taken-out',
      wipe: 'wiping',
      test: 'testing',
      retire: 'retired',
    },
    next: 'muster machine bring-back NAME',
  },
  rescue: {
    about: 'It boots the rescue system once, which writes to no disk, and then is what it was before.',
    // A machine that was taken out before is that again.
    allows: { rescue: 'rescue', 'call-off': 'in-use' },
    next: 'muster machine call-off NAME, or wait for its next boot',
  },
  wiping: {
    about: 'Its disks are wiped at its next boot from the network; it gets nothing else.',
    allows: { wipe: 'wiping', 'call-off': 'taken-out', retire: 'retired' },
    next: 'muster machine life NAME',
  },
  testing: {
    about: 'Its parts are tested at its next boot from the network; then it is taken out as before.',
    allows: { test: 'testing', 'call-off': 'taken-out' },
    next: 'muster machine life NAME',
  },
  wiped: {
    about: 'Its disks were wiped, which was proved by reading; its boots are held.',
    allows: { 'bring-back': 'in-use', wipe: 'wiping', retire: 'retired' },
    next: 'muster machine bring-back NAME, or muster machine retire NAME',
  },
  'wipe-failed': {
    about: 'A wipe was not proved: its boots are held, and it may hold data.',
    allows: { wipe: 'wiping', retire: 'retired' },
    next: 'muster machine wipes NAME',
  },
  retired: {
    about: 'It is gone for good: its boots are held, and its certificate and disk keys have ended.',
    allows: {},
    next: 'muster delete machine NAME, and accept it again if it is to be used',
  },
} as const satisfies Readonly<Record<string, LifeRow>>;
/** The states that are stored: a machine without one is in use. */
export const OUT_STATES = [
  'taken-out',
  'rescue',
  'wiping',
  'testing',
  'wiped',
  'wipe-failed',
  'retired',
] as const;
export const LIFE_STATES = ['in-use', ...OUT_STATES] as const;
export type LifeState = (typeof LIFE_STATES)[number];
export type OutState = (typeof OUT_STATES)[number];

/** The orders that a state allows. */
export const allowedIn = (state: LifeState): readonly LifeOrder[] =>
  LIFE_ORDERS.filter((order) => (LIFE[state] as LifeRow).allows[order] !== undefined);

/** What an operator orders next about a machine in this state. */
export const nextIn = (state: LifeState, machine: string): string =>
  LIFE[state].next.replaceAll('NAME', machine);
