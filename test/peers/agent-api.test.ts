/** Tickets, certificates and polls over real TLS; openssl makes the keys, curl asks. */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createRevisionClaims } from '../../src/agent/wire/revision-claim.ts';
import { duration, type Millis } from '../../src/base/duration.ts';
import { ALIVE_WITHIN } from '../../src/machines/heartbeats.ts';
import { TICKET_LIFETIME } from '../../src/machines/tickets.ts';
import * as boot from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, CLUSTER, CP1_MAC, CP2_MAC, open } from './agent-boot-host.ts';

const AT = { baseUrl: 'http://10.77.0.1:8080', peer: '10.77.0.101' };
/** cp1 has its system on a disk. */
const INSTALLED = [
  boot.document('Image', 'server', {
    os: 'debian',
    arch: 'x86_64',
    kernel: { sha256: boot.HASH('a') },
    disk: { sha256: boot.HASH('b') },
    pieces: { sha256: boot.HASH('c') },
    configFormat: 'cloud-init',
    cloudInitVersion: '22.4',
  }),
  boot.document('Profile', 'installed', {
    image: 'server',
    home: 'disk',
    installDisk: { choose: 'smallest' },
  }),
  boot.machine('cp1', [CP1_MAC], { profile: 'installed', addresses: ['10.77.0.11'] }),
];
let bootHost: AgentBootHost;
afterEach(() => bootHost.close());

const reasons = (machine: string, kind: string): (string | undefined)[] =>
  bootHost.events
    .list({ subject: machine })
    .filter((event) => event.kind === kind)
    .map((event) => event.reason?.code);

