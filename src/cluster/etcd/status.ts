/**
 * What is known of a founding, for people: what each member said last, how long ago, and what it
 * was told. Pure.
 */
import type { Millis } from '../../base/duration.ts';
import type { EtcdDecision, EtcdView, FoundingRecord, Known } from './founding.ts';
import { heardAgo, isSilent } from './liveness.ts';

export interface FoundingStatus {
  readonly cluster: string;
  readonly record?: FoundingRecord;
  readonly members: readonly {
    readonly name: string;
    readonly asked: boolean;
    /** How long ago it said what follows, ms. */
    readonly heardMsAgo?: Millis;
    /**
     * It has not been heard for so long that it has to be taken for off: what follows may not be so
     * any more.
     */
    readonly silent?: true;
    readonly filesystem?: string;
    readonly data?: string;
    readonly health?: string;
    readonly decision?: EtcdDecision;
  }[];
  readonly view?: EtcdView;
  /** Why the replacement under way does not go on. */
  readonly waiting?: string;
}

/** Members of the document and of the record, with the decisions that this server told them. */
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
