/** The order to test a machine, as it is stored and as the discovery system reads it. Pure. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Parsed } from '../../base/body.ts';
import { duration, parseDuration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';

/** How long memory is tested, and each disk is read at most, unless an operator says otherwise. */
export const TEST_LASTS = '10m';
const SHORTEST = duration('5s');
const LONGEST = duration('24h');

/** What is to be tested. */
export const testForm = z.strictObject({
  id: z.string(),
  seconds: z.int().min(1).meta({ description: 'For memory, and for reading each disk.' }),
  /** The machine's serial number, without which nothing is tested. */
  serial: z.string().optional(),
  begun: z.literal(true).optional().meta({ description: 'The machine got the order.' }),
});
export type BurnIn = Parsed<z.output<typeof testForm>>;

/**
 * Reads how long a test lasts, in seconds.
 *
 * @throws {MusterError} E_USAGE for a time that is none, too short or too long
 */
function testSeconds(lasts: string): number {
  const span = parseDuration(lasts);
  if (span === undefined || span < SHORTEST || span > LONGEST)
    throw new MusterError(
      'E_USAGE',
      `a test takes 5s to 24h for each part, not "${lasts}"; write a time such as 30m`,
    );
  return Math.round(span / 1000);
}

/** The test of a machine with this serial number. @throws {MusterError} E_USAGE for a time */
export const testOf = (lasts: string, serial: string | undefined): BurnIn => ({
  id: randomUUID(),
  seconds: testSeconds(lasts),
  ...(serial !== undefined && { serial }),
});

/**
 * The order as images/discovery/burn-in.sh reads it.
 *
 * @param fetch the path of a file on the boot host, which the machine fetches
 */
export const testText = ({ id, seconds, serial }: BurnIn, fetch: string): string =>
  [`test ${id} ${seconds}`, ...(serial === undefined ? [] : [`serial ${serial}`]), `fetch ${fetch}`, ''].join(
    '\n',
  );
