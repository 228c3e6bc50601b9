/**
 * Renews an agent's certificate before it ends, and when another generation of the transport CA
 * signs. The new certificate is for the same key and comes with the plan. Both certificates are
 * believed until the machine has polled with the new one.
 */
import { createPublicKey } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { duration } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import { PublicKey } from '../pki/keys.ts';
import type { Pki } from '../pki/pki.ts';
import { NO_CLUSTER } from '../pki/server-certificate.ts';
import { MUSTER_SCOPE } from '../store/keys.ts';
import type { AgentFacts } from './facts.ts';
import type { AgentRecord, Identities } from './identities.ts';
import { AGENT_PATHS, type PlanLine } from './plan.ts';

/** How long before its end a certificate is renewed: a third of its year. */
const RENEW_BEFORE = duration('120d');

interface RenewalDeps {
  readonly identities: Identities;
  readonly pki: Pki;
  readonly clock: Clock;
  /** Id of the transport CA's generation that signs. */
  readonly primary: () => string;
}

export interface Renewed {
  /** DER of the SubjectPublicKeyInfo. */
  readonly spki: Buffer;
  /** Ms since 1970. */
  readonly notAfter: number;
}

/**
 * Resolves to the plan line that replaces the certificate; to no line while it need not be replaced
 * or while a concurrent request replaces it.
 */
export async function renewal(
  { identities, pki, clock, primary }: RenewalDeps,
  record: AgentRecord,
  shown: Renewed,
  facts: AgentFacts,
): Promise<readonly PlanLine[]> {
  if (shown.notAfter - clock.now() > RENEW_BEFORE && record.generation === primary()) return [];
  const certificate = await next({ identities, pki }, record, shown.spki);
  if (certificate === undefined) return [];
  const mounted = facts.disk.state === 'ours' && facts.disk.mounted;
  // Without a data filesystem the agent keeps its certificate below /run.
  const path = mounted ? AGENT_PATHS.certificate : `${AGENT_PATHS.run}/agent/agent.crt`;
  return [{ do: 'put', mode: 0o600, path, content: { text: certificate } }];
}

/**
 * The certificate that was already made for this renewal, or a new one; undefined when a concurrent
 * request makes one.
 */
async function next(
  { identities, pki }: Pick<RenewalDeps, 'identities' | 'pki'>,
  record: AgentRecord,
  spki: Buffer,
): Promise<string | undefined> {
  if (record.next !== undefined) return (await pki.issuedOne(MUSTER_SCOPE, record.next.serial))?.certificate;
  try {
    const { certificate } = await pki.issue(MUSTER_SCOPE, {
      leaf: 'agent',
      holder: { name: record.machine, addresses: [] },
      cluster: NO_CLUSTER,
      publicKey: new PublicKey(createPublicKey({ key: spki, format: 'der', type: 'spki' })),
      also: ({ serial, issuer }) =>
        identities.renewing(record.machine, { serial, generation: issuer.generation }),
    });
    await identities.took(record.machine);
    return certificate;
  } catch (error) {
    if (error instanceof MusterError && error.code === 'E_CONFLICT') return undefined;
    throw error;
  }
}
