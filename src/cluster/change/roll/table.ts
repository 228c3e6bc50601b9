/**
 * The steps of a roll, in which machines boot again, for example with a newer image. Pure.
 *
 * canary → control-planes → workers → settle
 *
 * One worker boots first, since an image that does not work is cheapest there. A roll cannot undo
 * what has booted; taking it back makes drained nodes schedulable again and reboots nothing more.
 */
import { duration } from '../../../base/duration.ts';
import { limitsText, type WorkerLimits } from '../groups.ts';
import {
  all,
  apiserverIsReady,
  drained,
  etcdServes,
  isBack,
  type Judge as JudgeOf,
  settledAgain,
} from '../judges.ts';
import { type ChangeTable, CLUSTER, done, held, type Step, waiting } from '../step.ts';
import { REBOOTS_WITHIN } from '../turn.ts';
import type { RollOrder, RollSeen } from './order.ts';

type RollStep = Step<RollOrder, RollSeen>;
type Judge = JudgeOf<RollOrder, RollSeen>;

export const RELEASE = 'release';
export const SETTLE = 'settle';

const rebooted: Judge = (machine, input) => {
  const { name, facts } = machine;
  if (facts?.bootId !== input.order.machines[name]?.bootId) return done('it has booted again');
  const verdict = drained(machine, input);
  if (verdict.is !== 'done') return verdict;
  const { text = 'it reboots', restarts, hangs } = input.cluster.nodes[name] ?? {};
  if (hangs === undefined) return { ...waiting(text), ...(restarts && { restarts }) };
  return held(
    'machine-hangs',
    `${name} does not come back from its reboot: ${hangs}.`,
    `\`muster explain ${name}\` and \`muster machine console ${name} --bmc\` show how far it came. The roll continues when it reports; \`muster change ${CLUSTER} leave-out ${name}\` leaves it out.`,
  );
};

const runsImage: Judge = ({ name, facts }, { order, cluster }) => {
  const image = order.machines[name]?.image;
  if (image === undefined) return done('');
  const wanted = [order.images[image], cluster.wants[name]];
  if (facts?.image !== undefined && wanted.includes(facts.image)) return done(`it runs the image ${image}`);
  if (facts?.bootDisk?.state === 'started')
    return held(
      'boot-disk',
      `${name} started from its boot disk, and not with the image ${image}: the boot host did not answer, or the image was tried and did not work.`,
      `\`muster explain ${name}\` says which. Correct the image, or reboot it when the boot host answers; \`muster machine accept ${name}\` has an image that was tried once tried again. The roll then continues by itself.`,
    );
  return held(
    'other-image',
    `${name} has booted, but not the image ${image}.`,
    `\`muster explain ${name}\` says what it booted and why. The roll continues when it has booted the image that its profile names; \`muster change ${CLUSTER} leave-out ${name}\` leaves it out.`,
  );
};

const hasNode = (roles: readonly string[]): boolean => roles.some((role) => role !== 'etcd');

const nodeIsBack: Judge = (machine, input) => (hasNode(machine.roles) ? isBack(machine, input) : done(''));

const reboot = ({ name, sentence, scope }: Pick<RollStep, 'name' | 'sentence' | 'scope'>): RollStep => ({
  ...{ name, sentence, scope },
  patience: REBOOTS_WITHIN,
  takes: { eachTurn: duration('5m') },
  restarts: () => ['the system'],
  machine: all(rebooted, runsImage, etcdServes, apiserverIsReady, settledAgain, nodeIsBack),
});

const canaryStep = (canary: string, { groups }: WorkerLimits): RollStep =>
  reboot({
    name: 'canary',
    sentence: `The worker ${canary} is drained and reboots, before all other machines.`,
    scope: { on: 'machines', roles: ['worker'], atOnce: 1, only: [canary], groups },
  });

const serversStep = (servers: readonly string[]): RollStep =>
  reboot({
    name: 'control-planes',
    sentence: 'Control planes and members of etcd are drained and reboot, one after the other.',
    scope: { on: 'machines', roles: ['control-plane', 'etcd'], atOnce: 1, only: servers },
  });

const workersStep = (workers: readonly string[], limits: WorkerLimits): RollStep =>
  reboot({
    name: 'workers',
    sentence: `Workers are drained and reboot, ${limitsText(limits)}.`,
    scope: {
      ...{ on: 'machines', roles: ['worker'], only: workers },
      ...{ atOnce: limits.maxUnavailable, groups: limits.groups },
    },
  });

const settle = (name: string, sentence: string): RollStep => ({
  ...{ name, sentence },
  scope: { on: 'boot-host' },
  acts: true,
  takes: {},
});

export const ROLL: ChangeTable<RollOrder, RollSeen> = {
  forward: (order) => {
    const { canary, servers, workers } = order;
    const others = workers.filter((name) => name !== canary);
    return [
      ...(canary === undefined ? [] : [canaryStep(canary, order)]),
      ...(servers.length === 0 ? [] : [serversStep(servers)]),
      ...(others.length === 0 ? [] : [workersStep(others, order)]),
      settle(SETTLE, 'The boot host makes the nodes of machines that were left out schedulable again.'),
    ];
  },
  back: () => [
    settle(RELEASE, 'No further machine reboots, and the boot host makes drained nodes schedulable again.'),
  ],
};
