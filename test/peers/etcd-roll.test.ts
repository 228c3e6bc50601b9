/**
 * A new image reaches the members of etcd one after the other: with the shipped boot host, the real
 * agent, real etcd, and a client that writes all the time. Rebooting a machine ends its namespaces,
 * and it boots from the network again. See
 * src/cluster/change/README.md.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ChangeView } from '../../src/api/operations/changes.ts';
import { callApi } from './etcd/api.ts';
import { openRack, pause, type Rack, until } from './etcd/rack.ts';

/** Uploads a root image, whose octets no namespace boots, and returns its Image document. */
async function uploaded(rack: Rack, name: string, kernel: string): Promise<string> {
  const content = `the root image of ${name}\n`;
  const root = createHash('sha256').update(content).digest('hex');
  const put = await callApi(rack.host.socket, 'PUT', `/v1/assets/${root}`, content);
  expect(put.status).toBeLessThan(300);
  return `---
apiVersion: muster/v1
kind: Image
metadata: {name: ${name}}
spec:
  os: flatcar
  arch: x86_64
  kernel: {sha256: ${kernel}, name: vmlinuz}
  root: {sha256: ${root}, name: root.squashfs}
  configFormat: ignition
`;
}

/** Edits the file as an operator would. */
function edit(rack: Rack, change: (text: string) => string): void {
  const file = join(rack.host.home, 'config/all.yaml');
  fs.writeFileSync(`${file}.new`, change(fs.readFileSync(file, 'utf8')));
  fs.renameSync(`${file}.new`, file);
}

/** Powers machines on that have shut down, until it is stopped; `order` names them. */
function poweredOnAgain(rack: Rack): { readonly order: string[]; stop(): Promise<void> } {
  const order: string[] = [];
  let on = true;
  const loop = (async () => {
    while (on) {
      for (const machine of rack.all)
        if (machine.isShutDown) {
          order.push(machine.name);
          // Two members that are down at the same time would be without quorum.
          expect(rack.all.filter(({ isShutDown }) => isShutDown)).toHaveLength(1);
          await machine.reboot();
        }
      await pause();
    }
  })();
  return {
    order,
    async stop() {
      on = false;
      await loop;
    },
  };
}

const rollOf = async (rack: Rack): Promise<ChangeView> =>
  JSON.parse((await callApi(rack.host.socket, 'GET', '/v1/clusters/one/change')).text) as ChangeView;

test('a new image reaches one member of etcd after the other, and no write is lost', {
  timeout: 1_200_000,
}, async () => {
  const rack = await openRack({ kernels: true });
  const again = poweredOnAgain(rack);
  try {
    const kernel = createHash('sha256').update('a kernel\n').digest('hex');
    const images = `${await uploaded(rack, 'os-1', kernel)}${await uploaded(rack, 'os-2', kernel)}`;
    edit(rack, (text) => `${text.replace('image: os,', 'image: os-1,')}${images}`);
    await until('the images are known', async () =>
      (await rack.muster('get', 'images')).output.includes('os-2'),
    );
    await Promise.all(rack.all.map((machine) => machine.powerOn()));
    await rack.healthy();
    const order = ['cluster', 'roll', 'one', '--outdated'];
    const early = await rack.muster(...order);
    expect(early).toMatchObject({ code: 1, output: expect.stringContaining('every machine runs the image') });
    rack.writer.start();
    edit(rack, (text) => text.replace('image: os-1,', 'image: os-2,'));
    await until('both images are shown', async () => {
      const { output } = await rack.muster('get', 'machines', '-o', 'wide');
      return output.split('os-1 → os-2').length === rack.all.length + 1;
    });
    const begun = await rack.muster(...order);
    expect(begun).toMatchObject({ code: 0 });
    const done = await until(
      'the roll has ended',
      async () => {
        const view = await rollOf(rack);
        return view.ended && view;
      },
      async () => `${JSON.stringify(await rollOf(rack), undefined, 1)}${await rack.state()}`,
      600,
    );
    expect(done.ended).toMatchObject({ as: 'done' });
    expect(again.order).toEqual(['m1', 'm2', 'm3']);
    const { output } = await rack.muster('cluster', 'running', 'one', '-o', 'wide');
    expect(output.split('os-2').length).toBe(rack.all.length + 1);
    await rack.healthy();
    await rack.nothingLost();
  } finally {
    await again.stop();
    await rack.close();
  }
});
