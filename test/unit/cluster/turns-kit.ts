/** What turns need besides reports: who answers now, and the turns that outlive a server. */
import type { Clock } from '../../../src/base/clock.ts';
import type { AskNow } from '../../../src/cluster/change/answers.ts';
import type { GivenTurn, GivenTurns } from '../../../src/cluster/change/given-turns.ts';
import type { ResolvedCluster } from '../../../src/cluster/model/resolved-cluster.ts';
import type { RestartDecision, Restarts } from '../../../src/cluster/plan/restarts.ts';

/** All machines answer of which `serves` says so. */
export const asked =
  (clock: Pick<Clock, 'monotonic'>, serves: (machine: string) => boolean = () => true): AskNow =>
  async ({ machines }: ResolvedCluster) => {
    const names = new Set(machines.map(({ name }) => name).filter(serves));
    return { at: clock.monotonic(), etcd: names, 'kube-apiserver': names };
  };

/** The decision as the planner gets it: asked again when the others had to be asked first. */
export async function decided(
  restarts: Restarts,
  ...of: Parameters<Restarts['ask']>
): Promise<RestartDecision> {
  let decision = restarts.ask(...of);
  if ((await restarts.follow(of[0], of[1])) === 'ask') {
    decision = restarts.ask(...of);
    await restarts.follow(of[0], of[1]);
  }
  return decision;
}

/** Turns in memory; `opened` is what a server that starts now reads. */
export class PlayedTurns {
  readonly #now: () => number;
  readonly #kept = new Map<string, GivenTurns['before'][number]>();

  constructor(now: () => number = () => 0) {
    this.#now = now;
  }

  opened(): GivenTurns {
    return {
      before: [...this.#kept.values()],
      put: async (cluster: string, machine: string, turn: GivenTurn) => {
        const key = `${cluster} ${machine}`;
        if (Object.keys(turn).length === 0) this.#kept.delete(key);
        else this.#kept.set(key, { ...turn, at: this.#now(), cluster, machine });
      },
    };
  }
}
