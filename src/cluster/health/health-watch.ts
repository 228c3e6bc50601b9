/** Looks every minute at the health of each founded cluster, and keeps the last look. */
import { duration } from '../../base/duration.ts';
import { type RoundsDeps, startRounds } from '../joining/rounds.ts';
import { withRole } from '../model/resolved-cluster.ts';
import type { ClusterHealth } from './finding.ts';
import type { Health } from './health.ts';

const EVERY = duration('1m');
/** An older look says nothing about now. */
const RECENT = duration('3m');

export interface HealthWatch {
  /** The last look at a cluster; undefined when there was none within three minutes. */
  recent(cluster: string): ClusterHealth | undefined;
  /** Starts no further look; resolves when those under way are over. */
  close(): Promise<void>;
}

/** Starts to look. */
export function watchHealth(deps: RoundsDeps & { readonly health: Pick<Health, 'look'> }): HealthWatch {
  const { health, clock } = deps;
  const looks = new Map<string, { readonly seen: ClusterHealth; readonly at: number }>();
  const rounds = startRounds(
    deps,
    { every: EVERY, what: 'the health of a cluster could not be checked', begin: () => undefined },
    async ({ resolved }) => {
      const etcdOnly = withRole(resolved, 'control-plane').length === 0;
      const seen = await health.look(resolved.name, { etcdOnly });
      looks.set(resolved.name, { seen, at: clock.monotonic() });
    },
  );
  return {
    recent(cluster) {
      const look = looks.get(cluster);
      return look && clock.monotonic() - look.at <= RECENT ? look.seen : undefined;
    },
    close: () => rounds.close(),
  };
}
