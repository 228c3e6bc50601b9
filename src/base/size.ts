/** Amounts of data, as documents write them. */

const UNIT: Readonly<Record<string, number>> = {
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/**
 * Parses `64GiB`, `1.92TB`. Returns octets; undefined for a malformed text, and for a number
 * without a unit.
 */
export function parseSize(text: string): number | undefined {
  const [, amount, unit] = /^([0-9]{1,9}(?:\.[0-9]{1,3})?)([MGT]i?B)$/.exec(text) ?? [];
  return unit === undefined ? undefined : Math.round(Number(amount) * UNIT[unit]!);
}

/** Parses `25Gbit`, `100Mbit`. Returns Mbit/s; undefined for a malformed text. */
export function parseSpeed(text: string): number | undefined {
  const [, amount, unit] = /^([0-9]{1,6})([MG])bit$/.exec(text) ?? [];
  return unit === undefined ? undefined : Number(amount) * (unit === 'G' ? 1000 : 1);
}
