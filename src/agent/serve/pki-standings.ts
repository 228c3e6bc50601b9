/** Which certificates of the ledger their holders are still to use. */
import { isOfMachines } from '../../pki/hierarchy.ts';
import { type Standing, supersededSerials } from '../../pki/outlook.ts';
import type { IssuedCertificate } from '../../pki/records.ts';
import { MUSTER_SCOPE } from '../../store/keys.ts';
import type { Agents } from './agents.ts';

/**
 * Returns a function that judges each of a scope's certificates by what is known of its machine.
 * `issued`: the scope's whole ledger.
 */
export function pkiStandings(
  agents: Pick<Agents, 'certificateState' | 'agentCluster'> & {
    /** Whether Muster's CA signs the certificate of a machine's BMC. */
    readonly certifies: (machine: string) => boolean;
  },
  scope: string,
  issued: readonly IssuedCertificate[],
): (one: IssuedCertificate) => Standing {
  const superseded = supersededSerials(issued);
  return (one) => {
    if (one.leaf === 'agent') {
      const state = agents.certificateState(one.to, one.serial);
      return state === 'valid' ? 'current' : state;
    }
    if (one.leaf === 'bmc' && !agents.certifies(one.to)) return 'removed';
    const gone = scope !== MUSTER_SCOPE && isOfMachines(one.leaf) && agents.agentCluster(one.to) !== scope;
    if (gone) return 'removed';
    return superseded.has(one.serial) ? 'superseded' : 'current';
  };
}
