/**
 * Tests of the parts of a machine as values: the report of the discovery system, and what counts
 * as passed. The boot host judges what the machine measured. Pure.
 */
import { z } from 'zod';
import { parsed } from '../../base/foreign-json.ts';
import { printable } from '../identity.ts';
import { LEFT_ALONE } from './wipe-order.ts';

export const MAX_TEST_OCTETS = 32 * 1024;
const number = z.int().min(0);
const measured = {
  memory: z
    .strictObject({
      code: z.string().meta({ description: '`tested`, or what failed.' }),
      octets: number,
      ms: number,
      errors: number.meta({ description: 'Of the test, and of the kernel during it.' }),
    })
    .optional(),
  disks: z.array(
    z.strictObject({
      name: z.string(),
      code: z.string().meta({ description: '`read`, what failed, or why it was left alone.' }),
      octets: number,
      read: number.meta({ description: 'Octets from its beginning that were read.' }),
      ms: number,
      health: z
        .enum(['passed', 'failed', 'unread'])
        .meta({ description: 'What the drive says of itself (SMART).' }),
      selfTest: z
        .enum(['passed', 'failed', 'late', 'none'])
        .meta({ description: 'How its short self-test ended; none: it has none, or was interrupted.' }),
      ...{ serial: z.string(), wwn: z.string(), model: z.string() },
    }),
  ),
  network: z
    .strictObject({
      card: z.string(),
      code: z.string().meta({ description: '`fetched`, or what failed.' }),
      octets: number,
      ms: number,
      sent: number.meta({ description: 'Packets to the boot host that ask for an answer.' }),
      lost: number.meta({ description: 'Those without one.' }),
      errors: number.meta({ description: 'Which the card counted meanwhile.' }),
    })
    .optional(),
};
const measures = z.strictObject({ ...measured, refused: z.string().optional() });
type Measures = z.output<typeof measures>;

const MAX_DISKS = 128;

/** The names of the fields of a line of the report, by its first word. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  refused: ['code'],
  memory: ['code', 'octets', 'ms', 'errors'],
  disk: ['name', 'code', 'octets', 'read', 'ms', 'health', 'selfTest', 'serial', 'wwn', 'model'],
  network: ['card', 'code', 'octets', 'ms', 'sent', 'lost', 'errors'],
};
const NUMBERS = new Set(['octets', 'ms', 'errors', 'read', 'sent', 'lost']);

/** A report; undefined when it is not whole. */
export function readMeasures(text: string): Measures | undefined {
  const lines = text.split('\n').filter((line) => line !== '');
  if (lines.at(-1) !== 'end' || lines.length > MAX_DISKS + 4) return undefined;
  const found: Record<string, unknown> = {};
  const disks: unknown[] = [];
  for (const line of lines.slice(0, -1)) {
    const [kind = '', ...words] = line.split('\t');
    const fields = Object.hasOwn(FIELDS, kind) ? FIELDS[kind] : undefined;
    if (fields === undefined || words.length !== fields.length) return undefined;
    const row: { code?: unknown } = Object.fromEntries(
      fields.map((field, at) => [field, readWord(field, words[at]!)]),
    );
    if (kind === 'disk') disks.push(row);
    else found[kind] = kind === 'refused' ? row.code : row;
  }
  return measures.safeParse({ ...found, disks }).data;
}

const readWord = (field: string, word: string): unknown =>
  NUMBERS.has(field) ? (/^[0-9]{1,16}$/.test(word) ? Number(word) : undefined) : printable(word, 128);

/** Why a machine did not pass, one text for each fault; none: it passed. */
export function testFaults({ refused, memory, disks, network }: Measures): readonly string[] {
  if (refused !== undefined) return [`the machine refused: ${refused}`];
  return [
    ...(memory?.code === 'tested' && memory.octets > 0 ? [] : ['its memory was not tested to the end']),
    ...(memory && memory.errors > 0 ? [`memory: ${memory.errors} errors`] : []),
    ...disks.filter(({ code }) => !LEFT_ALONE.has(code)).flatMap(diskFaults),
    ...networkFaults(network),
  ];
}

const diskFaults = ({ name, code, read, health, selfTest }: Measures['disks'][number]): readonly string[] => [
  ...(code === 'read' && read > 0 ? [] : [`${name}: ${code} after ${read} octets`]),
  ...(health === 'failed' ? [`${name}: it says of itself that it fails`] : []),
  ...(selfTest === 'failed' || selfTest === 'late' ? [`${name}: self-test ${selfTest}`] : []),
];

function networkFaults(network: Measures['network']): readonly string[] {
  if (network === undefined) return ['its network was not tested'];
  const { card, code, octets, sent, lost, errors } = network;
  return [
    ...(code === 'fetched' && octets > 0 ? [] : [`${card}: ${code}`]),
    // Where not one packet is answered, the boot host answers none, because files came.
    ...(lost * 100 > sent && lost < sent ? [`${card}: ${lost} of ${sent} packets were lost`] : []),
    ...(errors > 0 ? [`${card}: it counted ${errors} errors`] : []),
  ];
}

/** The report of a test, as it is stored. */
const report = z.strictObject({
  v: z.literal(1),
  id: z.string(),
  machine: z.string(),
  serial: z.string().optional(),
  product: z.string().optional(),
  reason: z.string(),
  by: z.string(),
  orderedAt: z.number(),
  at: z.number(),
  seconds: z.int(),
  faults: z.array(z.string()),
  ...measured,
});
export type TestReport = z.output<typeof report>;
/** What was measured, as reports have it; the API shows it. */
export const testMeasured = measured;

/** Reads a stored report; undefined for a form that is not known here. */
export const readTestReport = (text: string): TestReport | undefined => report.safeParse(parsed(text)).data;
