/**
 * What a BMC says of its machine besides the power: what it is made of, its sensors, its event log.
 * Pure. All of it is foreign text: shortened, without control characters, and bounded in number.
 */
import { textOf } from '../base/foreign-json.ts';
import { printable } from '../machines/identity.ts';

/** What can be asked for; each is read when somebody asks, and never regularly. */
export const BMC_VIEWS = ['inventory', 'sensors', 'log'] as const;
export type BmcViewName = (typeof BMC_VIEWS)[number];

export interface BmcInventory {
  readonly manufacturer?: string;
  readonly model?: string;
  readonly serial?: string;
  readonly firmware: readonly { readonly name: string; readonly version: string }[];
}

export const SENSOR_KINDS = ['temperature', 'fan', 'power', 'voltage', 'current', 'other'] as const;
export type SensorKind = (typeof SENSOR_KINDS)[number];
export const SENSOR_STATES = ['ok', 'warning', 'critical'] as const;
export type SensorState = (typeof SENSOR_STATES)[number];

export interface BmcSensor {
  readonly name: string;
  readonly kind: SensorKind;
  /** Absent: there is no reading now. */
  readonly value?: number;
  readonly unit: string;
  readonly state?: SensorState;
}

export interface BmcLogEntry {
  /** Ms since 1970, by the clock of the BMC; absent: it does not say. */
  readonly at?: number;
  readonly severity?: SensorState;
  readonly text: string;
}

/** What a BMC answers, whichever view was asked for. */
export interface BmcShown {
  readonly inventory?: BmcInventory;
  readonly sensors?: readonly BmcSensor[];
  /** The newest entries, the newest last. */
  readonly log?: readonly BmcLogEntry[];
}

/** The most of each that is read: a log may have thousands, and each costs a request. */
export const MOST = { firmware: 32, sensors: 128, log: 64 } as const;

const MAX_WORD = 64;
const MAX_SENTENCE = 300;

/** A name or number that a BMC says; undefined: it says none. */
export const wordIn = (value: unknown): string | undefined => {
  const text = printable(textOf(value), MAX_WORD);
  return text === '' ? undefined : text;
};
export const sentenceIn = (value: unknown): string => printable(textOf(value), MAX_SENTENCE);

/** A reading with at most three digits behind the point; undefined: it is none. */
export const readingIn = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? Math.round(value * 1000) / 1000 : undefined;

/** An inventory of what is known; words that are not are left out. */
export function inventoryOf(
  words: Readonly<Record<'manufacturer' | 'model' | 'serial', unknown>>,
  firmware: readonly { readonly name: unknown; readonly version: unknown }[],
): BmcInventory {
  const [manufacturer, model, serial] = [words.manufacturer, words.model, words.serial].map(wordIn);
  return {
    ...(manufacturer !== undefined && { manufacturer }),
    ...(model !== undefined && { model }),
    ...(serial !== undefined && { serial }),
    firmware: firmware.slice(0, MOST.firmware).flatMap(({ name, version }) => {
      const [known, says] = [wordIn(name), wordIn(version)];
      return known === undefined || says === undefined ? [] : [{ name: known, version: says }];
    }),
  };
}