describe('a ticket', () => {
  it('a ticket and a key are exchanged for a certificate with the machine’s name, whatever names the request has', async () => {
    bootHost = await open();
    const ticket = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('a');
    const answer = await bootHost.redeem(ticket, csr);
    expect(answer.status).toBe(200);
    const certificate = new X509Certificate(answer.body);
    expect(certificate.subject).toBe('O=muster:agents\nCN=cp1');
    const text = execFileSync('openssl', ['x509', '-noout', '-text'], {
      input: answer.body,
      encoding: 'utf8',
    });
    expect(text).toContain('TLS Web Client Authentication');
    expect(text).not.toContain('system:masters');
    expect(bootHost.agents.identities.get('cp1')?.serial).toBe(certificate.serialNumber.toLowerCase());
  });

  it('a ticket gives the same key the same certificate again, also after a restart, so a lost answer does no harm', async () => {
    bootHost = await open();
    const ticket = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('a');
    const first = await bootHost.redeem(ticket, csr);
    expect((await bootHost.redeem(ticket, csr)).body.equals(first.body)).toBe(true);
    bootHost = await bootHost.again();
    bootHost.clock.advance((TICKET_LIFETIME * 2) as Millis);
    expect((await bootHost.redeem(ticket, csr)).body.equals(first.body)).toBe(true);
    expect(await bootHost.pki.issued('_muster')).toHaveLength(2);
  });

  it('a ticket that was used is refused for another key and raises an alarm until an operator decides', async () => {
    bootHost = await open();
    const ticket = await bootHost.configured(CP1_MAC);
    const [mine, other] = [bootHost.key('a'), bootHost.key('b')];
    const certificate = String((await bootHost.redeem(ticket, mine.csr)).body);
    const refused = await bootHost.redeem(ticket, other.csr);
    expect(refused.status).toBe(409);
    expect(String(refused.body)).toMatch(/^E_TICKET_KEY: /);
    expect(bootHost.roster.get('cp1')?.status.alarm?.code).toBe('other_key');
    expect(reasons('cp1', 'agent.alarm')).toEqual(['other_key']);
    // The machine with the certificate continues; the server cannot know which of the two is
    // genuine.
    expect((await bootHost.poll(mine.key, certificate)).status).toBe(200);

    await bootHost.agents.rearm('cp1', { keep: false });
    expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
    expect((await bootHost.poll(mine.key, certificate)).status).toBe(401);
    const second = await bootHost.redeem(ticket, other.csr);
    expect(second.status).toBe(200);
    expect((await bootHost.poll(other.key, String(second.body))).status).toBe(200);
    expect((await bootHost.redeem(ticket, mine.csr)).status).toBe(409);
    await bootHost.agents.rearm('cp1', { keep: true });
    expect((await bootHost.poll(other.key, String(second.body))).status).toBe(200);
  });

  it('a ticket that two keys use concurrently gives exactly one of them a certificate', async () => {
    bootHost = await open();
    for (const round of [1, 2, 3]) {
      const ticket = await bootHost.configured(CP1_MAC);
      const keys = Array.from({ length: 6 }, (_, n) => bootHost.key(`${round}-${n}`));
      const answers = await Promise.all(keys.map(({ csr }) => bootHost.redeem(ticket, csr)));
      const won = answers.filter(({ status }) => status === 200);
      expect(won).toHaveLength(1);
      expect(answers.filter(({ status }) => status === 409)).toHaveLength(5);
      const serial = new X509Certificate(won[0]!.body).serialNumber.toLowerCase();
      expect(bootHost.agents.identities.get('cp1')?.serial).toBe(serial);
      // A certificate that was not handed out is not in the ledger.
      const agents = (await bootHost.pki.issued('_muster')).filter(({ leaf }) => leaf === 'agent');
      expect(agents).toHaveLength(round);
      await bootHost.agents.rearm('cp1', { keep: true });
    }
  });

  it('a ticket expires minutes after the first document that carried it', async () => {
    bootHost = await open();
    const ticket = await bootHost.configured(CP1_MAC);
    bootHost.clock.advance((TICKET_LIFETIME + 1) as Millis);
    // Fetching the document again does not extend the ticket.
    bootHost.boot.config(ticket.session, 'user-data', AT);
    expect((await bootHost.redeem(ticket, bootHost.key('a').csr)).status).toBe(403);
    expect(reasons('cp1', 'agent.refused')).toEqual(['too_late']);
    const next = await bootHost.configured(CP1_MAC);
    expect(next.ticket).not.toBe(ticket.ticket);
    expect((await bootHost.redeem(next, bootHost.key('a').csr)).status).toBe(200);
  });

  it('a ticket is refused from another address than the machine’s, for another machine’s session, and when it is wrong', async () => {
    bootHost = await open();
    const one = await bootHost.configured(CP1_MAC, '10.77.0.101');
    const two = await bootHost.configured(CP2_MAC, '10.77.0.102');
    const { csr } = bootHost.key('a');
    const mixed = { session: two.session, ticket: one.ticket };
    for (const wrong of [one, mixed, { ...one, ticket: '' }, { session: 'x', ticket: one.ticket }])
      expect((await bootHost.redeem(wrong, csr)).status).toBe(403);
    expect(reasons('cp1', 'agent.refused')).toEqual(['foreign_address', 'ticket_wrong']);
    expect(reasons('cp2', 'agent.refused')).toEqual(['ticket_wrong']);
    expect(reasons('127.0.0.1', 'agent.refused')).toEqual(['session_unknown']);
    expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
  });

  it('a ticket of an ended boot is refused, unless the boot ended because the machine was ready', async () => {
    bootHost = await open();
    const old = await bootHost.configured(CP1_MAC);
    const ticket = await bootHost.configured(CP1_MAC);
    expect((await bootHost.redeem(old, bootHost.key('a').csr)).status).toBe(403);
    await bootHost.boot.report(ticket.session, { step: 'ready' }, '10.77.0.101');
    expect((await bootHost.redeem(ticket, bootHost.key('a').csr)).status).toBe(200);
  });

  it('the ticket on a disk counts once the installed system has reported from that disk', async () => {
    bootHost = await open([...CLUSTER.filter(({ metadata }) => metadata.name !== 'cp1'), ...INSTALLED]);
    const { session } = await bootHost.powerOn(CP1_MAC, { peer: AT.peer });
    const { ticket } = bootHost.settings.get('cp1')!;
    const { csr } = bootHost.key('a');
    const redeem = () => bootHost.redeem({ session: session!.id, ticket: ticket! }, csr);
    expect((await redeem()).status).toBe(403);
    const member = bootHost.roster.get('cp1')!;
    const install = { at: bootHost.clock.now(), image: boot.HASH('b'), disk: 'MINE' };
    bootHost.roster.change(member, { install: { ...install, state: 'written' } });
    const says = (disk: string) => bootHost.boot.report(session!.id, { step: 'configured', disk }, AT.peer);
    expect(await says('OTHER')).toMatchObject({ believed: false });
    expect((await redeem()).status).toBe(403);
    expect(reasons('cp1', 'agent.refused')).toEqual(['not_from_disk', 'not_from_disk']);
    // Installing took longer than a ticket lasts, which begins with this report.
    bootHost.clock.advance((TICKET_LIFETIME * 2) as Millis);
    expect(await says('MINE')).toMatchObject({ believed: true });
    expect((await redeem()).status).toBe(200);
    bootHost.clock.advance((TICKET_LIFETIME + 1) as Millis);
    expect(
      (await bootHost.redeem({ session: session!.id, ticket: ticket! }, bootHost.key('b').csr)).status,
    ).toBe(409);
  });

  it('a ticket is given only to machines with a document that belong to a cluster', async () => {
    bootHost = await open();
    const ticket = await bootHost.configured(CP1_MAC);
    await bootHost.catalog.apply([
      {
        apiVersion: 'muster/v1',
        kind: 'Cluster',
        metadata: { name: 'one' },
        spec: {
          trust: 'segment',
          kubernetes: { version: '1.36', endpoint: 'api.one.test', controlPlanes: ['cp2'] },
        },
      },
    ]);
    expect((await bootHost.redeem(ticket, bootHost.key('a').csr)).status).toBe(403);
    expect(reasons('cp1', 'agent.refused')).toEqual(['not_accepted']);
  });

  it('a ticket is in no event, no preview, no record in plain text, and not on the kernel command line', async () => {
    bootHost = await open();
    const answer = await bootHost.powerOn(CP1_MAC);
    const ticket = await bootHost.configured(CP1_MAC);
    await bootHost.redeem(ticket, bootHost.key('a').csr);
    expect(answer.script).not.toContain(ticket.ticket);
    expect(JSON.stringify(bootHost.events.list({}))).not.toContain(ticket.ticket);
    await bootHost.roster.flush();
    const { records } = await bootHost.store.list('');
    expect(JSON.stringify(records)).not.toContain(ticket.ticket);
    const shown = bootHost.boot.render('cp1');
    expect(shown.files['user-data']).not.toContain(ticket.ticket);
    expect(bootHost.settings.get('cp1')?.ticket).toBe('[secret]');
  });

  it('a machine without a cluster has no ticket in its configuration', async () => {
    bootHost = await open();
    const { MAC3 } = await import('../unit/pxe/boot/world.ts');
    const answer = await bootHost.powerOn(MAC3);
    const document = bootHost.boot.config(answer.session!.id, 'user-data', { ...AT, peer: '10.77.0.103' });
    expect(document.ok && document.body).not.toContain('agent.conf');
    expect(bootHost.settings.has('alone')).toBe(false);
  });
});

