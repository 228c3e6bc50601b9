/**
 * The status of a founding for operators: the last facts of each member, their age, and the last
 * decision for it. Pure.
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
    /** Age of the facts below, ms. */
    readonly heardMsAgo?: Millis;
    /** Set when the member was not heard for so long that the facts below may be out of date. */
    readonly silent?: true;
    readonly filesystem?: string;
    readonly data?: string;
    readonly health?: string;
    readonly decision?: EtcdDecision;
  }[];
  readonly view?: EtcdView;
  /** What the present replacement waits for. */
  readonly waiting?: string;
}

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
