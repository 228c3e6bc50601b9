/**
 * Attackers ask for a machine's boot in its name: script, first configuration, certificate and the
 * keys of its cluster. The machine gets all of it by the same steps.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Mac } from '../../src/base/mac.ts';
import { type DhcpPacket, decode } from '../../src/pxe/dhcp/packet.ts';
import { ip } from '../peers/dhcp-segment.ts';
import { IPXE, message } from '../unit/pxe/dhcp/kit.ts';
import { Agent, bootFileOf, filesIn, HTTP, scriptOf, sessionIn, takeLease, takeOver } from './machine.ts';
import {
  ADDRESS,
  ATTACKER_MAC,
  BOOT_HOST,
  MACHINES,
  type Place,
  PROXY_MODE,
  Rig,
  SERVER_MODE,
  VICTIM_MAC,
} from './rig.ts';

const W1_MAC = '52:54:00:aa:00:21' as Mac;
const CP2_MAC = '52:54:00:aa:00:31' as Mac;
const W2_MAC = '52:54:00:aa:00:61' as Mac;
/** More boots than a machine may make without a ready report. */
const MANY = 6;

let rig: Rig;

/** What `muster get machines` says of a machine. */
const shown = async (name: string): Promise<string> =>
  (await rig.operator('get', 'machines')).split('\n').find((line) => line.startsWith(`${name} `))!;

/** Asks the PXE boot service for the machine's boot file, as step of a boot at that place. */
const askBootService = (place: Place, mac: Mac): Promise<readonly DhcpPacket[]> =>
  rig.dhcp(place, [message('REQUEST', { mac, options: IPXE! })], { to: `${BOOT_HOST}:4011` });

/** A request from one of several addresses of an interface. */
const httpFrom = (place: Place, address: string, path: string) =>
  rig.http(place, HTTP + path, '--interface', address);

describe('where Muster gives the addresses', () => {
  beforeAll(async () => {
    rig = await Rig.open(SERVER_MODE + MACHINES);
  });
  afterAll(() => rig.close());

  it('a host that hears the broadcasts of a boot gets nothing by what they say', async () => {
    const heard = await rig.frames('atk', [], {
      meanwhile: async () => {
        expect(await takeLease(rig, 'vic', VICTIM_MAC)).toBe('10.77.0.11');
      },
    });
    const urls = heard
      .filter(({ destination }) => destination === '255.255.255.255')
      .map(({ payload }) => decode(payload))
      .flatMap((read) => (read.ok ? [bootFileOf(read.packet)] : []))
      .filter((url) => url.startsWith(HTTP));
    expect(urls.length).toBeGreaterThan(0);
    for (const url of new Set(urls)) {
      const session = sessionIn(url)!;
      expect(await takeOver(rig, 'atk', VICTIM_MAC, { session })).toEqual({});
      expect((await rig.http('atk', `${HTTP}/boot/${session}/user-data`)).status).toBe(404);
      const report = `${HTTP}/boot/${session}/report`;
      expect((await rig.http('atk', report, '-d', 'step=ready')).status).toBe(409);
    }
    const own = await takeOver(rig, 'vic', VICTIM_MAC, { session: sessionIn(urls[0]!)! });
    expect(own).toMatchObject({ certificate: true, ticket: expect.any(String) });
    expect(own.secrets).toContain('/etc/kubernetes/pki/ca.key');
  });

  it('a host that read all URLs, documents and the ticket of a boot can replay none of it', async () => {
    const { settings, script, files } = await boot('10.77.0.31', CP2_MAC);
    const session = settings.session!;
    expect(script).toContain(session);
    for (const document of ['user-data', 'meta-data', 'vendor-data', 'network-config', 'ignition'])
      expect((await rig.http('atk', `${HTTP}/boot/${session}/${document}`)).status, document).toBe(404);
    for (const step of ['configured', 'ready', 'failed'])
      expect((await rig.http('atk', `${HTTP}/boot/${session}/report`, '-d', `step=${step}`)).status).toBe(
        409,
      );
    const copy = new Agent(rig, 'atk', files);
    expect(copy.settings.ticket).toEqual(expect.any(String));
    expect(await copy.redeem()).toMatchObject({ status: 403 });
    copy.close();
    expect(await shown('cp2')).not.toContain('ALARM');
    expect((await rig.http('vic', `${HTTP}/boot/${session}/user-data`)).body).toContain('agent.conf');
  });

  it.each(['rem', 'atk'] as const)(
    'the PXE boot service gives a host (%s) no boot of another machine',
    async (place) => {
      for (const packet of await askBootService(place, CP2_MAC)) {
        const session = sessionIn(bootFileOf(packet));
        if (session !== undefined) expect(await takeOver(rig, place, CP2_MAC, { session })).toEqual({});
      }
      expect(await takeOver(rig, place, CP2_MAC)).toEqual({});
    },
  );

  it('a host with a lease of its own is no other machine because its URL lists that machine’s addresses', async () => {
    const own = await takeLease(rig, 'atk', ATTACKER_MAC);
    const said = `mac=${ATTACKER_MAC}&macs=${ATTACKER_MAC},${CP2_MAC}&arch=x86_64&platform=pcbios`;
    const script = await httpFrom('atk', own, `/script.ipxe?${said}`);
    expect(script.body).not.toMatch(/^kernel /m);
    expect(script.body).toContain('list');
    const also = await httpFrom('atk', own, `/script.ipxe?mac=${CP2_MAC}&arch=x86_64`);
    expect(also.body).not.toMatch(/^kernel /m);
  });

  it('a host that poses as a relay gets no boot of another machine', async () => {
    const asked = message('DISCOVER', { mac: CP2_MAC, giaddr: ADDRESS.atk, options: IPXE! });
    for (const packet of await rig.dhcp('atk', [asked], { to: `${BOOT_HOST}:67`, port: 67 })) {
      const session = sessionIn(bootFileOf(packet));
      if (session !== undefined) expect(await takeOver(rig, 'atk', CP2_MAC, { session })).toEqual({});
    }
  });

  it('the private keys of `delivery: inline` go to the machine alone', async () => {
    // A control plane's first poll makes the cluster's keys, without which there is nothing to
    // steal.
    await become('10.77.0.31', CP2_MAC);
    expect(await takeOver(rig, 'vic', CP2_MAC)).toMatchObject({ certificate: true });
    for (const place of ['atk', 'rem'] as const) {
      const [reply] = await askBootService(place, W2_MAC);
      const session = reply && sessionIn(bootFileOf(reply));
      expect(await takeOver(rig, place, W2_MAC, { session })).toEqual({});
    }
    const { files } = await boot('10.77.0.61', W2_MAC);
    expect(files.get('/etc/muster/inline.tar')).toContain('PRIVATE KEY');
  });

  it('requests from elsewhere put no machine on hold that does not run', async () => {
    for (const place of ['rem', 'atk'] as const)
      for (let n = 0; n < MANY; n++) {
        const [reply] = await askBootService(place, W1_MAC);
        const session = reply && sessionIn(bootFileOf(reply));
        const base = session === undefined ? HTTP : `${HTTP}/boot/${session}`;
        expect((await scriptOf(rig, place, W1_MAC, base)).body).not.toMatch(/^kernel /m);
      }
    expect(await shown('w1')).toContain('registered');
    expect((await boot('10.77.0.21', W1_MAC)).script).toMatch(/^kernel /m);
  });
});

