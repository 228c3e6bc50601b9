/**
 * Askers from other subnets and from interfaces that are not served get nothing, and no machine on
 * the segment can pretend to be a relay agent.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AGENT_ROUTES } from '../../src/agent/wire/protocol.ts';
import type { Mac } from '../../src/base/mac.ts';
import { MACHINE_ROUTES, type MachineRoute, machinePath } from '../../src/pxe/http/routes.ts';
import { encodeRead } from '../../src/pxe/tftp/codec.ts';
import { IPXE, message } from '../unit/pxe/dhcp/kit.ts';
import { Agent, filesIn, HTTP, scriptOf, sessionIn, takeLease, takeOver } from './machine.ts';
import {
  ADDRESS,
  BEHIND,
  BOOT_HOST,
  MACHINES,
  type Place,
  PROXY_MODE,
  Rig,
  SERVER_MODE,
  UNSERVED,
  VICTIM_MAC,
} from './rig.ts';

const CP2 = '52:54:00:aa:00:31' as Mac;
const W1 = '52:54:00:aa:00:21' as Mac;
const W2_INLINE = '52:54:00:aa:00:61' as Mac;
const invented = (n: number) => `52:54:00:99:00:${n.toString(16).padStart(2, '0')}` as Mac;

/** A data filesystem that no machine has. */
const FILESYSTEM = '5eed0000-1111-4222-8333-444455556666';

/**
 * What each route of the machines' listener answers another host of a served subnet or behind a
 * relay: without anything, and with the session of a machine's live boot. All others get no answer
 * at all. A route without a row does not compile.
 */
const MACHINE_ANSWERS = {
  entry: { none: 200, session: 200 },
  start: { none: 200, session: 200 },
  // A script that boots nothing: stolen-boot.test.ts has what is in it.
  script: { none: 200, session: 200 },
  // The request names no machine.
  anyScript: { none: 400, session: 400 },
  grubScript: { none: 400, session: 400 },
  // A script that starts over; as a report it is not believed.
  grubRefused: { none: 200, session: 200 },
  userData: { none: 404, session: 404 },
  metaData: { none: 404, session: 404 },
  vendorData: { none: 404, session: 404 },
  networkConfig: { none: 404, session: 404 },
  ignition: { none: 404, session: 404 },
  report: { none: 409, session: 409 },
  console: { none: 409, session: 409 },
  // Only sessions of machines in the discovery system.
  waits: { none: 404, session: 404 },
  inventory: { none: 409, session: 409 },
  wipeOrder: { none: 404, session: 404 },
  wipeReport: { none: 409, session: 409 },
  testOrder: { none: 404, session: 404 },
  testReport: { none: 409, session: 409 },
  // Nobody is rescued.
  rescue: { none: 404, session: 404 },
  // Only sessions that install a system.
  install: { none: 404, session: 404 },
  installList: { none: 404, session: 404 },
  installExtent: { none: 404, session: 404 },
  reportFrom: { none: 409, session: 409 },
  asset: { none: 404, session: 404 },
  loader: { none: 200, session: 200 },
} as const satisfies Record<MachineRoute, { readonly none: number; readonly session: number }>;

/**
 * What each route of the agents' listener answers everybody, from inside and outside: without
 * anything, and with a machine's certificate and key, but not at its address.
 */
const AGENT_ANSWERS = {
  // For its source or its ticket.
  redeem: { none: 403, certificate: 403 },
  // The form has no facts.
  poll: { none: 401, certificate: 400 },
  configuration: { none: 401, certificate: 400 },
  snapshotPart: { none: 401, certificate: 400 },
  snapshotEnd: { none: 401, certificate: 400 },
  // No operator ordered it.
  snapshotGet: { none: 401, certificate: 409 },
  // The address is not the machine's.
  dataKey: { none: 401, certificate: 403 },
  // The form names no bundle.
  bundle: { none: 401, certificate: 404 },
  // The form has no boot id.
  console: { none: 401, certificate: 400 },
  leave: { none: 401, certificate: 204 },
} as const satisfies Record<
  keyof typeof AGENT_ROUTES,
  { readonly none: number; readonly certificate: number }
