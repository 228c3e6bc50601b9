/** Orders about the life of a machine: out of use, back, retired. */
import { z } from 'zod';
import { names, truth } from '../../base/body.ts';
import { type TestReport, testMeasured } from '../../machines/life/burn-in.ts';
import { TEST_LASTS } from '../../machines/life/burn-in-order.ts';
import { allowedIn, LIFE, LIFE_ORDERS, LIFE_STATES, nextIn } from '../../machines/life/life.ts';
import { type Lives, lifeOf } from '../../machines/life/orders.ts';
import { RESCUE_LASTS, rescueForm } from '../../machines/life/rescue-order.ts';
import { type WipeCertificate, wipedDisk } from '../../machines/life/wipe.ts';
import { WIPE_LEVELS } from '../../machines/life/wipe-order.ts';
import type { Member, Roster } from '../../machines/roster.ts';
import { confirmed } from '../confirmed.ts';
import { listOf, part, time } from '../contract/contract.ts';
import { findMachine } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';
import { timestamp } from '../times.ts';
import { nameOf } from './power.ts';

interface LifeDeps {
  readonly roster: Pick<Roster, 'get' | 'byMac'>;
  readonly lives: Lives;
  /** The certificates of a machine's wipes, the newest first. */
  readonly wipes: (machine: string) => Promise<readonly WipeCertificate[]>;
  /** The reports of a machine's tests, the newest first. */
  readonly tests: (machine: string) => Promise<readonly TestReport[]>;
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
    byHand: z.literal(true).optional().meta({
      description: 'It has no BMC: a person switches it off, or restarts it for its wipe, test or rescue.',
    }),
    begun: z.literal(true).optional().meta({ description: 'It has begun to wipe, or to test.' }),
    rescue: rescueForm.optional().meta({ description: 'Who may log in, until when, and where.' }),
    allows: z.array(z.enum(LIFE_ORDERS)),
    next: z.string().meta({ description: 'The command that usually comes next.' }),
  })
  .meta({ id: 'MachineLife', description: 'The state of a machine, and what may be ordered in it.' });

const certificateView = z
  .strictObject({
    ...{ id: z.string(), machine: z.string(), serial: z.string().optional() },
    ...{ product: z.string().optional(), level: z.enum(WIPE_LEVELS), reason: z.string(), by: z.string() },
    ...{ orderedAt: time, at: time },
    failed: z.string().optional().meta({ description: 'Why it does not count; absent: it does.' }),
    disks: z.array(wipedDisk),
  })
  .meta({ id: 'WipeCertificate', description: 'What was wiped, and what the disks showed afterwards.' });

const testView = z
  .strictObject({
    ...{ id: z.string(), machine: z.string(), serial: z.string().optional() },
    ...{ product: z.string().optional(), reason: z.string(), by: z.string() },
    ...{ orderedAt: time, at: time, seconds: z.int() },
    faults: z.array(z.string()).meta({ description: 'Why it did not pass; none: it passed.' }),
    ...testMeasured,
  })
  .meta({ id: 'TestReport', description: 'What a test of the parts of a machine measured.' });

