/**
 * Agents whose certificates ended while the boot host was away. Real TLS; openssl, curl and the
 * real agent play the machines.
 */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import { GONE_FOR } from '../../src/agent/identity/withdrawal.ts';
import { duration } from '../../src/base/duration.ts';
import type { Mac } from '../../src/base/mac.ts';
import { BURST } from '../../src/pki/issue-limit.ts';
import { document, IMAGE, machine as machineDocument, NETWORK, WORKER } from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, CP1_MAC, LOOPBACK, open } from './agent-boot-host.ts';
import { Machine, put, SHELLS } from './agent-kit.ts';

let bootHost: AgentBootHost;
const machines: Machine[] = [];
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-renewal-'));
afterAll(() => fs.rmSync(directory, { recursive: true, force: true }));
afterEach(async () => {
  for (const machine of machines.splice(0)) {
    await machine.stop();
    machine.close();
  }
  await bootHost.close();
});

const kinds = (machine: string, kind: string) =>
  bootHost.events.list({ subject: machine }).filter((event) => event.kind === kind);

const PLAN = { lines: [put('/etc/secret', 'a key\n', 0o600)], pollSeconds: 5 };

async function joined(mac: Mac = CP1_MAC, name = 'a') {
  const ticket = await bootHost.configured(mac);
  const { key, csr } = bootHost.key(name);
  const { body } = await bootHost.redeem(ticket, csr);
  await bootHost.boot.report(ticket.session, { step: 'ready' }, '10.77.0.101');
  // The boot host's own directory ends with it.
  const kept = path.join(directory, `${name}.key`);
  fs.copyFileSync(key, kept);
  return { key: kept, certificate: String(body) };
}

/** The lines of the plan in an answer, and the file of its first `put`. */
function planIn(body: Buffer): { readonly lines: readonly string[]; readonly file: string } {
  const member = (name: string) =>
    execFileSync('tar', ['-xOf', '-', name], { input: body, encoding: 'utf8' });
  const lines = member('plan').trim().split('\n').slice(1);
  return { lines, file: member(`files/${lines[0]!.split(' ')[2]}`) };
}

/** Polls with a certificate that has ended; resolves to the one that the answer brings. */
async function renewed(key: string, certificate: string): Promise<string> {
  const answer = await bootHost.poll(key, certificate);
  expect([answer.status, String(answer.body.subarray(0, 100))]).toEqual([200, expect.anything()]);
  const { lines, file } = planIn(answer.body);
  expect(lines.map((line) => line.split(' ')[0])).toEqual(['put', 'hold']);
  expect(lines[0]).toMatch(/ \/var\/lib\/muster\/agent\/agent\.crt$/);
  return file;
}

/** Asks ten at a time: a hundred programs at once are too many for a small host. */
async function byTens<T, R>(all: readonly T[], ask: (one: T, n: number) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  for (let from = 0; from < all.length; from += 10)
    answers.push(...(await Promise.all(all.slice(from, from + 10).map((one, n) => ask(one, from + n)))));
  return answers;
}

test('after a boot host was off for 60 days, a hundred agents get their plans again by themselves, each with its own key and without a ticket', async () => {
  const count = 100;
  const mac = (n: number) => `52:54:00:bb:00:${n.toString(16).padStart(2, '0')}` as Mac;
  const name = (n: number) => `w${n}`;
  bootHost = await open([
    NETWORK,
    IMAGE,
    WORKER,
    ...Array.from({ length: count }, (_, n) =>
      machineDocument(name(n), [mac(n)], {
        profile: 'worker',
        ...(n === 0 && { addresses: ['10.77.0.11'] }),
      }),
    ),
    document('Cluster', 'one', {
      kubernetes: {
        version: '1.36',
        endpoint: 'api.one.test',
        controlPlanes: [name(0)],
        workers: Array.from({ length: count - 1 }, (_, n) => name(n + 1)),
      },
    }),
  ]);
  const agents: { key: string; certificate: string }[] = [];
  for (let n = 0; n < count; n++) agents.push(await joined(mac(n), name(n)));
  bootHost.clock.leap(duration('60d'));
  bootHost = await bootHost.again();
  bootHost.plan = PLAN;

  const news = await byTens(agents, ({ key, certificate }) => renewed(key, certificate));
  expect(bootHost.asked).toEqual([]);
  const answers = await byTens(news, (certificate, n) => bootHost.poll(agents[n]!.key, certificate));
  expect(answers.map(({ status }) => status)).toEqual(agents.map(() => 200));
  expect(bootHost.asked.map(({ identity }) => identity.machine).sort()).toEqual(
    agents.map((_, n) => name(n)).sort(),
  );
  for (const [n, pem] of news.entries()) {
    const certificate = new X509Certificate(pem);
    expect(certificate.subject).toBe(`O=muster:agents\nCN=${name(n)}`);
    expect(Date.parse(certificate.validTo) - bootHost.clock.now()).toBeLessThanOrEqual(duration('30d'));
    expect(kinds(name(n), 'agent.renewed')).toHaveLength(1);
  }
}, 400_000);

