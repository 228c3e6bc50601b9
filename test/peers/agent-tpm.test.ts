/** The real agent on machines with real TPMs (swtpm), and a boot host of the tree. */
import { execFileSync } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ManualClock } from '../../src/base/clock.ts';
import type { Millis } from '../../src/base/duration.ts';
import { ALIVE_WITHIN } from '../../src/machines/heartbeats.ts';
import { type AgentBootHost, CLUSTER, CP1_MAC, open } from './agent-boot-host.ts';
import { Machine, openssl, SHELLS, type Shell, SOURCE } from './agent-kit.ts';
import { type Tpm, TpmVendor } from './tpm-kit.ts';

let vendor: TpmVendor;
let own: Tpm;
let other: Tpm;
let uncertified: Tpm;
let bootHost: AgentBootHost;
const machines: Machine[] = [];

beforeAll(async () => {
  vendor = new TpmVendor();
  own = await vendor.make('own');
  other = await vendor.make('other');
  uncertified = await vendor.make('uncertified', { certified: false });
});
afterEach(async () => {
  for (const machine of machines.splice(0)) machine.close();
  await bootHost?.close();
});
afterAll(() => vendor.close());

/** A machine that was just booted: its first configuration names its ticket. */
async function booted(tpm: Tpm | undefined, machine?: Machine): Promise<Machine> {
  // Its agent was heard before: a machine that runs is not booted.
  if (machine !== undefined) bootHost.clock.advance((ALIVE_WITHIN + 1) as Millis);
  const { session, ticket } = await bootHost.configured(CP1_MAC);
  const { authority } = bootHost.settings.get('cp1')!;
  const url = `https://127.0.0.1:${bootHost.agents.port()}`;
  const settings = { session, tpm: tpm?.tcti ?? '' };
  const fresh = new Machine({ authority, url, ticket }, settings);
  machines.push(fresh);
  if (machine === undefined) return fresh;
  machine.reboot();
  for (const name of ['agent.conf', 'ca.crt'])
    fs.copyFileSync(fresh.path(`/etc/muster/${name}`), machine.path(`/etc/muster/${name}`));
  return machine;
}

const HOME = '/var/lib/muster/agent';
const refusals = (): (string | undefined)[] =>
  bootHost.events
    .list({ subject: 'cp1' })
    .flatMap((one) => (one.kind === 'agent.refused' ? [one.reason?.code] : []));
const pinned = (): string | undefined => bootHost.agents.tpm('cp1')?.ek;
/** Whether a private key is anywhere on the machine's disk. */
const keysOnDisk = (machine: Machine): string[] =>
  Object.entries(machine.tree()).flatMap(([at, content]) => (content.includes('PRIVATE KEY') ? [at] : []));

