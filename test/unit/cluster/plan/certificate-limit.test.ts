/** A worker that makes new keys without end, to make the ledger of its cluster grow. */
import { expect, test } from 'vitest';
import { duration } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import { BURST } from '../../../../src/pki/issue-limit.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

test('a worker that shows new keys without end is held with the reason, the ledger stops growing, and other machines get theirs', async () => {
  const { planner, pki, events, clock } = await rig();
  await settle(planner, new TestMachine('cp1'));
  const ofWorker = async () => (await pki.issued('golden')).filter(({ to }) => to === 'w1').length;
  const fresh = () => settle(planner, new TestMachine('w1'));
  for (let keys = 0; keys < BURST; keys++) expect((await fresh()).lines.at(-1)?.do).not.toBe('hold');
  const before = await ofWorker();
  for (let more = 0; more < 5; more++) {
    const { lines, pollSeconds } = await fresh();
    expect(lines.at(-1)).toMatchObject({ do: 'hold', code: 'too-many-certificates' });
    expect(pollSeconds).toBe(10);
  }
  expect(await ofWorker()).toBe(before);
  expect(events.filter(({ reason }) => reason?.code === 'too_many')).not.toEqual([]);
  expect((await settle(planner, new TestMachine('w2'))).lines.at(-1)?.do).not.toBe('hold');
  clock.advance(duration('10m'));
  expect((await fresh()).lines.at(-1)?.do).not.toBe('hold');
});

test('a machine that the signer refuses is held with the rule, and continues when it is admitted', async () => {
  const { planner, pki } = await rig();
  const handedOut = pki.handedOut.bind(pki);
  pki.handedOut = async (cluster, machine) => {
    throw new MusterError('E_SIGNER_REFUSED', `${machine} is not approved as control-plane of ${cluster}`);
  };
  const cp1 = new TestMachine('cp1');
  expect((await settle(planner, cp1)).lines.at(-1)).toMatchObject({
    do: 'hold',
    code: 'signer',
    text: 'cp1 is not approved as control-plane of golden',
  });
  pki.handedOut = handedOut;
  expect((await settle(planner, cp1)).lines.at(-1)?.do).not.toBe('hold');
});
