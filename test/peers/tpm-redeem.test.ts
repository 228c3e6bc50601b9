/** Certificates for machines with a TPM, over real TLS; the TPMs here are software. */
import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { approvalCode } from '../../src/agent/identity/approval-code.ts';
import { CHALLENGE_LIFETIME, proofOf } from '../../src/agent/identity/tpm-challenges.ts';
import type { Millis } from '../../src/base/duration.ts';
import { readCsr } from '../../src/pki/csr.ts';
import { readEndorsementKey } from '../../src/pki/tpm/tpm-keys.ts';
import {
  activate,
  attestationArea,
  type SoftwareTpm,
  shownBy,
  softwareTpm,
} from '../unit/pki/tpm/software-tpm.ts';
import * as boot from '../unit/pxe/boot/world.ts';
import { type AgentBootHost, type Answer, CLUSTER, CP1_MAC, open } from './agent-boot-host.ts';

let bootHost: AgentBootHost;
afterEach(() => bootHost.close());

const OWN = softwareTpm('rsa');
const OTHER = softwareTpm('ecc');

const pinOf = (csr: string): string => {
  const read = readCsr(csr);
  if (!read.ok) throw new Error(read.text);
  return read.publicKey.pin();
};
const keyOf = ({ ek }: SoftwareTpm) => {
  const read = readEndorsementKey(ek);
  if (!read.ok) throw new Error(read.text);
  return read.key.publicKey;
};

type Ticket = { session: string; ticket: string };

/** Asks for a certificate and shows a TPM. */
const show = (of: Ticket, csr: string, tpm: SoftwareTpm, more: Readonly<Record<string, string>> = {}) =>
  bootHost.curl('/agent/redeem', { ...of, csr, tpm: shownBy(tpm), ...more });

/** The proof that this TPM makes of a challenge; undefined when it cannot open it. */
const proofFor = (
  { session }: Ticket,
  csr: string,
  tpm: SoftwareTpm,
  challenge: Answer,
): string | undefined => {
  const secret = activate(tpm, Buffer.from(String(challenge.body), 'base64'));
  return secret && proofOf(secret, { session, pin: pinOf(csr) }).toString('hex');
};

/** What a machine with a TPM does. */
async function redeem(of: Ticket, csr: string, tpm: SoftwareTpm): Promise<Answer> {
  const challenge = await show(of, csr, tpm);
  if (challenge.status !== 202 || !challenge.headers.includes('muster-hold: tpm')) return challenge;
  return show(of, csr, tpm, { proof: proofFor(of, csr, tpm, challenge)! });
}

const reasons = (kind: string): (string | undefined)[] =>
  bootHost.events
    .list({ subject: 'cp1' })
    .flatMap((event) => (event.kind === kind ? [event.reason?.code] : []));
const pinned = (): string | undefined => bootHost.agents.tpm('cp1')?.ek;

/** The documents with further fields in the spec of cp1, and in the Cluster. */
const documents = (machine: object, cluster: object = {}): object[] => [
  ...CLUSTER.filter(({ kind, metadata }) => kind !== 'Cluster' && metadata.name !== 'cp1'),
  boot.machine('cp1', [CP1_MAC], { profile: 'worker', addresses: ['10.77.0.11'], ...machine }),
  boot.document('Cluster', 'one', {
    kubernetes: { version: '1.36', endpoint: 'api.one.test', controlPlanes: ['cp1', 'cp2'] },
    ...cluster,
  }),
];

