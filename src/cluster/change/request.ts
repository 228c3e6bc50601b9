/** What requests for changes have in common, as schemas of the bodies that order them. */
import { z } from 'zod';
import { names, truth } from '../../base/body.ts';
import { MusterError } from '../../base/errors.ts';

const common = {
  pauseBefore: names('Steps before which it pauses.'),
  without: names('Machines that are not waited for.'),
};

/** The body that orders a change of one kind: what all have, and the fields of this kind. */
export const requestFor = <const Kind extends string, Fields extends z.ZodRawShape>(
  kind: Kind,
  fields: Fields,
) => z.strictObject({ kind: z.literal(kind), ...common, ...fields });

/** A request of any kind; its schema checks the other fields. */
export type ChangeRequest = Readonly<Record<string, unknown>> & {
  readonly kind: string;
  readonly pauseBefore?: readonly string[] | undefined;
  readonly without?: readonly string[] | undefined;
};

export const maxUnavailable = z.int().min(1).max(100).optional().meta({
  description: 'How many workers may be changed at the same time; absent: as many as the groups allow.',
});
export const now = truth('Also outside of the maintenance windows.');
export const keysets = z.array(z.string()).min(1).meta({ description: 'Keysets, or `all` alone.' });
export const emergency = z.string().optional().meta({
  description: 'The cluster’s name, repeated: the old keys end at once.',
});

/**
 * Whether old keys end at once. What cannot be taken back is confirmed by the cluster's name.
 *
 * @throws {MusterError} E_USAGE for another name
 */
export function isEmergency(cluster: string, confirmed: string | undefined): boolean {
  if (confirmed === undefined || confirmed === cluster) return confirmed !== undefined;
  throw new MusterError(
    'E_USAGE',
    `to end keys of ${cluster} at once, repeat its name: {"emergency": "${cluster}"}`,
  );
}
