/**
 * The certificates of one machine for the keys that it made, and which it has to request first.
 */
import type { ProbeName } from '../../agent/wire/evidence.ts';
import type { AgentFacts } from '../../agent/wire/facts.ts';
import { MusterError } from '../../base/errors.ts';
import type { EventSink, Reason } from '../../events/event.ts';
import { readCsr } from '../../pki/csr.ts';
import type { HandoutOf, Held } from '../../pki/handout.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import type { PublicKey } from '../../pki/keys.ts';
import type { Pki } from '../../pki/pki.ts';
import type { ClusterMachine, ResolvedCluster } from '../model/resolved-cluster.ts';
import { joinsByToken } from '../resolve/by-token.ts';
import { clusterNames, holderOf } from '../resolve/certificate-names.ts';
import { type Certificates, leavesOf } from './certificates.ts';
import type { Keys } from './cluster-keys.ts';
import { clockText, type Missing } from './plan-of.ts';
import type { Probing } from './probes.ts';

/** The machine that polls, its cluster, and the facts that it reports. */
export interface Poll {
  readonly resolved: ResolvedCluster;
  readonly machine: ClusterMachine;
  readonly facts: AgentFacts;
}

interface Leaves {
  readonly held: ReadonlyMap<LeafName, Held>;
  readonly probes: ReadonlyMap<ProbeName, string>;
  /** Absent when the machine has all of them. */
  readonly missing?: Missing;
}

/**
 * Gets the certificates of the machine's leaves and probes, and records requests that are refused.
 *
 * @param applies Whether the machine applies in-cluster objects now.
 * @throws {MusterError} the store's errors
 */
export async function leavesFor(
  { certificates, events }: { readonly certificates: Certificates; readonly events: EventSink },
  { resolved, machine, facts }: Poll,
  keys: Keys,
  applies: boolean,
  { probes: wanted }: Probing,
): Promise<Leaves> {
  const leaves = leavesOf(resolved, machine, applies).filter(
    (leaf) => leaf !== 'kubelet' || !joinsByToken(resolved, machine),
  );
  const subject = machine.name;
  let refused = false;
  let limited: Reason | undefined;
  const request = (leaf: LeafName): PublicKey | undefined => {
    const text = facts.requests.get(leaf);
    if (text === undefined) return undefined;
    const read = readCsr(text);
    if (read.ok) return read.publicKey;
    refused = true;
    const reason = { code: read.reason, text: `A request for ${leaf} was refused: ${read.text}.` };
    events.record({ kind: 'certificate.refused', subject, reason });
    return undefined;
  };
  const get = async (leaf: LeafName, generation?: string) => {
    const publicKey = request(leaf);
    const pin = facts.pins.get(leaf) ?? publicKey?.pin();
    if (pin === undefined) return undefined;
    const order = {
      leaf,
      holder: holderOf(machine),
      cluster: clusterNames(resolved),
      publicKey,
      generation,
      lifetime: resolved.pki.leafLifetime,
    };
    return certificates.get(resolved.name, keys, { ...order, pin }).catch((error: unknown) => {
      limited = whyLimited(error);
      return undefined;
    });
  };
  const issued = await Promise.all(leaves.map((leaf) => get(leaf)));
  const held = new Map<LeafName, Held>();
  /** The leaves that lack a certificate, with the pin of the key that is to be replaced. */
  const lacking = new Map<LeafName, string | undefined>();
  const lacks = (leaf: LeafName, made: 'new-key' | undefined): void =>
    void lacking.set(leaf, made === 'new-key' ? facts.pins.get(leaf) : undefined);
  for (const [n, leaf] of leaves.entries()) {
    const made = issued[n];
    if (made !== undefined && made !== 'new-key') held.set(leaf, made);
    else lacks(leaf, made);
  }
  const probes = new Map<ProbeName, string>();
  for (const { name, leaf, generation } of wanted) {
    const made = await get(leaf, generation);
    if (made !== undefined && made !== 'new-key') probes.set(name, made.certificate);
    else lacks(leaf, made);
  }
  if (limited?.code === 'too-many-certificates')
    events.record({ kind: 'certificate.refused', subject, reason: { code: 'too_many', text: limited.text } });
  if (limited) return { held, probes, missing: { limited } };
  if (lacking.size === 0) return { held, probes };
  return { held, probes, missing: { leaves: lacking, algorithm: resolved.keys, refused } };
}

/** The private keys with which a control plane's programs sign, or why it does not get them. */
export async function signingKeys(
  pki: Pick<Pki, 'handedOut'>,
  { resolved, machine }: Pick<Poll, 'resolved' | 'machine'>,
  { keysets }: Pick<Keys, 'keysets'>,
): Promise<{ readonly signing: HandoutOf['signing']; readonly refused?: { readonly limited: Reason } }> {
  if (!machine.roles.includes('control-plane')) return { signing: new Map() };
  try {
    return { signing: await pki.handedOut(resolved.name, machine.name, keysets) };
  } catch (error) {
    return { signing: new Map(), refused: { limited: whyLimited(error) } };
  }
}

/** Why nothing is issued now; throws what is no limit. */
function whyLimited(error: unknown): Reason {
  if (error instanceof MusterError && error.code === 'E_CLOCK')
    return { code: 'clock', text: clockText(error.message) };
  if (error instanceof MusterError && error.code === 'E_CERTIFICATE_LIMIT')
    return { code: 'too-many-certificates', text: error.message };
  if (error instanceof MusterError && (error.code === 'E_SIGNER_REFUSED' || error.code === 'E_SIGNER'))
    return { code: 'signer', text: error.message };
  throw error;
}