describe('a machine with a TPM', () => {
  it('opens a challenge at its first boot, and from then on only this TPM has its identity', async () => {
    bootHost = await open();
    const first = await bootHost.configured(CP1_MAC);
    const challenge = await show(first, bootHost.key('a').csr, OWN);
    expect([challenge.status, challenge.headers.includes('muster-hold: tpm')]).toEqual([202, true]);
    expect(pinned()).toBeUndefined();
    expect((await redeem(first, bootHost.key('a').csr, OWN)).status).toBe(200);
    expect(pinned()).toBe(keyOf(OWN).pin());
    expect(reasons('agent.tpm')).toHaveLength(1);

    const second = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('b');
    expect((await bootHost.redeem(second, csr)).status).toBe(409);
    expect((await redeem(second, csr, OTHER)).status).toBe(409);
    expect(reasons('agent.refused')).toEqual(['tpm_missing', 'tpm_changed']);
    expect(bootHost.roster.get('cp1')?.status.alarm?.code).toBe('tpm_missing');
    // The machine itself is not stopped by what others tried in its name.
    expect((await redeem(second, csr, OWN)).status).toBe(200);
    expect(reasons('agent.tpm')).toHaveLength(1);
  });

  it('keeps its identity over a restart of the server, and an operator who rearms it forgets its TPM', async () => {
    bootHost = await open();
    const first = await bootHost.configured(CP1_MAC);
    expect((await redeem(first, bootHost.key('a').csr, OWN)).status).toBe(200);
    bootHost = await bootHost.again();
    expect(pinned()).toBe(keyOf(OWN).pin());
    const second = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('b');
    expect((await redeem(second, csr, OTHER)).status).toBe(409);
    await bootHost.agents.rearm('cp1', { keep: true });
    expect((await redeem(second, csr, OTHER)).status).toBe(409);
    await bootHost.agents.rearm('cp1', { keep: false });
    expect(pinned()).toBeUndefined();
    expect((await redeem(second, csr, OTHER)).status).toBe(200);
    expect(pinned()).toBe(keyOf(OTHER).pin());
  });

  it('of which a document names the TPM is refused without it from its first boot on', async () => {
    bootHost = await open(documents({ tpm: { endorsementKey: keyOf(OWN).pem() } }));
    const ticket = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('a');
    expect((await bootHost.redeem(ticket, csr)).status).toBe(409);
    expect((await redeem(ticket, csr, OTHER)).status).toBe(409);
    expect((await redeem(ticket, csr, OWN)).status).toBe(200);
    expect(bootHost.agents.tpm('cp1')).toMatchObject({
      ek: keyOf(OWN).pin(),
      from: 'document',
      vouched: true,
    });
  });

  it('waits for an operator at tier tpm when nothing is known of its TPM, and never again', async () => {
    bootHost = await open(documents({ trust: 'tpm' }));
    const first = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('a');
    expect((await bootHost.redeem(first, csr)).status).toBe(403);
    // Without a TPM it is no attack on this machine: nothing is known of it.
    expect(bootHost.roster.get('cp1')?.status.alarm).toBeUndefined();
    const held = await redeem(first, csr, OWN);
    expect([held.status, held.headers.includes('muster-hold: approval')]).toEqual([202, true]);
    // While it waits its TPM has nothing more to open.
    const again = await show(first, csr, OWN);
    expect(again.headers).toContain('muster-hold: approval');
    const nonce = /muster-nonce: ([0-9a-f]+)/.exec(again.headers)![1]!;
    const [view] = bootHost.agents.waiting({ codes: true });
    const { authority } = bootHost.settings.get('cp1')!;
    expect(view?.code).toBe(approvalCode({ machine: 'cp1', pin: pinOf(csr), authority, nonce }));
    await bootHost.agents.approve('cp1', view!.code!);
    expect((await show(first, csr, OWN)).status).toBe(200);
    expect(bootHost.agents.tpm('cp1')).toMatchObject({ ek: keyOf(OWN).pin(), vouched: true });

    const second = await bootHost.configured(CP1_MAC);
    expect((await redeem(second, bootHost.key('b').csr, OWN)).status).toBe(200);
  });
});

describe('an answer to a challenge', () => {
  it('counts once, for a minute, and for the key that was shown when the challenge was made', async () => {
    bootHost = await open();
    const ticket = await bootHost.configured(CP1_MAC);
    const [mine, other] = [bootHost.key('a'), bootHost.key('b')];
    const challenge = await show(ticket, mine.csr, OWN);
    const proof = proofFor(ticket, mine.csr, OWN, challenge)!;
    // Somebody between machine and server puts a key of its own in the place of the machine's.
    expect((await show(ticket, other.csr, OWN, { proof })).status).toBe(403);
    expect((await show(ticket, mine.csr, OTHER, { proof })).status).toBe(403);
    const elsewhere = { ...OWN, ak: attestationArea() };
    expect((await show(ticket, mine.csr, elsewhere, { proof })).status).toBe(403);
    bootHost.clock.advance((CHALLENGE_LIFETIME + 1) as Millis);
    expect((await show(ticket, mine.csr, OWN, { proof })).status).toBe(403);
    expect(new Set(reasons('agent.refused'))).toEqual(new Set(['tpm_proof']));

    const fresh = await show(ticket, mine.csr, OWN);
    const right = proofFor(ticket, mine.csr, OWN, fresh)!;
    expect((await show(ticket, mine.csr, OWN, { proof: right })).status).toBe(200);
    const next = await bootHost.configured(CP1_MAC);
    expect((await show(next, mine.csr, OWN, { proof: right })).status).toBe(403);
    expect((await show(next, other.csr, OWN, { proof: right })).status).toBe(403);
  });

  it('cannot be made by somebody who knows the public keys only', async () => {
    bootHost = await open(documents({ tpm: { endorsementKey: `sha256:${keyOf(OWN).pin()}` } }));
    const ticket = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('a');
    const thief = { ...OWN, privateKey: softwareTpm('rsa').privateKey };
    const challenge = await show(ticket, csr, thief);
    expect(challenge.status).toBe(202);
    expect(proofFor(ticket, csr, thief, challenge)).toBeUndefined();
    for (const guess of ['', '00'.repeat(32), createHash('sha256').update(challenge.body).digest('hex')])
      expect((await show(ticket, csr, thief, { proof: guess })).status).toBe(403);
  });

  it('with a malformed TPM is refused with the reason', async () => {
    bootHost = await open();
    const ticket = await bootHost.configured(CP1_MAC);
    const { csr } = bootHost.key('a');
    const { body, status } = await bootHost.curl('/agent/redeem', { ...ticket, csr, tpm: 'ek AAAA' });
    expect(status).toBe(403);
    expect(String(body)).toContain('its TPM: no endorsement key or no attestation key');
  });
});
