/** What a machine has to show at the end of a step, where several kinds of change ask for it. */
import type { NodeSeen } from './nodes.ts';
import { done, held, type Step, waiting } from './step.ts';

export type Judge<Order, Seen> = NonNullable<Step<Order, Seen>['machine']>;

interface WithNodes {
  /** Machine → the node, for machines that have their turn in a step that drains. */
  readonly nodes: Readonly<Record<string, NodeSeen>>;
}

export const etcdServes: Judge<unknown, unknown> = ({ facts, roles }) =>
  !roles.includes('etcd') || facts?.etcd.health === 'serving'
    ? done('')
    : waiting(
        facts?.etcd.health === 'alive'
          ? 'its member of etcd answers and does not serve: it has no quorum, or an alarm is raised (`muster cluster status` names it)'
          : 'its member of etcd does not run',
      );

export const apiserverIsReady: Judge<unknown, unknown> = ({ facts, roles }) =>
  !roles.includes('control-plane') || facts?.apiserver?.health === 'ready'
    ? done('')
    : waiting('its API server is not ready');

export const settledAgain: Judge<unknown, unknown> = ({ settled }) =>
  settled === false ? waiting('its programs do not run as planned yet') : done('');

export const drained: Judge<unknown, WithNodes> = ({ name }, { cluster }) => {
  const node = cluster.nodes[name];
  if (node?.drained) return done('');
  if (node?.kept !== undefined)
    return held(
      'budget',
      `${name} cannot be drained: ${node.kept}.`,
      'Scale the workload up or change its PodDisruptionBudget; the change then continues by itself.',
    );
  return { ...waiting(node?.text ?? 'it is being drained'), ...(node?.yields && { yields: true }) };
};

export const isBack: Judge<unknown, WithNodes> = ({ name }, { cluster }) =>
  cluster.nodes[name]?.back
    ? done('its node is Ready and takes pods')
    : waiting(cluster.nodes[name]?.text ?? 'its node is not Ready');

/** All judges have to be satisfied; the first that is not says why. */
export const all =
  <Order, Seen>(...judges: readonly Judge<Order, Seen>[]): Judge<Order, Seen> =>
  (machine, input) => {
    const texts: string[] = [];
    for (const judge of judges) {
      const verdict = judge(machine, input);
      if (verdict.is !== 'done') return verdict;
      if (verdict.evidence !== '') texts.push(verdict.evidence);
    }
    return done(texts.join('; '));
  };
