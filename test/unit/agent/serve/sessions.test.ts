/** TLS sessions of the agents' listener, on loopback. */
import tls from 'node:tls';
import { afterEach, expect, test } from 'vitest';
import { type AgentServer, startAgentServer } from '../../../../src/agent/serve/agent.server.ts';
import type { AgentApi } from '../../../../src/agent/serve/agent-api.ts';
import { systemClock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { openSecrets } from '../../../../src/pki/secrets.ts';
import { type ServerCertificate, serverCertificate } from '../../../../src/pki/server-certificate.ts';
import { newVaultKey, vaultFrom } from '../../../../src/pki/vault.ts';
import { world } from '../../pki/kit.ts';
import { NOBODY } from '../nobody.ts';

const LOOPBACK = '127.0.0.1';

let server: AgentServer;
afterEach(() => server.close());

/** Makes a request; resolves to the session that the client could resume, and whether it has. */
function connect(
  { authority: ca }: ServerCertificate,
  version: tls.SecureVersion,
  session?: Buffer,
): Promise<{ readonly session: Buffer | undefined; readonly resumed: boolean }> {
  return new Promise((resolve, reject) => {
    const versions = { minVersion: version, maxVersion: version };
    const socket = tls.connect({ host: LOOPBACK, port: server.port, ca, session, ...versions });
    let given: Buffer | undefined;
    let resumed = false;
    socket.on('session', (one: Buffer) => {
      given = one;
    });
    socket.on('error', reject);
    socket.on('secureConnect', () => {
      resumed = socket.isSessionReused();
      socket.write('GET /agent/poll HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    });
    socket.on('data', () => {});
    socket.on('close', () => resolve({ session: given, resumed }));
  });
}

test.for(['TLSv1.2', 'TLSv1.3'] as const)(
  'a session of %s is not resumed, neither before nor after the listener got another certificate',
  async (version) => {
    const { pki, store, clock } = await world();
    const secrets = openSecrets({ store, vault: vaultFrom(newVaultKey(), 'test') });
    const certificate = await serverCertificate({ pki, secrets, clock }, [LOOPBACK]);
    server = await startAgentServer({
      ...NOBODY,
      listen: { host: LOOPBACK, port: 0 },
      certificate,
      api: {} as AgentApi,
      log: silentLog,
      clock: systemClock,
      metrics: createMetrics(),
    });
    const resumes = async (): Promise<boolean> => {
      const { session } = await connect(certificate, version);
      return session !== undefined && (await connect(certificate, version, session)).resumed;
    };
    expect(await resumes()).toBe(false);
    server.renew(await serverCertificate({ pki, secrets, clock }, [LOOPBACK, '10.9.9.9']));
    expect(await resumes()).toBe(false);
  },
);