>;

describe('where Muster gives the addresses', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await Rig.open(SERVER_MODE + BEHIND + MACHINES);
  });
  afterAll(() => rig.close());

  const ask4011 = (place: Place, mac: Mac, count = 1) =>
    rig.dhcp(place, Array(count).fill(message('REQUEST', { mac, options: IPXE! })), {
      to: `${BOOT_HOST}:4011`,
      port: 4011,
    });
  const phaseOf = async (name: string) =>
    (await rig.muster.get<{ status: { phase: string } }>(`/v1/machines/${name}`)).status.phase;

  it('another subnet gets no session from port 4011, and no control plane’s identity by any step after it', async () => {
    expect(await ask4011('rem', CP2)).toEqual([]);
    expect(await takeOver(rig, 'rem', CP2)).toEqual({});
    // A session that was overheard or guessed does not help.
    expect(await takeLease(rig, 'vic', VICTIM_MAC)).toBe('10.77.0.11');
    const session = sessionIn((await scriptOf(rig, 'vic', VICTIM_MAC)).body);
    expect(session).toBeDefined();
    for (const place of ['rem', 'far'] as const) {
      const base = place === 'far' ? `http://${UNSERVED}:8080` : HTTP;
      expect(await takeOver(rig, place, VICTIM_MAC, { session, base })).toEqual({});
    }
    expect(rig.muster.log()).toContain(`no answer: ${ADDRESS.rem} is in no subnet that is served`);
  });

  it('another subnet gets no private keys of a machine whose configuration has them inline', async () => {
    expect(await ask4011('rem', W2_INLINE)).toEqual([]);
    expect(await takeOver(rig, 'rem', W2_INLINE)).toEqual({});
  });

  it('another subnet cannot put a documented machine on hold', async () => {
    const before = await phaseOf('w1');
    await ask4011('rem', W1, 6);
    for (let n = 0; n < 6; n++) await scriptOf(rig, 'rem', W1);
    expect(await phaseOf('w1')).toBe(before);
  });

  it('another subnet cannot take the addresses of the pool, with or without a relay agent’s address', async () => {
    const before = await rig.muster.leases();
    for (const giaddr of ['0.0.0.0', '10.77.0.250', '203.0.113.1', ADDRESS.rem]) {
      const requests = Array.from({ length: 30 }, (_, n) =>
        message('REQUEST', { mac: invented(n), address: `10.77.0.${110 + n}`, server: BOOT_HOST, giaddr }),
      );
      await rig.dhcp('rem', requests, { to: `${BOOT_HOST}:67`, port: 67 });
    }
    expect(await rig.muster.leases()).toEqual(before);
  });

  it('a machine on the segment that names itself as relay agent gets no offer by unicast', async () => {
    const claim = message('DISCOVER', { mac: CP2, options: IPXE!, giaddr: ADDRESS.atk });
    expect(await rig.dhcp('atk', [claim], { to: `${BOOT_HOST}:67`, port: 67 })).toEqual([]);
    expect(rig.muster.log()).toContain(
      `${ADDRESS.atk} (sending from ${ADDRESS.atk}) claims to be a relay agent`,
    );
  });

  it('TFTP is silent towards other subnets and interfaces that are not served', async () => {
    const request = [encodeRead('undionly.kpxe', 'octet', [])];
    const got = async (place: Place, host = BOOT_HOST) =>
      (await rig.datagrams(place, { to: `${host}:69` }, request)).length;
    expect(await got('atk')).toBeGreaterThan(0);
    expect(await got('rel')).toBeGreaterThan(0);
    expect([await got('rem'), await got('far', UNSERVED), await got('far')]).toEqual([0, 0, 0]);
  });

  it('every route answers exactly the sources that it is for, whatever they have to show', async () => {
    // The machine boots and gets its certificate: what attackers may have learnt or stolen.
    expect(await takeLease(rig, 'vic', VICTIM_MAC)).toBe('10.77.0.11');
    const session = sessionIn((await scriptOf(rig, 'vic', VICTIM_MAC)).body)!;
    const userData = await rig.http('vic', `${HTTP}/boot/${session}/user-data`);
    const agent = new Agent(rig, 'vic', filesIn(userData.body));
    expect(await agent.redeem()).toMatchObject({ status: 200 });

    const served = { atk: true, rel: true, rem: false, far: false } as const;
    const places = Object.entries(served) as [keyof typeof served, boolean][];
    const wrong: string[] = [];
    /** Asks from everywhere, and compares the status with what the table says. */
    const walk = (
      what: string,
      [scheme, port, path]: readonly [string, number, string],
      expected: (inside: boolean) => number,
      more: readonly string[] = [],
    ) =>
      Promise.all(
        places.map(async ([place, inside]) => {
          const host = place === 'far' ? UNSERVED : BOOT_HOST;
          const { status } = await rig.http(place, `${scheme}://${host}:${port}${path}`, '-k', ...more);
          if (status !== expected(inside))
            wrong.push(`${what} from ${place}: ${status}, not ${expected(inside)}`);
        }),
      );
    for (const [proof, id] of [
      ['none', 'A'.repeat(22)],
      ['session', session],
    ] as const)
      for (const route of Object.keys(MACHINE_ROUTES) as MachineRoute[]) {
        const file = { sha256: 'a'.repeat(64), name: 'ipxe.efi', what: 'kernel', disk: 'D', at: '0' };
        const path = machinePath(route, { session: id, boot: id, ...file });
        const form = MACHINE_ROUTES[route].method === 'POST' ? ['-d', 'step=kernel'] : [];
        const answer = MACHINE_ANSWERS[route][proof];
        await walk(`${route} with ${proof}`, ['http', 8080, path], (inside) => (inside ? answer : 0), form);
      }
    await walk('registry', ['https', 8443, '/v2/'], () => 200);
    for (const [proof, words] of [
      ['none', []],
      ['certificate', agent.certificateWords()],
    ] as const)
      for (const [route, { path, method }] of Object.entries(AGENT_ROUTES)) {
        const form = `session=x&ticket=y&csr=z&bootid=b&make=yes&filesystem=${FILESYSTEM}`;
        const answer = AGENT_ANSWERS[route as keyof typeof AGENT_ROUTES][proof];
        const asks = ['-X', method, '-d', form, ...words];
        await walk(`${route} with ${proof}`, ['https', 8443, path], () => answer, asks);
      }
    expect(wrong).toEqual([]);
    const refusal = async (place: Place, host = BOOT_HOST) =>
      (await rig.http(place, `https://${host}:8443/agent/redeem`, '-k', '-d', 'session=x&ticket=y&csr=z'))
        .body;
    expect(await refusal('atk')).toMatch(/^E_TICKET/);
    expect(await refusal('rem')).toMatch(/^E_SOURCE/);
    expect(await refusal('far', UNSERVED)).toMatch(/^E_SOURCE/);
    // The system of a machine may live anywhere; from then on it also fetches files and reports
    // from there.
    expect(await agent.poll({}, 'rem')).toMatchObject({ status: 200 });
    expect((await rig.http('rem', `${HTTP}/boot.ipxe`)).status).toBe(200);
    agent.close();
  });
});

describe('where another server gives the addresses', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await Rig.open(PROXY_MODE + MACHINES);
  });
  afterAll(() => rig.close());

  it('one GET from another subnet or an unserved interface boots no machine, and gets no control plane’s identity', async () => {
    expect(await takeOver(rig, 'rem', VICTIM_MAC)).toEqual({});
    expect(await takeOver(rig, 'far', VICTIM_MAC, { base: `http://${UNSERVED}:8080` })).toEqual({});
    expect(await takeOver(rig, 'far', VICTIM_MAC)).toEqual({});
    expect((await rig.muster.events()).filter(({ kind }) => kind.startsWith('agent.'))).toEqual([]);
  });
});