/** The state of a machine's life. */
function viewOf(member: Member, { lives }: Pick<LifeDeps, 'lives'>) {
  const { name, status } = member;
  const state = lifeOf(member);
  const { text, by, at, byHand, wipe, test, rescue } = status.life ?? {};
  const waits = lives.waitsFor(name);
  return {
    ...{ machine: name, state, about: LIFE[state].about, allows: [...allowedIn(state)] },
    next: nextIn(state, name),
    ...(text !== undefined && { reason: text, by, at: timestamp(at!) }),
    ...(waits !== undefined && { waits }),
    ...(byHand && { byHand }),
    ...((state === 'wiping' ? wipe : test)?.begun && { begun: true as const }),
    ...(rescue && { rescue }),
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
    'POST /v1/machines/:name/wipe',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Wipes the disks of a machine that was taken out; what it cannot show counts as failed.',
      body: z.strictObject({
        confirm,
        reason,
        level: z.enum(WIPE_LEVELS).meta({
          description:
            'tables: what names data at the ends of disks and partitions; crypto: the drive erases itself, or the headers of what Muster encrypted are destroyed; overwrite: every sector.',
        }),
        disks: names('Serial numbers or world wide names. Default: all but shared disks and sticks.'),
      }),
      answer: lifeView,
    },
    async ({ params, body, principal }, deps: LifeDeps) => {
      const { name } = findMachine(params.name, deps);
      confirmed(name, body, 'wipe');
      const { reason: why, level, disks } = body;
      await deps.lives.wipe(name, { why, level, disks, by: nameOf(principal) });
      return viewOf(findMachine(name, deps), deps);
    },
  ),
  operation(
    'POST /v1/machines/:name/test',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Tests memory, disks and network of a machine that was taken out; its BMC restarts it.',
      body: z.strictObject({
        reason: z.string().default('burn-in').meta({ description: 'Why; it is in the report.' }),
        lasts: z
          .string()
          .default(TEST_LASTS)
          .meta({ description: 'How long memory is tested, and each disk is read at most.' }),
      }),
      answer: lifeView,
    },
    async ({ params, body, principal }, deps: LifeDeps) => {
      const { name } = findMachine(params.name, deps);
      const { reason: why, lasts } = body;
      await deps.lives.test(name, { why, lasts, by: nameOf(principal) });
      return viewOf(findMachine(name, deps), deps);
    },
  ),
  operation(
    'GET /v1/machines/:name/tests',
    {
      access: 'view',
      summary: 'Lists the reports of the tests of a machine, the newest first.',
      query: z.strictObject(part),
      answer: listOf('TestList', testView),
    },
    async ({ params, query }, deps: LifeDeps) => {
      const items = (await deps.tests(params.name)).map(({ v: _, orderedAt, at, ...one }) => ({
        ...one,
        ...{ orderedAt: timestamp(orderedAt), at: timestamp(at) },
      }));
      return { kind: 'TestList' as const, ...partOf(query, items, ({ id }) => id) };
    },
  ),
  operation(
    'POST /v1/machines/:name/rescue',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Lets a machine boot the rescue system once, with SSH for one key; its BMC restarts it.',
      body: z.strictObject({
        reason,
        key: z.string().meta({ description: 'The public key that may log in, a line of authorized_keys.' }),
        lasts: z
          .string()
          .default(RESCUE_LASTS)
          .meta({ description: 'How long at most; 24h is the longest.' }),
      }),
      answer: lifeView,
    },
    async ({ params, body, principal }, deps: LifeDeps) => {
      const { name } = findMachine(params.name, deps);
      const { reason: why, key, lasts } = body;
      await deps.lives.rescue(name, { why, key, lasts, by: nameOf(principal) });
      return viewOf(findMachine(name, deps), deps);
    },
  ),
  operation(
    'POST /v1/machines/:name/call-off',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Cancels a wipe that has not begun, or a test; ends a rescue.',
      answer: lifeView,
    },
    async ({ params }, deps: LifeDeps) => {
      const { name } = findMachine(params.name, deps);
      await deps.lives.callOff(name);
      return viewOf(findMachine(name, deps), deps);
    },
  ),
  operation(
    'GET /v1/machines/:name/wipes',
    {
      access: 'view',
      summary: 'Lists the certificates of the wipes of a machine, the newest first.',
      query: z.strictObject(part),
      answer: listOf('WipeList', certificateView),
    },
    async ({ params, query }, deps: LifeDeps) => {
      // The certificates outlive the machine's document.
      const items = (await deps.wipes(params.name)).map(({ v: _, orderedAt, at, disks, ...one }) => ({
        ...one,
        ...{ orderedAt: timestamp(orderedAt), at: timestamp(at), disks: [...disks] },
      }));
      return { kind: 'WipeList' as const, ...partOf(query, items, ({ id }) => id) };
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
