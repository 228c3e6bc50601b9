/** What the boot host says of an API server or an etcd that does not answer. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { rootCertificates } from 'node:tls';
import { expect, test } from 'vitest';
import { ask } from '../../../src/cluster/https.socket.ts';

test('one that is silent is said to be, with how long it was waited for', async () => {
  const server = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const credentials = { ca: rootCertificates[0]!, cert: '', key: '' };
  const asked = (patience: number, signal?: AbortSignal) =>
    ask(`https://127.0.0.1:${port}/`, credentials, { method: 'GET', patience, limit: 1000, signal });
  await expect(asked(50)).rejects.toThrow('no whole answer within 0.05 s');
  // A caller that aborts the request itself gets its own error, not the one about lateness.
  await expect(asked(60_000, AbortSignal.timeout(50))).rejects.toThrow('The operation was aborted');
  server.close();
});