test('an ended certificate brings another one and nothing else: no plan, no sign of life, no configuration, no farewell', async () => {
  bootHost = await open();
  const { key, certificate } = await joined();
  bootHost.plan = PLAN;
  bootHost.clock.leap(duration('31d'));
  const answer = await bootHost.poll(key, certificate);
  expect(planIn(answer.body).file).not.toContain('a key');
  expect(bootHost.asked).toEqual([]);
  expect(bootHost.roster.heartbeats.alive('cp1')?.bootId).toBeUndefined();
  expect((await bootHost.leave(key, certificate, 'boot-1')).status).toBe(401);
  const ended = path.join(directory, 'ended.crt');
  fs.writeFileSync(ended, certificate);
  const form = { session: 'any', url: 'http://10.77.0.1:8080' };
  const asked = await bootHost.curl('/agent/configuration', form, ['--cert', ended, '--key', key]);
  expect([asked.status, String(asked.body)]).toEqual([401, expect.stringContaining('has ended')]);
  // A lost answer does no harm: the same certificate comes again.
  expect(planIn((await bootHost.poll(key, certificate)).body)).toEqual(planIn(answer.body));
  const next = planIn(answer.body).file;
  expect((await bootHost.poll(key, next)).status).toBe(200);
  expect(bootHost.asked).toHaveLength(1);
  expect((await bootHost.poll(key, certificate)).status).toBe(401);
});

test('a certificate that was renewed shortly before the boot host went away is renewed also if the machine never used it, or used it only once', async () => {
  bootHost = await open();
  const { key, certificate } = await joined();
  bootHost.plan = PLAN;
  bootHost.clock.leap(duration('20d'));
  const second = planIn((await bootHost.poll(key, certificate)).body).file;
  bootHost.clock.leap(duration('60d'));
  bootHost = await bootHost.again();
  const third = await renewed(key, certificate);
  expect(third).not.toBe(second);
  expect((await bootHost.poll(key, third)).status).toBe(200);

  bootHost.clock.leap(duration('20d'));
  const fourth = planIn((await bootHost.poll(key, third)).body).file;
  bootHost.clock.leap(duration('60d'));
  // This time the machine had stored it, but its first poll with it comes now.
  const fifth = await renewed(key, fourth);
  expect((await bootHost.poll(key, fifth)).status).toBe(200);
});