const URL_OF_A_FILE = 'http://10.77.0.1:8080/assets/kernel';

/** A machine with a certificate. */
async function joined(mac = CP1_MAC, name = 'a') {
  const ticket = await bootHost.configured(mac);
  const { key, csr } = bootHost.key(name);
  return { key, certificate: String((await bootHost.redeem(ticket, csr)).body), ticket };
}

describe('a poll', () => {
  it('a poll takes facts to the planner and returns its plan, with time and revision', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    bootHost.plan = { lines: [{ do: 'step', step: 'first' }], pollSeconds: 7 };
    const first = await bootHost.poll(key, certificate);
    const shown = /muster-revision: (\S+)/i.exec(first.text)![1]!;
    const answer = await bootHost.poll(key, certificate, { revision: shown });
    expect(answer.status).toBe(200);
    expect(answer.headers).toContain('retry-after: 7\r\n');
    expect(answer.headers).toContain(`muster-time: ${Math.floor(bootHost.clock.now() / 1000)}\r\n`);
    expect(answer.text).toMatch(/muster-revision: \d+\.[A-Za-z0-9_-]{43}\r\n/i);
    const plan = execFileSync('tar', ['-xOf', '-', 'plan'], { input: answer.body, encoding: 'utf8' });
    const [head, ...lines] = plan.split('\n');
    expect(lines).toEqual(['step first', '']);
    expect(bootHost.asked.at(-1)).toMatchObject({
      identity: { machine: 'cp1', address: '127.0.0.1' },
      facts: { seenRevision: Number(shown.split('.')[0]) },
    });
    const digest = head!.split(' ')[2]!;
    const again = await bootHost.poll(key, certificate, { applied: digest });
    expect([again.status, again.body.length]).toEqual([204, 0]);
    expect(again.headers).toContain('retry-after: 7\r\n');
  });

  it('a revision that is later than the store’s is reported to the planner if this boot host sent it to that machine', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    const claims = await bootHost.claims();
    const answer = await bootHost.poll(key, certificate, { revision: claims.of('cp1', 999_999) });
    expect(bootHost.asked.at(-1)?.facts.seenRevision).toBe(999_999);
    // The revision that is sent to a machine never decreases.
    expect(answer.text).toContain(`muster-revision: ${claims.of('cp1', 999_999)}\r\n`);
  });

  it('a revision that a machine invents, changes or has from another machine is nothing that the planner hears of', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    const claims = await bootHost.claims();
    for (const revision of [
      '999999999999999',
      `999999999999999.${'A'.repeat(43)}`,
      claims.of('cp1', 5).replace('5.', '6.'),
      claims.of('w1', 999_999),
      createRevisionClaims(Buffer.alloc(32, 1)).of('cp1', 999_999),
    ]) {
      const answer = await bootHost.poll(key, certificate, { revision });
      expect(answer.status).toBe(200);
      expect(bootHost.asked.at(-1)?.facts.seenRevision).toBeUndefined();
      const sent = Number(/muster-revision: (\d+)/i.exec(answer.text)![1]);
      expect(sent).toBeLessThan(999_999);
    }
  });

  it('the configuration of its boot is what a machine, and no other one, gets again over TLS, also when the session is over', async () => {
    bootHost = await open();
    const { key, certificate, ticket } = await joined();
    const other = await joined(CP2_MAC, 'b');
    const served = bootHost.boot.config(ticket.session, 'user-data', AT);
    const ask = async (by: { key: string; certificate: string }, session: string, url = URL_OF_A_FILE) => {
      const file = path.join(bootHost.directory, 'asks.crt');
      fs.writeFileSync(file, by.certificate);
      const identity = ['--cert', file, '--key', by.key];
      return bootHost.curl('/agent/configuration', { session, url }, identity);
    };
    await bootHost.boot.report(ticket.session, { step: 'ready' }, '10.77.0.101');
    const answer = await ask({ key, certificate }, ticket.session);
    expect(answer.status).toBe(200);
    const unpack = (name: string): string =>
      execFileSync('tar', ['-xOf', '-', name], { input: answer.body, encoding: 'utf8' });
    expect(served.ok && unpack('user-data')).toBe(served.ok && served.body);
    expect(unpack('meta-data')).toContain('cp1');

    expect((await ask(other, ticket.session)).status).toBe(404);
    expect((await ask({ key, certificate }, 'never')).status).toBe(404);
    expect((await ask({ key, certificate }, ticket.session, 'file:///etc/passwd')).status).toBe(400);
    const form = { session: ticket.session, url: URL_OF_A_FILE };
    expect((await bootHost.curl('/agent/configuration', form)).status).toBe(401);
  });

  it('a poll is refused without a certificate, with one of another CA, and with one of an earlier boot', async () => {
    bootHost = await open();
    const first = await joined();
    expect((await bootHost.curl('/agent/poll', { agent: '1' })).status).toBe(401);
    const own = bootHost.key('own');
    const forged = execFileSync(
      'openssl',
      ['req', '-x509', '-key', own.key, '-subj', '/O=muster:agents/CN=cp1', '-days', '9'],
      { encoding: 'utf8' },
    );
    expect((await bootHost.poll(own.key, forged)).status).toBe(401);
    const second = await joined(CP1_MAC, 'b');
    expect((await bootHost.poll(first.key, first.certificate)).status).toBe(401);
    expect((await bootHost.poll(second.key, second.certificate)).status).toBe(200);
    await bootHost.catalog.delete('Cluster', 'one');
    await bootHost.catalog.delete('Machine', 'cp1');
    expect((await bootHost.poll(second.key, second.certificate)).status).toBe(401);
    expect(reasons('cp1', 'agent.refused')).toEqual(['not_current', 'machine_gone'].slice(1));
  });

  it('a poll with a certificate of a distrusted generation is not answered', async () => {
    bootHost = await open();
    const { newGeneration } = await import('../../src/pki/issue.ts');
    const { addTrusted, distrust, promote } = await import('../../src/pki/keyset.ts');
    const { key, certificate } = await joined();
    const made = await newGeneration('transport-ca', { now: bootHost.clock.now() });
    const next = await bootHost.pki.take('_muster', 'transport-ca', made);
    const before = (await bootHost.pki.keysets('_muster')).get('transport-ca')!.primary;
    for (const step of [addTrusted, promote] as const)
      await bootHost.pki.change('_muster', 'transport-ca', (keyset) =>
        step === promote ? promote(keyset, next.id) : addTrusted(keyset, next),
      );
    bootHost.clock.advance(duration('2h'));
    await bootHost.agents.refresh();
    const trusting = await bootHost.poll(key, certificate).catch((error: Error) => error.message);
    // This curl trusts only the old generation; the listener's certificate is of the new one.
    expect(trusting).toMatch(/curl: \(60\)/);
    await bootHost.pki.change('_muster', 'transport-ca', (keyset) => distrust(keyset, before));
    bootHost.clock.advance(duration('2h'));
    await bootHost.agents.refresh();
    const answer = await bootHost.curl('/agent/poll', { agent: '1' }, [
      '-k',
      '--cert',
      certificateFile(certificate),
      '--key',
      key,
    ]);
    expect(answer.status).toBe(401);
  });

  it('a poll renews the certificate for the same key in good time; both are valid until the machine uses the new one', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    bootHost.plan = { lines: [{ do: 'hold', code: 'later', text: 'wait' }], pollSeconds: 5 };
    const plan = async (pem: string) => {
      const answer = await bootHost.poll(key, pem);
      expect(answer.status).toBe(200);
      const lines = execFileSync('tar', ['-xOf', '-', 'plan'], {
        input: answer.body,
        encoding: 'utf8',
      }).split('\n');
      const put = lines.find((line) => line.startsWith('put '));
      const file = put && `files/${put.split(' ')[2]}`;
      const next = file && execFileSync('tar', ['-xOf', '-', file], { input: answer.body, encoding: 'utf8' });
      return { put, next };
    };
    expect((await plan(certificate)).put).toBeUndefined();
    // Renewals are spread over a twelfth of the life, the 2.5 days before its half.
    bootHost.clock.leap(duration('12d'));
    expect((await plan(certificate)).put).toBeUndefined();
    bootHost.clock.leap(duration('4d'));
    const { put, next } = await plan(certificate);
    expect(put).toMatch(/^put 0?600 [0-9a-f]{64} \/var\/lib\/muster\/agent\/agent\.crt$/);
    expect(new X509Certificate(next!).serialNumber).not.toBe(new X509Certificate(certificate).serialNumber);
    // After a lost answer the machine gets the same certificate again.
    expect((await plan(certificate)).next).toBe(next);
    expect((await plan(next!)).put).toBeUndefined();
    expect((await bootHost.poll(key, certificate)).status).toBe(401);
    const agents = (await bootHost.pki.issued('_muster')).filter(({ leaf }) => leaf === 'agent');
    expect(agents).toHaveLength(2);
  });

  it('the machine’s status shows the step and the hold that its agent reported in a poll', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    await bootHost.poll(key, certificate, {
      step: 'files',
      hold: 'mtu',
      holdtext: 'cp2 is not reached with 1500 octets',
    });
    await bootHost.poll(key, certificate, {
      step: 'files',
      hold: 'mtu',
      holdtext: 'cp2 is not reached with 1500 octets',
    });
    expect(bootHost.roster.get('cp1')?.status.agent).toMatchObject({
      step: 'files',
      hold: { code: 'mtu', text: 'cp2 is not reached with 1500 octets' },
      bootId: 'boot-1',
    });
    expect(reasons('cp1', 'agent.held')).toEqual(['mtu']);
    const { steps } = bootHost.boot.explain({ machine: 'cp1' });
    expect(steps.find(({ step }) => step === 'agent')).toMatchObject({ reason: { code: 'mtu' } });
    await bootHost.poll(key, certificate, { step: 'done' });
    expect(bootHost.roster.get('cp1')?.status.agent?.hold).toBeUndefined();
  });

  it('a unit that fails again and again is recorded once, with its last output in the status', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    for (const at of ['12:00:05', '12:00:18', '12:00:31'])
      await bootHost.poll(key, certificate, {
        hold: 'unit-failed',
        holdtext: `${at} [${at.slice(6)}42] no disk`,
      });
    expect(reasons('cp1', 'agent.held')).toEqual(['unit-failed']);
    expect(bootHost.roster.get('cp1')?.status.agent?.hold?.text).toBe('12:00:31 [3142] no disk');
    await bootHost.poll(key, certificate, { hold: 'unit-failed', holdtext: '12:00:44 [4442] no memory' });
    expect(reasons('cp1', 'agent.held')).toEqual(['unit-failed', 'unit-failed']);
  });

  it('the machine’s status shows the state of its boot disk, and every change is recorded', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    await bootHost.poll(key, certificate, {});
    const shown = () => {
      const { steps } = bootHost.boot.explain({ machine: 'cp1' });
      return steps.find(({ step }) => step === 'boot disk');
    };
    expect(shown()).toBeUndefined();
    const kept = { bootdisk: 'kept', boottext: '/dev/vda holds what this boot used' };
    for (const said of [{ bootdisk: 'none', boottext: 'no disk fits serial=B' }, kept, kept])
      await bootHost.poll(key, certificate, said);
    expect(reasons('cp1', 'agent.boot-disk')).toEqual(['none', 'kept']);
    expect(shown()).toEqual({
      step: 'boot disk',
      result: 'kept',
      reason: { code: 'kept', text: '/dev/vda holds what this boot used' },
    });
  });

  it('a poll from a boot that had ended raises an alarm, because two systems use one certificate', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    for (const bootid of ['x', 'y']) await bootHost.poll(key, certificate, { bootid });
    expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
    await bootHost.poll(key, certificate, { bootid: 'x' });
    expect(bootHost.roster.get('cp1')?.status.alarm?.code).toBe('copied');
  });

  it('a poll is answered with 503 while the planner is not ready, and with 400 when its facts are invalid', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    expect((await bootHost.poll(key, certificate, { wal: 'perhaps' })).status).toBe(400);
    bootHost.plan = undefined as never;
    expect((await bootHost.poll(key, certificate)).status).toBe(503);
  });
});

