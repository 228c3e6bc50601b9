/**
 * Compares Machine documents with the machines that run a founded cluster: the address at which the
 * others know a machine, its network cards, and whether it has a document at all. A server that
 * starts with a changed file has no former document, so what agents reported counts. Pure.
 */
import type { ErrorCode } from '../../base/errors.ts';
import { parseMac } from '../../base/mac.ts';
import type { CandidateSet } from '../../resources/candidate.ts';
import type { RunningCluster, RunningMachine } from './release.ts';

export interface IdentityChange {
  readonly machine: string;
  readonly code: ErrorCode;
  readonly message: string;
  /** Whether a person may accept it. */
  readonly survivable: boolean;
}

/**
 * Machine documents by which a machine of the control plane or a member of etcd would not be what
 * it was.
 *
 * @param named The machines that the Cluster names.
 * @param addressOf The address that a machine would have; undefined where its document names none.
 */
export function identityChanges(
  cluster: string,
  named: ReadonlySet<string>,
  { machines }: RunningCluster,
  candidates: CandidateSet,
  addressOf: (machine: string) => string | undefined,
): readonly IdentityChange[] {
  const byMac = new Map(
    [...candidates.Machine].flatMap(([name, { document }]) =>
      document.spec.macs.map((mac) => [parseMac(mac) ?? mac, name] as const),
    ),
  );
  return [...machines].flatMap(([machine, runs]): IdentityChange[] => {
    if (!runs.serves || !named.has(machine)) return [];
    const spec = candidates.Machine.get(machine)?.document.spec;
    const remedy = `\`muster cluster remove-node ${cluster} ${machine}\` takes it out, and \`add-node\` adds it`;
    const owner = (runs.macs ?? []).map((mac) => byMac.get(mac)).find((name) => name !== undefined);
    if (spec === undefined) {
      const renamed =
        owner === undefined
          ? ''
          : `; its hardware address is in Machine "${owner}", and a machine keeps its name`;
      const message = `${machine} runs a part of its control plane or etcd, and has no Machine document any more${renamed}; ${remedy} again under another name`;
      return [{ machine, code: 'E_CONFIRM', message, survivable: true }];
    }
    return [
      ...addressChange(machine, runs, addressOf(machine), remedy),
      ...cardChange(machine, runs, spec.macs, owner),
    ];
  });
}

function addressChange(
  machine: string,
  { address, member }: RunningMachine,
  wanted: string | undefined,
  remedy: string,
): readonly IdentityChange[] {
  if (address === undefined || address === wanted) return [];
  const will = wanted === undefined ? 'the document names none' : `the document says ${wanted}`;
  if (!member) {
    const message = `${machine} is a control plane at ${address}, and ${will}; clients and certificates follow only when it runs there`;
    return [{ machine, code: 'E_CONFIRM', message, survivable: true }];
  }
  const message = `${machine} is a member of etcd at ${address}, and ${will}; the other members would look for it at the former address for good. Put ${address} back; to move it, ${remedy} with the new address, one machine at a time`;
  return [{ machine, code: 'E_FOUNDED', message, survivable: false }];
}

/** A document that lists no card of the running machine. A new card is listed beside the old. */
function cardChange(
  machine: string,
  { macs = [] }: RunningMachine,
  wanted: readonly string[],
  owner: string | undefined,
): readonly IdentityChange[] {
  const listed = new Set(wanted.map((mac) => parseMac(mac) ?? mac));
  if (macs.length === 0 || macs.some((mac) => listed.has(parseMac(mac) ?? mac))) return [];
  const other = owner === undefined ? '' : `, and Machine "${owner}" lists one of them`;
  const message = `${machine} reported the network cards ${macs.join(', ')}; its document lists none of them${other}, so it would boot as another machine. After a card was replaced, list the new address beside the former one`;
  return [{ machine, code: 'E_CONFIRM', message, survivable: true }];
}
