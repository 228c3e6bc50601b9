/**
 * A machine in the discovery system over real HTTP, with the client that the image has (busybox),
 * and what others on the segment get with its session, which plain HTTP shows them.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { InventoryList } from '../../src/api/operations/inventory.ts';
import type { Mac } from '../../src/base/mac.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import { MAX_INVENTORY_OCTETS } from '../../src/machines/inventory.ts';
import { HTTP, scriptOf, sessionIn, takeLease, takeOver } from './machine.ts';
import { BEHIND, MACHINES, network, type Place, Rig } from './rig.ts';

const STRANGER = '52:54:00:bb:00:01' as Mac;
const NAME = 'm-525400bb0001';
const DISCOVERY = network(
  '{mode: server, probe: off, pools: [{start: 10.77.0.100, end: 10.77.0.199}]}',
  '  discovery: {image: small}\n',
);
const LINES = 'cpu threads 4\ndisk NAME="sda" SIZE="480103981056" ROTA="0" TRAN="sata" SERIAL="S1"\n';

describe('a machine in the discovery system', () => {
  const directory = mkdtempSync(join(tmpdir(), 'muster-discovery-'));
  const file = join(directory, 'inventory');
  let rig: Rig;
  let session: string;
  beforeAll(async () => {
    writeFileSync(file, LINES);
    rig = await Rig.open(DISCOVERY + BEHIND + MACHINES);
    await takeLease(rig, 'vic', STRANGER);
    const { body } = await scriptOf(rig, 'vic', STRANGER);
    expect(body).toMatch(/^kernel /m);
    session = sessionIn(body)!;
  });
  afterAll(async () => {
    rmSync(directory, { recursive: true });
    await rig.close();
  });

  const wget = async (route: string, ...more: string[]) => {
    const words = ['busybox', 'wget', '-q', '-O', '-', ...more, `${HTTP}/boot/${session}/${route}`];
    return (await rig.in('vic', words)).output.trim();
  };
  const post = async (place: Place, data: string) =>
    (await rig.http(place, `${HTTP}/boot/${session}/inventory`, '--data-binary', data)).status;
  const inventories = async () => (await rig.muster.get<InventoryList>('/v1/inventory')).items;

  it('nobody else reports for it, and its session opens nothing, to anybody', async () => {
    // The perimeter does not let `rem` connect.
    for (const [place, status] of [
      ['atk', 409],
      ['rem', 0],
      ['rel', 409],
    ] as const)
      expect([place, await post(place, LINES)]).toEqual([place, status]);
    expect(await inventories()).toEqual([]);
    for (const place of ['vic', 'atk'] as const) {
      const haul = await takeOver(rig, place, STRANGER, { session });
      expect(Object.keys(haul)).toEqual(place === 'vic' ? ['script'] : []);
      for (const step of ['kernel', 'ready', 'failed']) {
        const url = `${HTTP}/boot/${session}/report`;
        expect((await rig.http(place, url, '--data', `step=${step}`)).status).toBe(409);
      }
    }
  });

  it('a report of more than 32 KiB is refused, and so is one that says nothing', async () => {
    writeFileSync(`${file}.large`, 'x'.repeat(MAX_INVENTORY_OCTETS + 1));
    expect(await post('vic', `@${file}.large`)).toBe(413);
    expect(await post('vic', 'nothing')).toBe(400);
  });

  it('it reports, waits, and reboots once it is accepted', async () => {
    expect(await wget('wait')).toBe(`report ${NAME}`);
    expect(await wget('inventory', '--post-file', file)).toBe('kept');
    expect(await wget('wait')).toBe(`wait ${NAME}`);
    expect(await inventories()).toMatchObject([
      { machine: NAME, from: 'discovery', disks: [{ serial: 'S1' }] },
    ]);
    await connectApi(rig.muster.socket).call('POST', `/v1/machines/${NAME}/accept`, {
      body: { json: { name: 'node-7', profile: 'node' } },
    });
    expect(await wget('wait')).toMatch(/^reboot /);
    expect(await inventories()).toMatchObject([{ machine: 'node-7', from: 'discovery' }]);
    expect((await scriptOf(rig, 'vic', STRANGER)).body).toContain('node-7 boots small as node');
    expect(await post('vic', LINES)).toBe(409);
  });
});
