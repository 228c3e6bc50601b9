import { describe, expect, it } from 'vitest';
import { publicName } from '../../../../src/base/ids.ts';
import { formatExplanation } from '../../../../src/pxe/decide/explain.ts';
import { document, HASH, IMAGE, MAC1, MAC2, machine, NETWORK, WORKER, world } from '../boot/world.ts';

const KNOWN = [
  NETWORK,
  IMAGE,
  WORKER,
  machine('node-1', [MAC1], { profile: 'worker', addresses: ['10.77.0.11'] }),
];
const PEER = '10.77.0.101';

describe('an explanation', () => {
  it('says how a booting machine is recognised, why, and what it gets at each stage', async () => {
    const w = await world(KNOWN);
    const told = w.boot.explain({ mac: MAC1 });
    expect(told).toMatchObject({
      subject: 'node-1',
      profile: 'worker',
      image: 'debian',
      recognised: { kind: 'known', matches: [{ name: 'node-1', score: 100, because: ['boot-mac'] }] },
      decision: { kind: 'script', reason: { code: 'boots_profile' } },
      answers: {
        'firmware (bios)': { kind: 'loader', loader: 'undionly.kpxe' },
        'firmware (uefi)': { kind: 'loader', loader: 'ipxe.efi' },
        iPXE: { kind: 'script', reason: { code: 'fetch_script' } },
      },
      phase: 'registered',
    });
    expect(told).not.toHaveProperty('remedy');
    const text = formatExplanation(told);
    for (const part of [
      'node-1 (100 points)',
      'worker (named by the document)',
      'debian: complete',
      'renders (cloud-init)',
      'from the API',
    ])
      expect(text).toContain(part);
  });

  it('names the cluster and the role of a machine whose agent was never heard', async () => {
    const kubernetes = { version: '1.36', endpoint: 'api.test', controlPlanes: ['node-1'] };
    const w = await world([...KNOWN, document('Cluster', 'blue', { kubernetes })]);
    expect(w.boot.explain({ mac: MAC1 }).steps).toContainEqual({
      step: 'cluster',
      result: 'blue, as a control plane',
    });
  });

  it('is the decision that the machine then gets', async () => {
    const cases = [
      KNOWN,
      KNOWN.slice(0, 3),
      [NETWORK, WORKER, machine('node-1', [MAC1], { profile: 'worker' })],
      [NETWORK, document('Profile', 'd', { boot: 'disk' }), machine('node-1', [MAC1], { profile: 'd' })],
      [...KNOWN.slice(0, 3), machine('node-1', [MAC1], { profile: 'worker', pxe: { loader: 'no.efi' } })],
      [...KNOWN.slice(0, 3), machine('node-1', [MAC1])],
    ];
    for (const documents of cases) {
      const w = await world(documents);
      const before = w.boot.explain({ mac: MAC1, arch: 'x86_64', firmware: 'bios' });
      const rom = w.exchange({ mac: MAC1 });
      expect(before.answers['firmware (bios)']).toEqual(rom.decision);
      const ipxe = w.exchange({ mac: MAC1, stage: 'ipxe' });
      expect(before.answers.iPXE).toEqual(ipxe.decision);
      const answer = await w.fetch(MAC1, ipxe.session);
      expect(before.decision).toEqual(answer.decision);
    }
  });

  it('shows only the firmware that the architecture has', async () => {
    const w = await world(KNOWN);
    const firmware = (question: object): string[] =>
      Object.keys(w.boot.explain({ mac: MAC1, ...question }).answers).filter((who) => who !== 'iPXE');
    expect(firmware({})).toEqual(['firmware (bios)', 'firmware (uefi)']);
    expect(firmware({ arch: 'aarch64' })).toEqual(['firmware (uefi)']);
    expect(() => firmware({ arch: 'aarch64', firmware: 'bios' })).toThrow(
      'aarch64 has no firmware "bios": say "uefi"',
    );
    w.exchange({ mac: MAC1 });
    expect(firmware({})).toEqual(['firmware (bios)']);
    expect(firmware({ arch: 'aarch64' })).toEqual(['firmware (uefi)']);
  });

  it('leaves no trace', async () => {
    const w = await world(KNOWN);
    w.boot.explain({ mac: MAC1 });
    w.boot.explain({ mac: MAC2 });
    w.boot.render('node-1');
    expect(w.roster.size).toBe(1);
    expect(w.roster.sessions.size).toBe(0);
    expect(w.events.list({}).filter((event) => event.kind.startsWith('boot.'))).toEqual([]);
  });

  it('gives the remedy for an unknown machine', async () => {
    const w = await world([NETWORK]);
    expect(w.boot.explain({ mac: MAC1 })).toMatchObject({
      subject: MAC1,
      recognised: { kind: 'unknown' },
      decision: { kind: 'hold', reason: { code: 'unknown_machine' } },
    });
    expect(w.boot.explain({ mac: MAC1 }).remedy).toBe(`muster machine add ${MAC1} --profile PROFILE`);
    await w.powerOn(MAC1);
    expect(w.boot.explain({ mac: MAC1 })).toMatchObject({
      subject: 'm-525400aa0001',
      phase: 'discovered',
      remedy: 'muster machine accept m-525400aa0001 --profile PROFILE',
    });
  });

  it('gives the remedy when the firmware that was seen gets no loader', async () => {
    const w = await world(KNOWN);
    w.assets.delete('ipxe.efi');
    w.assets.delete('snponly.efi');
    // Its firmware is unknown, so it does not matter that UEFI would get no loader.
    expect(w.boot.explain({ mac: MAC1 })).not.toHaveProperty('remedy');
    expect(w.boot.explain({ mac: MAC1, firmware: 'bios' })).not.toHaveProperty('remedy');
    const asked = w.boot.explain({ mac: MAC1, firmware: 'uefi' });
    expect(asked.remedy).toMatch(/^install the loader .* systemctl reload muster/);
    expect(asked.decision.kind).toBe('script');
    w.exchange({ mac: MAC1, archCode: 7, firmware: 'uefi' });
    const told = w.boot.explain({ mac: MAC1 });
    expect(told.answers['firmware (uefi)']?.reason.code).toBe('loader_missing');
    expect(formatExplanation(told)).toMatch(/to continue +install the loader/);
    w.assets.add('ipxe.efi');
    expect(w.boot.explain({ mac: MAC1 })).not.toHaveProperty('remedy');
  });

  it('gives the remedy when the last request was refused, until a later one is answered', async () => {
    const w = await world(KNOWN);
    w.exchange({ mac: MAC1, archCode: 41, family: 'raspberry-pi' });
    expect(w.boot.explain({ mac: MAC1 }).remedy).toMatch(/^name a loader .* pxe\.loader/);
    w.exchange({ mac: MAC1 });
    expect(w.boot.explain({ mac: MAC1 })).not.toHaveProperty('remedy');
    w.ask({ mac: MAC1, stage: 'ipxe-tftp' });
    expect(w.boot.explain({ mac: MAC1 }).remedy).toMatch(/^install a loader with HTTP/);
  });

  it('names the machines that an identity could be', async () => {
    const w = await world([NETWORK, machine('a', [MAC1]), machine('b', [MAC2])]);
    await w.powerOn(MAC1, { macs: [MAC1, MAC2] });
    const told = w.boot.explain({ machine: 'a' });
    expect(told.subject).toBe('a');
    expect(told.events.map((event) => event.kind)).toContain('machine.conflict');
  });

  it('counts boots, names the session and the last events', async () => {
    const w = await world(KNOWN);
    const { session } = await w.powerOn(MAC1);
    await w.boot.report(session!.id, { step: 'failed', detail: 'disk on fire' }, PEER);
    const told = w.boot.explain({ machine: 'node-1' });
    expect(told).toMatchObject({ phase: 'failed', bootsWithoutReady: 1, session: publicName(session!.id) });
    expect(told.events.at(-1)!.kind).toBe('report.believed');
    const text = formatExplanation(told);
    expect(text).toContain('disk on fire');
    expect(text).toContain(`${publicName(session!.id)}, over (failed), last step failed`);
  });

  it('shows the faults of a configuration with code and place', async () => {
    const bad = document('Profile', 'worker', { image: 'debian', config: { hostname: '${var.x}' } });
    const w = await world([NETWORK, IMAGE, bad, machine('node-1', [MAC1], { profile: 'worker' })]);
    const told = w.boot.explain({ machine: 'node-1' });
    expect(told.decision).toMatchObject({ reason: { code: 'config_invalid' } });
    expect(told.faults.join()).toContain('var.x');
    expect(() => w.boot.render('node-1')).toThrow(expect.objectContaining({ code: 'E_CONFIG' }));
  });

  it('knows of a kernel command line that is too long before the machine asks', async () => {
    // Without the network configuration, which Debian 12's cloud-init takes from the command line,
    // it would fit.
    const long = document('Profile', 'worker', {
      image: 'debian',
      kernelArguments: [`x=${'y'.repeat(1520)}`],
    });
    const w = await world([NETWORK, IMAGE, long, machine('node-1', [MAC1], { profile: 'worker' })]);
    const told = w.boot.explain({ machine: 'node-1' });
    expect(told.decision).toMatchObject({ kind: 'hold', reason: { code: 'config_invalid' } });
    expect(told.faults.join()).toMatch(/E_KERNEL_ARGUMENT.* characters long/);
    expect((await w.powerOn(MAC1)).decision).toMatchObject({ reason: { code: 'config_invalid' } });
  });

  it('fails for an unknown machine and for an unknown network', async () => {
    const w = await world(KNOWN);
    expect(() => w.boot.explain({ machine: 'x' })).toThrow(expect.objectContaining({ code: 'E_NOT_FOUND' }));
    expect(() => w.boot.explain({ mac: MAC1, network: 'x' })).toThrow(
      expect.objectContaining({ code: 'E_NOT_FOUND' }),
    );
    expect(() => w.boot.explain({})).toThrow(expect.objectContaining({ code: 'E_USAGE' }));
  });
});

describe('a preview of a configuration', () => {
  it('is what the machine gets, session and URL aside', async () => {
    const w = await world(KNOWN);
    const preview = w.boot.render('node-1');
    const { session } = await w.powerOn(MAC1);
    const served = w.boot.config(session!.id, 'user-data', {
      baseUrl: 'http://10.77.0.1:8080',
      peer: '10.77.0.101',
    });
    expect(served.ok && served.body.replaceAll(session!.id, 'PREVIEW')).toBe(preview.files['user-data']);
  });

  it('does not need the image’s files', async () => {
    const w = await world(KNOWN);
    w.assets.delete(HASH('a'));
    expect(w.boot.render('node-1').files['meta-data']).toContain('node-1');
  });

  it('fails for a machine that was only seen', async () => {
    const w = await world([NETWORK]);
    w.ask({ mac: MAC1 });
    expect(() => w.boot.render('m-525400aa0001')).toThrow(/accepted/);
    expect(() => w.boot.render('nobody')).toThrow(/no machine/);
  });
});