function certificateFile(text: string): string {
  const file = `${bootHost.directory}/certificate.crt`;
  execFileSync('tee', [file], { input: text });
  return file;
}

describe('a machine that runs', () => {
  it('a running machine gets no new session, so others who ask in its name get nothing; once it is silent it may boot', async () => {
    bootHost = await open();
    const { key, certificate, ticket } = await joined();
    await bootHost.poll(key, certificate);
    await bootHost.boot.report(ticket.session, { step: 'ready' }, '10.77.0.101');
    const sessions = bootHost.roster.sessions.size;
    const forged = await bootHost.powerOn(CP1_MAC);
    expect(forged.decision).toMatchObject({ kind: 'hold', reason: { code: 'alive' } });
    expect(forged.session?.machine).not.toBe('cp1');
    expect(bootHost.roster.sessions.current('cp1')?.session.id).toBe(ticket.session);
    expect(bootHost.roster.sessions.opening('cp1')).toBeUndefined();
    expect(bootHost.roster.get('cp1')?.status).toMatchObject({ phase: 'ready' });
    expect(bootHost.roster.sessions.size).toBeGreaterThan(sessions);
    expect(bootHost.boot.explain({ machine: 'cp1' }).decision.reason.code).toBe('alive');
    bootHost.clock.advance(ALIVE_WITHIN);
    expect((await bootHost.powerOn(CP1_MAC)).decision.kind).toBe('script');
  });

  it('a running machine keeps its certificate when somebody uses a ticket from before its first poll', async () => {
    bootHost = await open();
    const { key, certificate } = await joined();
    const stolen = await bootHost.configured(CP1_MAC);
    await bootHost.poll(key, certificate);
    expect((await bootHost.redeem(stolen, bootHost.key('b').csr)).status).toBe(409);
    expect(bootHost.roster.get('cp1')?.status.alarm?.code).toBe('alive');
    expect((await bootHost.poll(key, certificate)).status).toBe(200);
  });

  it('after a restart of the server a machine counts as running until it has had time to poll', async () => {
    bootHost = await open();
    const { ticket } = await joined();
    await bootHost.boot.report(ticket.session, { step: 'ready' }, '10.77.0.101');
    bootHost = await bootHost.again();
    expect((await bootHost.powerOn(CP1_MAC)).decision).toMatchObject({
      kind: 'hold',
      reason: { code: 'alive' },
    });
    bootHost.clock.advance(ALIVE_WITHIN);
    expect((await bootHost.powerOn(CP1_MAC)).decision.kind).toBe('script');
  });
});
