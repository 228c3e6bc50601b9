/** Operators' actions in the security log, and the commands that list and check it. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AuditEntry } from '../../../src/events/audit-chain.ts';
import { run } from '../cli/run.ts';
import { DOCUMENTS, openWorld, type World } from './world.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS);
});
afterEach(() => world.close());

const me = process.getuid!();
const EXTRA = `apiVersion: muster/v1
kind: Profile
metadata: {name: extra}
spec: {boot: hold}
`;

const muster = (...args: string[]) => run(args, { socket: world.socket });
const entries = async (): Promise<readonly AuditEntry[]> =>
  (await world.client.call<{ items: AuditEntry[] }>('GET', '/v1/audit/entries')).items;

test('a change is recorded with who asked, what became of it, and what it changed', async () => {
  await world.client.call('POST', '/v1/apply', { body: EXTRA });
  await expect(
    world.client.call('POST', '/v1/machines/nobody/rearm', { query: { keep: 'true' } }),
  ).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
  const found = (await entries()).filter(({ actor }) => actor !== undefined);
  expect(found).toMatchObject([
    { kind: 'document.applied', subject: 'Profile/extra' },
    {
      kind: 'operator.action',
      subject: 'apply',
      reason: { code: 'done' },
      fields: { action: 'POST /v1/apply', status: 200 },
    },
    {
      kind: 'operator.action',
      subject: 'nobody',
      reason: { code: 'E_NOT_FOUND' },
      fields: { action: 'POST /v1/machines/:name/rearm', status: 404, query: 'keep=true' },
    },
  ]);
  for (const { actor } of found) expect(actor).toMatchObject({ uid: me, pid: process.pid });
});

test('an answer comes after its entry is on the disk', async () => {
  await world.client.call('POST', '/v1/reload');
  const directory = path.join(world.directory, 'audit');
  const text = fs.readdirSync(directory).map((name) => fs.readFileSync(path.join(directory, name), 'utf8'));
  expect(text.join('')).toContain('POST /v1/reload');
});

test('reading is not recorded, and a kubeconfig is, although its cluster is unknown', async () => {
  await world.client.call('GET', '/v1/machines');
  await world.client.call('POST', '/v1/clusters/x/kubeconfig', { query: { user: 'eve' } }).catch(() => {});
  const actions = (await entries()).filter(({ kind }) => kind === 'operator.action');
  expect(actions).toMatchObject([
    { subject: 'Cluster/x', reason: { code: 'E_NOT_FOUND' }, fields: { query: 'user=eve' } },
  ]);
});

test('`muster events --security` lists who did what, and follows it', async () => {
  await muster('reload');
  const { out } = await muster('events', '--security', '--tail', '1');
  expect(out).toMatch(/TIME +ACTOR +SUBJECT +EVENT +REASON +MESSAGE/);
  expect(out).toMatch(new RegExp(`\\(${me}\\) +reload +operator\\.action +done`));
  const stop = new AbortController();
  const followed = await run(['events', '--security', '--follow', '--tail', '1'], {
    socket: world.socket,
    signal: stop.signal,
    onOut: () => stop.abort(),
  });
  expect(followed.out).toMatch(new RegExp(`operator\\.action by \\S+ \\(${me}\\) .*action=POST /v1/reload`));
});

test('`muster audit verify` finds the log of the server whole, and a changed file of it not', async () => {
  await muster('reload');
  const whole = await muster('audit', 'verify');
  expect(whole).toMatchObject({ code: 0, err: '' });
  expect(whole.out).toMatch(
    /^\d+ entries, 1 to \d+; signed up to \d+ by \d+ checkpoints: the log is whole up to entry \d+\n$/,
  );
  const directory = path.join(world.directory, 'audit');
  const file = path.join(directory, fs.readdirSync(directory)[0]!);
  fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('"reload"', '"nothing"'));
  const changed = await muster('audit', 'verify');
  expect(changed.code).toBe(1);
  expect(changed.out).toMatch(/^changed: entry \d+ \(log:\d+\) was changed/);
  expect(changed.err).toContain('E_AUDIT_VERIFY');
});

test('an exported log is checked elsewhere with the public key, and with checkpoints that were kept', async () => {
  const at = (name: string) => path.join(world.directory, name);
  fs.writeFileSync(at('key.pub'), (await muster('audit', 'key')).out);
  await muster('reload');
  const exported = (await muster('audit', 'export')).out;
  fs.writeFileSync(at('log.jsonl'), exported);
  const verify = (...more: string[]) => run(['audit', 'verify', at('log.jsonl'), ...more]);
  const keyed = ['--key', at('key.pub')];
  expect(await verify(...keyed)).toMatchObject({ code: 0, err: '' });
  expect(await run(['audit', 'verify', path.join(world.directory, 'audit'), ...keyed])).toMatchObject({
    code: 0,
  });
  expect(await verify()).toMatchObject({ code: 2, err: expect.stringContaining('--key FILE') });
  await muster('reload');
  const kept = (await muster('audit', 'checkpoint')).out.trim();
  const cut = await verify(...keyed, '--checkpoint', kept, '-o', 'json');
  expect(cut.code).toBe(1);
  expect(JSON.parse(cut.out)).toMatchObject({ ok: false, problems: [{ code: 'cut' }] });
  expect(await verify(...keyed, '--checkpoint', 'x')).toMatchObject({ code: 2 });
  expect(await verify('--key', at('log.jsonl'))).toMatchObject({
    code: 1,
    err: expect.stringContaining('E_AUDIT_FILE'),
  });
  expect(await run(['audit', 'verify', at('nothing'), ...keyed])).toMatchObject({
    code: 1,
    err: expect.stringContaining('E_AUDIT_FILE'),
  });
});
