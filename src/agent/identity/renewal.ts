/**
 * Renews an agent's certificate before it ends, and when another generation of the transport CA
 * signs. The new certificate is for the same key and comes with the plan. Both certificates are
 * believed until the machine has polled with the new one.
 */
import { createPublicKey } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { duration } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import { AGENT_LIFETIME } from '../../pki/hierarchy.ts';
import { PublicKey } from '../../pki/keys.ts';
import type { Pki } from '../../pki/pki.ts';
import { renewsAt } from '../../pki/renewal-time.ts';
import { NO_CLUSTER } from '../../pki/server-certificate.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import type { AgentFacts } from '../wire/facts.ts';
import { AGENT_PATHS, type PlanLine } from '../wire/plan.ts';
import type { AgentRecord, Identities } from './identities.ts';

/** With more of its usual life left, a certificate is not renewed yet: see renewsAt. */
const NOT_YET = AGENT_LIFETIME * 0.6;
/**
 * A certificate that is good for longer is of a time when they lived for a year, or when this
 * host's clock was wrong, and is renewed, too.
 */
const LONGEST = AGENT_LIFETIME + duration('1d');

interface RenewalDeps {
  readonly identities: Identities;
  readonly pki: Pki;
  readonly clock: Clock;
  /** Id of the transport CA's generation that signs. */
  readonly primary: () => string;
}

export interface Renewed {
  /** Hexadecimal, lower case. */
  readonly serial: string;
  /** DER of the SubjectPublicKeyInfo. */
  readonly spki: Buffer;
  /** Ms since 1970. */
  readonly notAfter: number;
}

/**
 * Resolves to the plan line that replaces the certificate; to no line while it need not be replaced
 * or while a concurrent request replaces it.
 *
 * @throws {MusterError} E_CERTIFICATE_LIMIT when it has ended and the machine got many lately.
 */
export async function renewal(
  { identities, pki, clock, primary }: RenewalDeps,
  record: AgentRecord,
  shown: Renewed,
  facts: AgentFacts,
): Promise<readonly PlanLine[]> {
  if (clock.doubt() !== undefined) return [];
  const left = shown.notAfter - clock.now();
  const isDue = async (): Promise<boolean> => {
    if (left > NOT_YET) return false;
    const issued = await pki.issuedOne(MUSTER_SCOPE, shown.serial);
    return issued === undefined || clock.now() >= renewsAt(issued);
  };
  if (left <= LONGEST && record.generation === primary() && !(await isDue())) return [];
  const certificate = await next({ identities, pki, clock, primary }, record, shown.spki).catch(
    (error: unknown) => {
      // The certificate is good for a while, so a later poll renews it.
      if (left > 0 && error instanceof MusterError && error.code === 'E_CERTIFICATE_LIMIT') return undefined;
      throw error;
    },
  );
  if (certificate === undefined) return [];
  const path = isInState(record.machine, facts)
    ? AGENT_PATHS.certificate
    : `${AGENT_PATHS.run}/agent/agent.crt`;
  return [{ do: 'put', mode: 0o600, path, content: { text: certificate } }];
}

/**
 * Whether the agent keeps its identity in its own directory, as choose_identity of
 * muster-identity.sh decides: on the data filesystem, unless another machine's marker is there, and
 * on a machine that is to have no data disk. Otherwise the identity is below /run.
 */
function isInState(machine: string, { disk, marker }: AgentFacts): boolean {
  if (disk.state === 'unused') return true;
  return disk.state === 'ours' && disk.mounted && (marker === undefined || marker.machine === machine);
}

/**
 * The certificate that was already made for this renewal, or a new one; undefined when a concurrent
 * request makes one.
 */
async function next(
  { identities, pki, clock, primary }: RenewalDeps,
  record: AgentRecord,
  spki: Buffer,
): Promise<string | undefined> {
  const signed = record.next?.generation === primary() ? record.next : undefined;
  const made = signed && (await pki.issuedOne(MUSTER_SCOPE, signed.serial));
  // One that the machine never took may have ended meanwhile.
  if (made !== undefined && made.notAfter > clock.now()) return made.certificate;
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
