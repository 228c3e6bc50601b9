/** Orders about the life of a machine: out of use, back, retired. */
import { z } from 'zod';
import { truth } from '../../base/body.ts';
import { allowedIn, LIFE, LIFE_ORDERS, LIFE_STATES, nextIn } from '../../machines/life/life.ts';
import { type Lives, lifeOf } from '../../machines/life/orders.ts';
import type { Member, Roster } from '../../machines/roster.ts';
import { confirmed } from '../confirmed.ts';
import { time } from '../contract/contract.ts';
import { findMachine } from '../find-machine.ts';
import { operation } from '../operation.ts';
import { timestamp } from '../times.ts';
import { nameOf } from './power.ts';

interface LifeDeps {
  readonly roster: Pick<Roster, 'get' | 'byMac'>;
  readonly lives: Lives;
}

const confirm = z.string().optional().meta({ description: 'The name of the machine, repeated.' });
const reason = z.string().default('').meta({ description: 'Why; shown wherever the machine is.' });

const lifeView = z
  .strictObject({
    machine: z.string(),
    state: z.enum(LIFE_STATES),
    about: z.string(),
    reason: z.string().optional().meta({ description: 'As the operator said.' }),
    by: z.string().optional(),
    at: time.optional(),
    waits: z.string().optional().meta({ description: 'Why it still runs, although it is taken out.' }),
    byHand: z.literal(true).optional().meta({ description: 'It has no BMC: a person switches it off.' }),
    allows: z.array(z.enum(LIFE_ORDERS)),
    next: z.string().meta({ description: 'The command that usually comes next.' }),
  })
  .meta({ id: 'MachineLife', description: 'The state of a machine, and what may be ordered in it.' });

/** The state of a machine's life. */
function viewOf(member: Member, { lives }: Pick<LifeDeps, 'lives'>) {
  const { name, status } = member;
  const state = lifeOf(member);
  const { text, by, at, byHand } = status.life ?? {};
  const waits = lives.waitsFor(name);
  return {
    ...{ machine: name, state, about: LIFE[state].about, allows: [...allowedIn(state)] },
    next: nextIn(state, name),
    ...(text !== undefined && { reason: text, by, at: timestamp(at!) }),
    ...(waits !== undefined && { waits }),
    ...(byHand && { byHand }),
  };
}

export const MACHINE_LIVES = [
  operation(
    'GET /v1/machines/:name/life',
    {
      access: 'view',
      summary: 'Shows the state of a machine, and what may be ordered in it.',
      answer: lifeView,
    },
    ({ params }, deps: LifeDeps) => viewOf(findMachine(params.name, deps), deps),
  ),
  operation(
    'POST /v1/machines/:name/take-out',
    {
      access: 'administer',
      takes: 'role',
      summary:
        'Takes a machine out of use: it is drained, leaves etcd, and is switched off by its BMC; its boots are held.',
      body: z.strictObject({
        reason,
        noDrain: truth('Its pods are not evicted first. Repeated with this, the order ends a drain.'),
      }),
      answer: lifeView.extend({
        cluster: z.string().optional().meta({ description: 'The cluster that it leaves.' }),
      }),
    },
    async ({ params, body, principal }, deps: LifeDeps) => {
      const { name } = findMachine(params.name, deps);
      const { cluster } = await deps.lives.takeOut(name, {
        ...{ why: body.reason, by: nameOf(principal), drains: !body.noDrain },
      });
      return { ...viewOf(findMachine(name, deps), deps), ...(cluster !== undefined && { cluster }) };
    },
  ),
  operation(
    'POST /v1/machines/:name/bring-back',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Lets a machine boot again that was taken out. It joins its cluster again.',
      answer: lifeView,
    },
    async ({ params }, deps: LifeDeps) => {
      const { name } = findMachine(params.name, deps);
      await deps.lives.bringBack(name);
      return viewOf(findMachine(name, deps), deps);
    },
  ),
  operation(
    'POST /v1/machines/:name/retire',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Retires a machine that was taken out: its certificate and the keys of its disks end.',
      body: z.strictObject({
        confirm,
        reason,
        unwiped: truth('Its disks were not wiped: they are destroyed elsewhere.'),
      }),
      answer: lifeView,
    },
    async ({ params, body, principal }, deps: LifeDeps) => {
      const { name } = findMachine(params.name, deps);
      confirmed(name, body, 'retire');
      const { reason: why, unwiped } = body;
      await deps.lives.retire(name, { why, unwiped, by: nameOf(principal) });
      return viewOf(findMachine(name, deps), deps);
    },
  ),
] as const;
