/** The listener for agents: its certificate and protocols, its limits, and its answers to noise. */

import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startAgentServer } from '../../src/agent/serve/agent.server.ts';
import { type AgentApi, MAX_FORM_OCTETS } from '../../src/agent/serve/agent-api.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { Millis } from '../../src/base/duration.ts';
import { silentLog } from '../../src/base/log.ts';
import { openSecrets } from '../../src/pki/secrets.ts';
import { type ServerCertificate, serverCertificate } from '../../src/pki/server-certificate.ts';
import { newVaultKey, vaultFrom } from '../../src/pki/vault.ts';
import { NOBODY } from '../unit/agent/nobody.ts';
import * as pki from '../unit/pki/kit.ts';
import { type AgentBootHost, CP1_MAC, LOOPBACK, open } from './agent-boot-host.ts';

let bootHost: AgentBootHost;
beforeAll(async () => {
  bootHost = await open();
});
afterAll(() => bootHost.close());

const ca = () => path.join(bootHost.directory, 'ca.crt');
const s_client = (...more: string[]): Promise<string> =>
  new Promise((resolve) => {
    const where = ['s_client', '-connect', `${LOOPBACK}:${bootHost.agents.port()}`, '-CAfile', ca(), ...more];
    const child = execFile('openssl', where, { timeout: 20_000 }, (_error, out, err) => resolve(out + err));
    child.stdin!.end();
  });

