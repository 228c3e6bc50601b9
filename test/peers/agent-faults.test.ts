/**
 * Plans that fail on the way or on the machine: the next poll has the reason, and nothing is half
 * done.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { encodePlan } from '../../src/agent/wire/encode-plan.ts';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import { tar } from '../../src/artifacts/tar.ts';

import { Machine, Planner, put, SHELLS, type Shell } from './agent-kit.ts';

let planner: Planner;
let machine: Machine;

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
});

afterEach(() => {
  machine.close();
  planner.close();
});

const TWO = [put('/etc/one', 'one\n'), put('/etc/two', 'two\n')];
const touched = () => ['/etc/one', '/etc/two'].filter((at) => machine.exists(at));
const tarOf = (lines: readonly PlanLine[]): Buffer => encodePlan({ lines, pollSeconds: 0 }).tar;

/** Polls twice; returns what the second poll reports about the first plan. */
async function held(shell: Shell = SHELLS[0]) {
  expect((await machine.poll(shell)).status).toBe(1);
  await machine.poll(shell);
  const { hold, applied } = planner.facts();
  expect(applied).toBeUndefined();
  return hold;
}

/**
 * Gives one agent all of these answers, without pauses; resolves to what it reported about each
 * with the next poll.
 */
async function answered(bodies: readonly Uint8Array[]) {
  machine.command('sleep', '#!/bin/sh\n');
  planner.answers.push(...bodies.map((body) => ({ status: 200, body })));
  machine.start();
  const polls = () => planner.asked.filter(({ path: asked }) => asked === '/agent/poll');
  await expect.poll(() => polls().length, { timeout: 100_000 }).toBeGreaterThan(bodies.length);
  return polls()
    .slice(1, bodies.length + 1)
    .map(({ form }) => form.get('hold'));
}

test('no part of a plan that was cut off anywhere is done', async () => {
  const whole = tarOf(TWO);
  const cuts = [0, 1, 511, 512, 600, 1024, 1030, 1536, 2047, 2048, 2560, 2570];
  expect(await answered(cuts.map((at) => whole.subarray(0, at)))).toEqual(cuts.map(() => 'bad-plan'));
  expect(touched()).toEqual([]);
});

test('a plan whose connection breaks is not begun, and the agent polls again', async () => {
  await machine.poll();
  planner.answers.push({ status: 200, body: tarOf(TWO), cutAt: 2000 });
  expect((await machine.poll()).status).toBe(1);
  expect(touched()).toEqual([]);
  planner.plan(TWO);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(touched()).toEqual(['/etc/one', '/etc/two']);
});

test.for(SHELLS)(
  'by %s, a file with another hash, or lines with another digest, end the plan before it begins',
  async (shell) => {
    const changed = (from: string, to: string): Buffer =>
      Buffer.from(tarOf(TWO).toString('latin1').replace(from, to), 'latin1');
    for (const body of [changed('two\n\0', 'tvo\n\0'), changed('/etc/two', '/etc/tvo')]) {
      planner.answers.push({ status: 200, body });
      expect(await held(shell)).toMatchObject({ code: 'bad-plan' });
      expect(touched()).toEqual([]);
    }
  },
);

const sha256 = (content: string): string => createHash('sha256').update(content).digest('hex');

/** A plan that encodePlan would not write; it has the file `one`. */
function raw(...lines: readonly string[]): Buffer {
  const text = lines.map((line) => `${line}\n`).join('');
  return tar([
    { name: 'plan', content: Buffer.from(`muster-plan 1 ${sha256(text)}\n${text}`) },
    { name: `files/${sha256('one\n')}`, content: Buffer.from('one\n') },
  ]);
}

const GOOD = `put 644 ${sha256('one\n')} /etc/one`;
const UNKNOWN = [
  'restart now',
  'put 644',
  '',
  'step $(reboot)',
  `put 644 ${sha256('one\n')} etc/two`,
  `put 644 ${sha256('one\n')} /etc/../two`,
  `put 644 ${sha256('one\n')} /etc/two more`,
  `put 644 ../${sha256('one\n')} /etc/two`,
  'run --now x',
  'run ../x y',
  'run -x y',
  'step `reboot`',
  'link always /etc/x *',
  'request ../../etc/key ECDSA-P256',
  'remove etc',
  'hold',
  'hold code',
];

test('an unknown or ambiguous line makes the agent reject the plan before it does anything', async () => {
  const holds = await answered(UNKNOWN.map((line) => raw(GOOD, line)));
  expect(UNKNOWN.map((line, n) => [line, holds[n]])).toEqual(UNKNOWN.map((line) => [line, 'unknown-line']));
  expect(touched()).toEqual([]);
});

test('the agent under busybox rejects these lines too', async () => {
  for (const line of UNKNOWN.slice(0, 4)) {
    planner.answers.push({ status: 200, body: raw(GOOD, line) });
    expect([line, (await machine.poll(SHELLS[1])).said]).toEqual([
      line,
      expect.stringContaining('unknown-line'),
    ]);
  }
  expect(touched()).toEqual([]);
});

test('a file that cannot be written is a hold with the reason, the rest is not done, and the next plan continues', async () => {
  machine.write('/etc/dir/inside', '');
  planner.plan([put('/etc/one', 'one\n'), put('/etc/dir', 'not a directory\n'), put('/etc/two', 'two\n')]);
  expect(await held()).toEqual({ code: 'write-failed', text: expect.stringContaining('/etc/dir') });
  expect(touched()).toEqual(['/etc/one']);
  expect(fs.readdirSync(machine.path('/etc')).filter((name) => name.startsWith('.'))).toEqual([]);
  const digest = planner.plan(TWO);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  await machine.poll();
  expect(planner.facts()).toMatchObject({ applied: digest });
  expect(planner.facts().hold).toBeUndefined();
});

test('a unit that does not start is a hold, and the same plan tries it again', async () => {
  machine.write('/units/a.service.broken', '');
  const lines: readonly PlanLine[] = [{ do: 'run', unit: 'a.service', digest: 'd' }];
  planner.plan(lines);
  machine.command(
    'journalctl',
    '#!/bin/sh\ncase "$*" in *" _SYSTEMD_UNIT=a.service") echo "cannot open /dev/x"; echo more ;; esac\n',
  );
  expect(await held()).toEqual({
    code: 'unit-failed',
    text: 'Job for a.service failed. It wrote: cannot open /dev/x',
  });
  fs.rmSync(machine.path('/units/a.service.broken'));
  planner.plan(lines);
  machine.told();
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(machine.told()).toEqual(['enable a.service', 'start a.service']);
});

test('a hold line in the plan is reported with every poll, and the lines before it are done', async () => {
  const text = 'A person — or two — must act: 100 % & more';
  planner.plan([put('/etc/one', 'one\n'), { do: 'hold', code: 'no-quorum', text }]);
  for (let n = 0; n < 3; n++) await machine.poll();
  expect(planner.facts().hold).toEqual({ code: 'no-quorum', text });
  expect(touched()).toEqual(['/etc/one']);
});

test('a file that needs a key that the machine does not have is a hold', async () => {
  const content = { text: '' };
  planner.plan([
    { do: 'put-with-key', mode: 0o600, path: '/etc/one', leaf: 'kubelet', append: 'pem', content },
  ]);
  expect(await held()).toMatchObject({ code: 'no-key' });
  expect(touched()).toEqual([]);
});
