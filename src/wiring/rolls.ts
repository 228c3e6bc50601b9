/** Wires rolls: the kind of change, and the operators' orders. */
import type { Changes } from '../cluster/change/changes.ts';
import type { FindDown } from '../cluster/change/down.ts';
import type { Hooks } from '../cluster/change/hooks/hooks.ts';
import { anyKind } from '../cluster/change/kind.ts';
import type { ChangeRecord } from '../cluster/change/record.ts';
import type { RollOrder } from '../cluster/change/roll/order.ts';
import { roll } from '../cluster/change/roll/roll.ts';
import { createRolls, type Rolls } from '../cluster/change/roll/rolls.ts';
import type { Rollouts } from '../cluster/change/rollouts.ts';
import type { FoundingOrders } from '../cluster/etcd/commands.ts';
import type { Health } from '../cluster/health/health.ts';
import type { Kube } from '../cluster/kube.ts';
import type { ResolvedClusters } from '../cluster/resolve/resolved-clusters.ts';
import type { Windows } from '../cluster/resolve/windows.ts';
import type { Boot } from './boot.ts';
import type { State } from './state.ts';

interface RollingOf {
  readonly windows: Windows;
  readonly clusters: ResolvedClusters;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly founding: Pick<FoundingOrders, 'status'>;
  /** What machines would boot. */
  readonly boot: Pick<Boot['service'], 'outlook' | 'wantedImage'>;
  readonly rollouts: Rollouts;
  readonly down: FindDown;
  readonly hooks: Hooks;
  /** The roll of a cluster that is under way. */
  readonly record: (cluster: string) => ChangeRecord<RollOrder> | undefined;
}

/** Makes the kind of change, which the changes need before they are opened. */
export function openRolling(
  { windows, clusters, kubes, founding, boot, rollouts, down, hooks, record }: RollingOf,
  { roster, catalog, releases }: Pick<State, 'roster' | 'catalog' | 'releases'>,
) {
  const agent = (machine: string) => roster.get(machine)?.status.agent;
  const rolling = roll({
    ...{ clusters, kubes, record, rollouts, down, hooks },
    bootId: (machine) => agent(machine)?.bootId,
    wants: boot.wantedImage,
    closed: windows.closed,
  });
  const kind = anyKind(rolling, hooks);
  return {
    ...{ rolling, kind },
    /** Makes the orders of rolls. */
    rolls: (changes: Changes, health: Health): Rolls =>
      createRolls({
        ...{ changes, kind, clusters, health, agent, catalog },
        running: releases,
        founding: founding.status,
        stopped: boot.outlook,
        wants: boot.wantedImage,
        closed: windows.closed,
        imageName: (root) =>
          catalog.list('Image').find(({ document }) => document.spec.root?.sha256 === root)?.document.metadata
            .name,
      }),
  };
}