describe('the listener for agents', () => {
  it('the listener has a certificate that openssl verifies for its addresses and no others', async () => {
    const text = await s_client('-verify_return_error', '-verify_ip', '10.77.0.1');
    expect(text).toContain('Verify return code: 0 (ok)');
    expect(text).toContain('Acceptable client certificate CA names');
    expect(text).toContain('CN = muster-transport');
    expect(await s_client('-verify_return_error', '-verify_ip', '10.77.0.2')).toContain(
      'IP address mismatch',
    );
    expect(await s_client('-verify_return_error', '-verify_hostname', 'muster')).toContain(
      'Verify return code: 0',
    );
  });

  it('the listener accepts TLS 1.3 and 1.2 and nothing older, and resumes no session', async () => {
    expect(await s_client('-tls1_3')).toContain('TLSv1.3');
    const older = await s_client('-tls1_2');
    expect(older).toContain('Protocol  : TLSv1.2');
    expect(older).not.toContain('TLS session ticket:');
    expect(await s_client('-tls1_1', '-cipher', 'ALL:@SECLEVEL=0')).toContain(
      'no peer certificate available',
    );
  });

  it('the listener answers paths that it does not serve with an error code', async () => {
    expect((await bootHost.curl('/agent/other', { a: '1' })).status).toBe(404);
    expect((await bootHost.curl('/agent/poll', {})).status).toBe(405);
    const large = path.join(bootHost.directory, 'large');
    fs.writeFileSync(large, `ticket=${'x'.repeat(MAX_FORM_OCTETS)}`);
    for (const expects of [
      ['-H', 'Expect:'],
      ['-H', 'Expect: 100-continue'],
    ]) {
      const answer = await bootHost.curl('/agent/redeem', {}, ['--data-binary', `@${large}`, ...expects]);
      expect(answer.status).toBe(413);
      expect(String(answer.body)).toContain('E_TOO_LARGE');
    }
    fs.writeFileSync(large, `ticket=${'x'.repeat(MAX_FORM_OCTETS * 12)}`);
    const chunked = ['-H', 'Transfer-Encoding: chunked', '-H', 'Expect:'];
    const answer = await bootHost.curl('/agent/redeem', {}, ['--data-binary', `@${large}`, ...chunked]);
    expect(answer.status).toBe(413);
    for (const form of [{}, { session: 'x' }, { session: 'x', ticket: 'y' }])
      expect((await bootHost.curl('/agent/redeem', { agent: '1', ...form })).status).toBe(400);
  });

  it('keeps connections for machines while strangers hold all others', async () => {
    const { pki: keys, store, clock } = await pki.world();
    const secrets = openSecrets({ store, vault: vaultFrom(newVaultKey(), 'test') });
    const certificate = await serverCertificate({ pki: keys, secrets, clock }, [LOOPBACK]);
    const server = await startAgentServer({
      ...NOBODY,
      listen: { host: '0.0.0.0', port: 0 },
      certificate,
      api: {} as AgentApi,
      log: silentLog,
      clock: systemClock,
      metrics: bootHost.metrics,
      limits: { connections: 6, reserved: 2 },
      standing: (address) => (address === '127.0.0.9' ? 'machine' : 'stranger'),
    });
    const open: net.Socket[] = [];
    /** Whether a connection from this address is kept. */
    const connects = (localAddress: string): Promise<boolean> =>
      new Promise((resolve) => {
        const socket = net.connect({ host: LOOPBACK, port: server.port, localAddress });
        open.push(socket);
        socket.once('error', () => {});
        socket.once('close', () => resolve(false));
        // A connection that is kept gets an answer to the first octets of TLS.
        tls
          .connect({ socket, host: LOOPBACK, ca: certificate.authority }, () => resolve(true))
          .once('error', () => {});
      });
    try {
      const strangers = [2, 3, 4, 5, 6].map((n) => connects(`127.0.0.${n}`));
      expect((await Promise.all(strangers)).filter((kept) => kept)).toHaveLength(4);
      expect(await connects('127.0.0.9')).toBe(true);
      expect(await connects('127.0.0.7')).toBe(false);
    } finally {
      for (const socket of open) socket.destroy();
      await server.close();
    }
  });

  it('the listener takes another certificate while it runs, and open connections stay', async () => {
    const { pki: keys, store, clock } = await pki.world();
    const secrets = openSecrets({ store, vault: vaultFrom(newVaultKey(), 'test') });
    const make = (...addresses: string[]): Promise<ServerCertificate> =>
      serverCertificate({ pki: keys, secrets, clock }, addresses);
    const certificate = await make(LOOPBACK);
    expect((await make(LOOPBACK)).certificate).toBe(certificate.certificate);
    // Interfaces may appear late after a restart; that must not cause another certificate.
    expect((await make()).certificate).toBe(certificate.certificate);
    const server = await startAgentServer({
      ...NOBODY,
      listen: { host: LOOPBACK, port: 0 },
      certificate,
      api: {
        redeem: async () => ({ status: 200, headers: {} }),
        poll: async () => ({ status: 204, headers: {} }),
        leave: async () => ({ status: 204, headers: {} }),
        console: async () => ({ status: 204, headers: {} }),
        configuration: async () => ({ status: 200, headers: {} }),
        snapshotPart: async () => ({ status: 200, headers: {} }),
        snapshotEnd: async () => ({ status: 204, headers: {} }),
        snapshotGet: async () => ({ status: 200, headers: {} }),
        bundle: async () => ({ status: 200, headers: {} }),
        dataKey: async () => ({ status: 200, headers: {} }),
      },
      log: silentLog,
      clock: systemClock,
      metrics: bootHost.metrics,
    });
    const connect = (): Promise<tls.TLSSocket> =>
      new Promise((resolve, reject) => {
        const socket: tls.TLSSocket = tls.connect(
          { host: LOOPBACK, port: server.port, ca: certificate.authority },
          () => resolve(socket),
        );
        socket.once('error', reject);
      });
    const before = await connect();
    const next = await make(LOOPBACK, '10.9.9.9');
    expect(next.certificate).not.toBe(certificate.certificate);
    server.renew(next);
    const after = await connect();
    expect(after.getPeerCertificate().subjectaltname).toContain('10.9.9.9');
    const answered = new Promise<string>((resolve) =>
      before.once('data', (octets) => resolve(String(octets))),
    );
    before.write('POST /agent/poll HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n');
    expect(await answered).toMatch(/^HTTP\/1.1 204/);
    clock.advance((300 * 24 * 3_600_000) as Millis);
    const late = await make(LOOPBACK, '10.9.9.9');
    expect(late.certificate).not.toBe(next.certificate);
    before.destroy();
    after.destroy();
    await server.close();
  });

  it('the listener survives input that is no TLS, no HTTP or no form', async () => {
    const raw = net.connect({ host: LOOPBACK, port: bootHost.agents.port()! });
    raw.on('error', () => {});
    const closed = new Promise((resolve) => raw.once('close', resolve));
    raw.write('GET / HTTP/1.1\r\n\r\n');
    await closed;
    const odd = tls.connect({ host: LOOPBACK, port: bootHost.agents.port()!, ca: fs.readFileSync(ca()) });
    odd.on('error', () => {});
    const cut = new Promise((resolve) => odd.once('close', resolve));
    odd.once('secureConnect', () => odd.write('\0\0\0\r\n\r\n'));
    await cut;
    expect(await s_client()).toContain('Verify return code: 0 (ok)');
    await vi.waitFor(async () =>
      expect(await bootHost.metrics.text()).toContain(
        'muster_agent_requests_total{route="handshake",status="0"}',
      ),
    );
  });
});

