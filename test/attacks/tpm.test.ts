/** Attacks on a machine whose TPM is known, by somebody who has its ticket and its address. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { proofOf } from '../../src/agent/identity/tpm-challenges.ts';
import { readCsr } from '../../src/pki/csr.ts';
import { activate, type SoftwareTpm, shownBy, softwareTpm } from '../unit/pki/tpm/software-tpm.ts';
import { Agent, filesIn, HTTP, scriptOf, sessionIn, takeLease } from './machine.ts';
import { type Answer, Rig, VICTIM_MAC } from './rig.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(() => rig.close());

const OWN = softwareTpm('rsa');
const OTHER = softwareTpm('ecc');

/** Boots from the machine's address up to its configuration. */
async function booted(): Promise<Agent> {
  await takeLease(rig, 'vic', VICTIM_MAC);
  const script = await scriptOf(rig, 'vic', VICTIM_MAC);
  const session = sessionIn(script.body);
  const { body, status } = await rig.http('vic', `${HTTP}/boot/${session}/user-data`);
  expect([status, script.body]).toEqual([200, expect.stringContaining('kernel')]);
  return new Agent(rig, 'vic', filesIn(body));
}

const show = (agent: Agent, tpm: SoftwareTpm, proof?: string): Promise<Answer> =>
  agent.redeem('vic', { tpm: shownBy(tpm), ...(proof !== undefined && { proof }) });

/** The proof that a TPM makes for a key; undefined when it cannot open the challenge. */
function proofFor(agent: Agent, tpm: SoftwareTpm, challenge: Answer): string | undefined {
  const read = readCsr(agent.csr);
  if (!read.ok) throw new Error(read.text);
  const secret = activate(tpm, Buffer.from(challenge.body, 'base64'));
  return (
    secret && proofOf(secret, { session: agent.settings.session!, pin: read.publicKey.pin() }).toString('hex')
  );
}

const agents: Agent[] = [];
afterAll(() => {
  for (const agent of agents) agent.close();
});

const CODE = /^(E_[A-Z_]+)/;
const refused = ({ status, body }: Answer): readonly unknown[] => [status, CODE.exec(body)?.[1]];

it('somebody with ticket, address and MAC of a machine gets its identity by no means without its TPM', async () => {
  const machine = await booted();
  agents.push(machine);
  const challenge = await show(machine, OWN);
  expect([challenge.status, challenge.headers]).toEqual([202, expect.stringContaining('muster-hold: tpm')]);
  const proof = proofFor(machine, OWN, challenge)!;
  expect((await show(machine, OWN, proof)).status).toBe(200);

  // The machine is off, and somebody boots in its place: that gives a fresh ticket.
  const thief = await booted();
  agents.push(thief);
  expect(refused(await thief.redeem('vic'))).toEqual([409, 'E_TICKET_KEY']);
  expect(refused(await show(thief, OTHER))).toEqual([409, 'E_TICKET_KEY']);
  // The answer that the machine gave before is replayed, and a guess is as wrong.
  expect(refused(await show(thief, OWN, proof))).toEqual([403, 'E_TICKET']);
  expect(refused(await show(thief, OWN, '00'.repeat(32)))).toEqual([403, 'E_TICKET']);
  // The public keys of the TPM are no secret, but they open nothing.
  const posing = { ...OWN, privateKey: softwareTpm('rsa').privateKey };
  const sealed = await show(thief, posing);
  expect(sealed.status).toBe(202);
  expect(proofFor(thief, posing, sealed)).toBeUndefined();
  expect(await rig.operator('get', 'machines')).toContain('ALARM:tpm_missing');

  // Somebody between machine and server puts a key of its own beside the machine's answer.
  const genuine = await show(thief, OWN);
  const answer = proofFor(thief, OWN, genuine)!;
  const own = thief.csr;
  thief.newKey();
  expect(thief.csr).not.toBe(own);
  expect(refused(await show(thief, OWN, answer))).toEqual([403, 'E_TICKET']);

  // The TPM itself is served all the while.
  const last = await show(thief, OWN);
  expect((await show(thief, OWN, proofFor(thief, OWN, last)!)).status).toBe(200);
});