/** Makes the host at `vic` another machine, which takes a lease. */
async function become(address: string, mac: Mac): Promise<void> {
  ip('-n', 'vic', '-4', 'addr', 'flush', 'dev', 'eth0');
  ip('-n', 'vic', 'link', 'set', 'eth0', 'address', mac);
  ip('-n', 'vic', 'route', 'replace', 'default', 'dev', 'eth0');
  expect(await takeLease(rig, 'vic', mac)).toBe(address);
}

/** Boots a machine at `vic` until its first configuration. */
async function boot(address: string, mac: Mac) {
  await become(address, mac);
  const { body: script } = await scriptOf(rig, 'vic', mac);
  const { body } = await rig.http('vic', `${HTTP}/boot/${sessionIn(script)}/user-data`);
  const files = filesIn(body);
  const agent = new Agent(rig, 'vic', files);
  const { settings } = agent;
  agent.close();
  return { script, files, settings };
}

describe('where another server gives the addresses', () => {
  beforeAll(async () => {
    rig = await Rig.open(PROXY_MODE + MACHINES);
    ip('-n', 'vic', 'link', 'set', 'eth0', 'address', W1_MAC);
    ip('-n', 'vic', 'addr', 'add', '10.77.0.21/24', 'dev', 'eth0');
  });
  afterAll(() => rig.close());

  it('a host of another subnet gets no script', async () => {
    expect(await takeOver(rig, 'rem', W1_MAC)).toEqual({});
  });

  it('a host of the segment gets a script and a configuration without a ticket, and no certificate', async () => {
    const haul = await takeOver(rig, 'atk', W1_MAC);
    expect(haul).toMatchObject({ script: expect.any(String), settings: { machine: 'w1' } });
    expect(haul).not.toHaveProperty('ticket');
    expect(haul).not.toHaveProperty('certificate');
  });

  it('a host of the segment gets no private keys of `delivery: inline`', async () => {
    const script = await scriptOf(rig, 'atk', W2_MAC);
    const document = await rig.http('atk', `${HTTP}/boot/${sessionIn(script.body)}/user-data`);
    expect(document).toMatchObject({ status: 404 });
  });

  it('the machine gets its certificate without a ticket, from the address that its document names', async () => {
    const haul = await takeOver(rig, 'vic', W1_MAC);
    expect(haul).toMatchObject({ certificate: true });
    expect(haul).not.toHaveProperty('ticket');
  });
});
