/**
 * The status of a founding for operators: the last facts of each member, their age, and the last
 * decision for it. Pure.
 */
import { z } from 'zod';
import type { Parsed } from '../../base/body.ts';
import type { EtcdDecision, FoundingRecord, Known } from './founding.ts';
import { heardAgo, isSilent } from './liveness.ts';

const decision = z.looseObject({
  do: z.enum(['found', 'join', 'start', 'replace', 'restore', 'hold']),
}) as unknown as z.ZodType<EtcdDecision>;

/** The form of a status around that of its record. */
export const foundingStatus = <R extends z.ZodType>(record: R) =>
  z.strictObject({
    cluster: z.string(),
    record: record.optional(),
    members: z.array(
      z.strictObject({
        name: z.string(),
        asked: z.boolean(),
        heardMsAgo: z.number().optional().meta({ description: 'Age of what follows, in milliseconds.' }),
        /** It was not heard for so long that the facts below may be out of date. */
        silent: z.literal(true).optional(),
        filesystem: z.string().optional(),
        data: z.string().optional(),
        health: z.string().optional(),
        decision: decision
          .optional()
          .meta({ description: 'The last decision for this member; `hold` has code and text.' }),
      }),
    ),
    view: z
      .strictObject({
        clusterId: z.string(),
        members: z.array(
          z.strictObject({
            id: z.string(),
            name: z.string(),
            peerUrls: z.array(z.string()),
            learner: z.boolean(),
            healthy: z.boolean(),
          }),
        ),
      })
      .optional()
      .meta({ description: "etcd's own list of members." }),
    waiting: z.string().optional().meta({ description: 'What the present replacement waits for.' }),
  });
export type FoundingStatus = Parsed<z.output<ReturnType<typeof foundingStatus<z.ZodType<FoundingRecord>>>>>;

/** Lists the members of the document and of the record, with the last decisions of this server. */
export function statusOf(
  { cluster, members, record, view, life }: Known,
  {
    decisions,
    waiting,
  }: { readonly decisions: ReadonlyMap<string, EtcdDecision>; readonly waiting: string | undefined },
): FoundingStatus {
  const names = [...new Set([...members, ...(record?.members ?? [])].map(({ name }) => name))];
  return {
    cluster,
    ...(record && { record }),
    members: names.map((name) => {
      const facts = life.asked.get(name);
      const decision = decisions.get(name);
      return {
        name,
        asked: facts !== undefined,
        ...(facts && {
          heardMsAgo: heardAgo(life, name)!,
          ...(isSilent(life, name) && { silent: true as const }),
          filesystem: facts.filesystem,
          data: facts.etcd.wal,
          health: facts.etcd.health,
        }),
        ...(decision && { decision }),
      };
    }),
    ...(view && { view }),
    ...(waiting === undefined ? {} : { waiting }),
  };
}