describe('forms', () => {
  it('a redeem form that is changed anywhere gives nobody a certificate and raises no alarm', async () => {
    const ticket = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('fuzz');
    const good = { session: ticket.session, ticket: ticket.ticket, csr };
    const body = Object.entries(good)
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join('&');
    const agent = tls.connect({ host: LOOPBACK, port: bootHost.agents.port()!, ca: fs.readFileSync(ca()) });
    await new Promise((resolve) => agent.once('secureConnect', resolve));
    let text = '';
    let wake = () => {};
    agent.on('data', (octets) => {
      text += octets;
      wake();
    });
    const post = async (form: Buffer): Promise<number> => {
      text = '';
      agent.write(`POST /agent/redeem HTTP/1.1\r\nhost: x\r\ncontent-length: ${form.length}\r\n\r\n`);
      agent.write(form);
      for (;;) {
        const head = /^HTTP\/1.1 (\d+)[\s\S]*?content-length: (\d+)\r\n[\s\S]*?\r\n\r\n/i.exec(text);
        if (head && text.length >= head[0].length + Number(head[2])) return Number(head[1]);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    };
    const seen = new Set<number>();
    await fc.assert(
      fc.asyncProperty(fc.nat(body.length - 1), fc.nat(255), fc.nat(4), async (at, octet, how) => {
        const octets = Buffer.from(body, 'latin1');
        const changed =
          how === 0
            ? octets.subarray(0, at)
            : how === 1
              ? Buffer.concat([octets.subarray(0, at), Buffer.from([octet]), octets.subarray(at)])
              : Buffer.from(octets);
        if (how > 1) changed[at] = octet;
        if (changed.equals(octets)) return;
        const status = await post(changed);
        seen.add(status);
        // A change outside of the signed part (line breaks, text around the request) keeps the key,
        // so it is still the machine's own request.
        if (status === 200) expect(bootHost.agents.identities.get('cp1')).toBeDefined();
        else expect([400, 403]).toContain(status);
      }),
      { numRuns: 400, seed: 11 },
    );
    expect(seen).toContain(403);
    expect(seen).toContain(400);
    const agents = (await bootHost.pki.issued('_muster')).filter(({ leaf }) => leaf === 'agent');
    expect(new Set(agents.map(({ publicKey }) => publicKey)).size).toBeLessThanOrEqual(1);
    expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
    // And the machine itself still gets its own.
    expect(await post(Buffer.from(body))).toBe(200);
    agent.destroy();
  });
});

it('openssl verifies the certificate that a machine gets as a client certificate of Muster’s CA', async () => {
  const ticket = await bootHost.configured(CP1_MAC);
  bootHost.clock.advance(60_000 as Millis);
  await bootHost.agents.rearm('cp1', { keep: false });
  const { csr } = bootHost.key('judge');
  const { body } = await bootHost.redeem(ticket, csr);
  const file = path.join(bootHost.directory, 'judge.crt');
  fs.writeFileSync(file, body);
  const at = String(Math.floor(bootHost.clock.now() / 1000));
  const verdict = execFileSync(
    'openssl',
    ['verify', '-x509_strict', '-purpose', 'sslclient', '-attime', at, '-CAfile', ca(), file],
    { encoding: 'utf8' },
  );
  expect(verdict).toContain('OK');
});