test('an ended certificate is worth nothing with another key, after another key replaced it, and after it was revoked', async () => {
  bootHost = await open();
  const one = await joined();
  bootHost.clock.leap(duration('31d'));
  const other = bootHost.key('other');
  const serial = BigInt(`0x${new X509Certificate(one.certificate).serialNumber}`).toString();
  // The attacker's own certificates, with the serial number of the machine's; they have ended, too.
  const forged = (issuer: string): string => {
    const ca = bootHost.key('ca');
    const caFile = path.join(bootHost.directory, 'forged-ca.crt');
    const authority = ['req', '-x509', '-key', ca.key, '-subj', `/CN=${issuer}`, '-days', '900'];
    fs.writeFileSync(caFile, execFileSync('openssl', authority));
    const request = path.join(bootHost.directory, 'forged.csr');
    fs.writeFileSync(request, other.csr);
    const order = ['-CA', caFile, '-CAkey', ca.key, '-set_serial', serial, '-days', '-1'];
    return execFileSync('openssl', ['x509', '-req', '-in', request, ...order], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  };
  expect((await bootHost.poll(other.key, forged('somebody'))).status).toBe(401);
  expect(kinds('cp1', 'agent.refused').map(({ reason }) => reason?.code)).toEqual(['other_key']);
  // OpenSSL finds the signature wrong: the connection is cut, sometimes only after the answer.
  const outcome = await bootHost.poll(other.key, forged('muster-transport')).then(
    ({ status }) => status,
    () => 'cut',
  );
  expect([401, 'cut']).toContain(outcome);

  const two = await joined(CP1_MAC, 'b');
  expect((await bootHost.poll(one.key, one.certificate)).status).toBe(401);
  bootHost.clock.leap(duration('31d'));
  expect((await bootHost.poll(two.key, two.certificate)).status).toBe(200);
  await bootHost.catalog.delete('Cluster', 'one');
  await bootHost.catalog.delete('Machine', 'cp1');
  expect((await bootHost.poll(two.key, two.certificate)).status).toBe(401);
  bootHost.clock.advance(duration('10s'));
  await bootHost.agents.refresh();
  bootHost.clock.advance(GONE_FOR);
  await bootHost.agents.refresh();
  expect(bootHost.agents.identities.get('cp1')?.revoked?.code).toBe('machine_gone');
  await bootHost.catalog.apply([
    machineDocument('cp1', [CP1_MAC], { profile: 'worker', addresses: ['10.77.0.11'] }),
    document('Cluster', 'one', {
      kubernetes: { version: '1.36', endpoint: 'api.one.test', controlPlanes: ['cp1', 'cp2'] },
    }),
  ]);
  expect((await bootHost.poll(two.key, two.certificate)).status).toBe(401);
});

test('a certificate of a year, or of a boot host whose clock was ahead, is replaced by one of thirty days at the next poll', async () => {
  bootHost = await open();
  bootHost.plan = PLAN;
  bootHost.clock.leap(duration('300d'));
  const { key, certificate } = await joined();
  bootHost.clock.leap(-duration('300d') as never);
  const { lines, file } = planIn((await bootHost.poll(key, certificate)).body);
  expect(lines[0]).toMatch(/agent\.crt$/);
  expect(Date.parse(new X509Certificate(file).validTo) - bootHost.clock.now()).toBe(duration('30d'));
});

test('a machine that asks for certificates without end is answered with 429, the reason and when to ask again', async () => {
  bootHost = await open();
  for (let boot = 0; boot < BURST; boot++) await joined(CP1_MAC, `k${boot}`);
  const ticket = await bootHost.configured(CP1_MAC);
  const answer = await bootHost.redeem(ticket, bootHost.key('more').csr);
  expect([answer.status, String(answer.body)]).toEqual([
    429,
    'E_CERTIFICATE_LIMIT: cp1 got many certificates "agent" lately; the next one in 10 min\n',
  ]);
  expect(answer.headers).toContain('retry-after: 300\r\n');
  bootHost.clock.advance(duration('10m'));
  expect((await bootHost.redeem(await bootHost.configured(CP1_MAC), bootHost.key('more').csr)).status).toBe(
    200,
  );
}, 200_000);

test.for([
  [SHELLS[0], '60d', 'is behind by forty days'],
  [SHELLS[1], '60d', 'is behind by forty days'],
  [SHELLS[0], '91d', 'has jumped as well'],
  // The certificate of the agents' listener lives for a year, and has ended, too.
  [SHELLS[0], '396d', 'has jumped as well'],
] as const)(
  'by %s, an agent whose boot host comes back after %s does its plan again by itself while its own clock %s',
  async ([shell, away, itsClock]) => {
    bootHost = await open();
    bootHost.plan = { lines: [put('/etc/one', 'one\n')], pollSeconds: 0 };
    const { session, ticket } = await bootHost.configured(CP1_MAC);
    const authority = fs.readFileSync(path.join(bootHost.directory, 'ca.crt'), 'utf8');
    const url = () => `https://${LOOPBACK}:${bootHost.agents.port()}`;
    const machine = new Machine({ authority, url: url(), ticket }, { session, machine: 'cp1' });
    machines.push(machine);
    expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });

    bootHost.clock.leap(duration(away));
    bootHost = await bootHost.again();
    bootHost.plan = { lines: [put('/etc/one', 'two\n')], pollSeconds: 0 };
    const settings = machine.read('/etc/muster/agent.conf');
    machine.write(
      '/etc/muster/agent.conf',
      settings.replace(/^server=.*$/m, `server=${url()}`).replace(/^ticket=.*$/m, 'ticket='),
    );
    const library = execFileSync('sh', ['-c', 'echo /usr/lib/*/faketime/libfaketime.so.1'], {
      encoding: 'utf8',
    }).trim();
    const jumped = Math.round((bootHost.clock.now() - Date.now()) / 1000);
    const offset = itsClock === 'has jumped as well' ? `${jumped < 0 ? '' : '+'}${jumped}` : '-40d';
    const wrong = { LD_PRELOAD: library, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
    const first = await machine.poll(shell, wrong);
    expect(first.said).toBe(
      'muster-agent: certificate-ended: The certificate of the agent had ended. It has another one and asks again.\n',
    );
    expect(machine.read('/etc/one')).toBe('one\n');
    expect(await machine.poll(shell, wrong)).toEqual({ status: 0, said: '' });
    expect(machine.read('/etc/one')).toBe('two\n');
    expect(bootHost.asked.at(-1)!.facts.hold?.code).toBe('certificate-ended');
  },
);