describe.each(SHELLS.map((shell) => [shell.join(' '), shell] as const))(
  'the agent by %s',
  (_name, shell: Shell) => {
    it('proves its machine by the TPM, keeps its key sealed, and has it back after a reboot', async () => {
      bootHost = await open();
      const machine = await booted(own);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      expect(pinned()).toMatch(/^[0-9a-f]{64}$/);
      expect(keysOnDisk(machine)).toEqual([]);
      expect(fs.readlinkSync(machine.path(`${HOME}/agent.key`))).toBe(machine.path('/run/muster/agent.key'));
      expect(machine.mode(`${HOME}/agent.sealed`)).toBe('600');
      const certificate = machine.read(`${HOME}/agent.crt`);
      const key = machine.read('/run/muster/agent.key');

      await own.restart();
      machine.reboot();
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      expect(machine.read(`${HOME}/agent.crt`)).toBe(certificate);
      expect(openssl(['pkey', '-pubout'], machine.read('/run/muster/agent.key'))).toBe(
        openssl(['pkey', '-pubout'], key),
      );
      expect(keysOnDisk(machine)).toEqual([]);
    });

    it('has its key back after many power cuts', async () => {
      bootHost = await open();
      const machine = await booted(own);
      expect((await machine.poll(shell)).status).toBe(0);
      const certificate = machine.read(`${HOME}/agent.crt`);
      for (let cut = 0; cut < 6; cut++) {
        await own.restart();
        machine.reboot();
        expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      }
      expect(machine.read(`${HOME}/agent.crt`)).toBe(certificate);
    });

    it('on a copied disk has no key, and is refused with another TPM and without one', async () => {
      bootHost = await open();
      const machine = await booted(own);
      expect((await machine.poll(shell)).status).toBe(0);
      const before = bootHost.asked.length;
      // The disk in another machine, at the address of the first.
      await booted(other, machine);
      const { status, said } = await machine.poll(shell);
      expect(status).not.toBe(0);
      expect(said).toContain("the TPM does not give back the agent's key");
      expect(refusals()).toEqual(['tpm_changed']);
      await booted(undefined, machine);
      expect((await machine.poll(shell)).status).not.toBe(0);
      expect(refusals()).toEqual(['tpm_changed', 'tpm_missing']);
      expect(bootHost.asked).toHaveLength(before);
      // The right machine is served meanwhile, with a new key.
      await booted(own, machine);
      expect((await machine.poll(shell)).status).toBe(0);
      expect(bootHost.asked.length).toBeGreaterThan(before);
    });

    it('without a TPM works as before, and seals its key when it gets one', async () => {
      bootHost = await open();
      const machine = await booted(undefined);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      expect(keysOnDisk(machine)).toEqual([`${HOME}/agent.key`]);
      expect(machine.exists(`${HOME}/agent.sealed`)).toBe(false);
      const certificate = machine.read(`${HOME}/agent.crt`);
      await booted(uncertified, machine);
      expect(await machine.poll(shell)).toEqual({ status: 0, said: '' });
      expect(keysOnDisk(machine)).toEqual([]);
      expect(machine.read(`${HOME}/agent.crt`)).toBe(certificate);
    });

    it('computes the same HMAC as everybody else', () => {
      const file = path.join(vendor.directory, 'hmac.key');
      const parts = ['base', 'tpm'].map((part) => `. ${SOURCE}/muster-${part}.sh`).join('; ');
      for (let round = 0; round < 20; round++) {
        const key = round === 0 ? Buffer.alloc(32) : round === 1 ? Buffer.alloc(32, 255) : randomBytes(32);
        fs.writeFileSync(file, key);
        const text = `muster tpm 1 ${'S%s\\n-'.repeat(round)} x`;
        const script = `${parts}; hmac "$1" "$2"; echo "$hmac"`;
        const said = execFileSync(shell[0]!, [...shell.slice(1), '-c', script, 'sh', file, text], {
          encoding: 'utf8',
        });
        expect(said.trim()).toBe(createHmac('sha256', key).update(text).digest('hex'));
      }
    });
  },
);

describe('a boot host that trusts one vendor', () => {
  it('takes only TPMs that this vendor certified at tier tpm, each after an operator approved it once', async () => {
    const cluster = (of: TpmVendor) => ({
      ...CLUSTER.at(-1)!,
      spec: {
        ...(CLUSTER.at(-1) as { spec: object }).spec,
        trust: 'tpm',
        tpm: { vendorCAs: [of.authority] },
      },
    });
    // The certificates of the TPMs were made moments ago.
    const clock = new ManualClock(Date.now() as Millis);
    bootHost = await open([...CLUSTER.slice(0, -1), cluster(vendor)], { clock });
    const machine = await booted(uncertified);
    expect((await machine.poll()).status).not.toBe(0);
    expect(refusals()).toEqual(['tpm_untrusted']);
    const genuine = await booted(own);
    expect((await genuine.poll()).status).not.toBe(0);
    expect(refusals()).toEqual(['tpm_untrusted']);
    const [waiting] = bootHost.agents.waiting({ codes: true });
    await bootHost.agents.approve('cp1', waiting!.code!);
    expect((await genuine.poll()).status).toBe(0);
  });
});
