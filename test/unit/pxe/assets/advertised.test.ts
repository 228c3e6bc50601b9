/** Every file that DHCP can name is one that TFTP and HTTP serve. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { createMetrics } from '../../../../src/base/metrics.ts';
import { nodeDatagrams } from '../../../../src/base/node-datagrams.socket.ts';
import { type Assets, openAssets } from '../../../../src/pxe/assets/assets.files.ts';
import { ARCHITECTURES } from '../../../../src/pxe/firmware/architectures.ts';
import { loaderFor, loaderNames } from '../../../../src/pxe/firmware/loaders.ts';
import { machinePath } from '../../../../src/pxe/http/routes.ts';
import { encodeRead } from '../../../../src/pxe/tftp/codec.ts';
import { startTftp } from '../../../../src/pxe/tftp/tftp.socket.ts';
import { ask, type Rig, rig } from '../http/rig.ts';

const NAMES = loaderNames();

describe('every loader in the table', () => {
  let root: string;
  let assets: Assets;
  let http: Rig;
  let tftpPort: number;
  const stopping = new AbortController();
  beforeAll(async () => {
    root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-loaders-'));
    for (const name of NAMES) fs.writeFileSync(path.join(root, name), `this is ${name}`);
    const state = path.join(root, 'state');
    assets = await openAssets({ directory: state, loaderDirectories: [root], log: silentLog });
    http = await rig({ assets });
    const tftp = await startTftp({
      datagrams: { datagrams: nodeDatagrams, kernel: undefined },
      sockets: [{ address: '127.0.0.1', port: 0 }],
      assets,
      networks: () => [],
      subjectOf: () => undefined,
      admits: () => true,
      events: { record() {} },
      metrics: createMetrics(),
      log: silentLog,
      clock: systemClock,
      signal: stopping.signal,
    });
    tftpPort = tftp.addresses[0]!.port;
  });
  afterAll(async () => {
    stopping.abort();
    await http.close();
    fs.rmSync(root, { recursive: true });
  });

  it.each(NAMES)('%s is found, by TFTP and by HTTP', async (name) => {
    expect(assets.loaders()).toContain(name);
    const answer = await ask(http.port, 'GET', machinePath('loader', { name }));
    expect([answer.status, answer.body.toString()]).toEqual([200, `this is ${name}`]);
    const socket = createSocket('udp4');
    socket.send(encodeRead(name), tftpPort, '127.0.0.1');
    const [packet] = (await once(socket, 'message')) as [Buffer];
    expect(packet.toString('latin1')).toBe(`\0\x03\0\x01this is ${name}`);
    socket.close();
  });

  it('is what the decision names, whatever the architecture says', () => {
    for (const { code } of ARCHITECTURES.filter(({ loaders }) => loaders !== undefined))
      for (const fromIpxe of [false, true]) {
        const found = loaderFor(code, { installed: (name) => assets.loader(name) !== undefined, fromIpxe });
        expect(found.ok && assets.loader(found.loader)).toBeTruthy();
      }
  });
});
