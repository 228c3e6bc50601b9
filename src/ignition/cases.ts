/**
 * The ways in which a machine may boot, as far as its document says: from which network, with which
 * profile.
 */
import { cidr, contains, ipv4 } from '../base/ipv4.ts';
import { type NamedProfile, type Selectable, selectable } from '../machines/select.ts';
import { type CandidateSet, type DocumentId, idOf } from '../resources/candidate.ts';
import type { Document } from '../resources/kinds.ts';
import { clusterOfMachine, membershipsIn } from '../resources/membership.ts';
import type { Parts } from './input.ts';

/** The parts of one way to boot; the machine has a document. */
export interface Case extends Parts {
  readonly machine: Document<'Machine'>;
}

/** The cases of a machine, at least one. */
export type CasesOf = (machine: Document<'Machine'>) => readonly Case[];

/**
 * Returns a function that gives the cases of a machine, each machine's computed once. It takes the
 * candidates as they are now. A machine with an address
 * boots from that network, one without from any. A machine whose document names no profile gets the
 * profile that selects it; what only its firmware reports (architecture, manufacturer …) may be
 * anything.
 */
export function casesIn(candidates: CandidateSet): CasesOf {
  const networks = [...candidates.Network.values()].map(({ document }) => ({
    document,
    subnet: cidr(document.spec.subnet),
  }));
  const everywhere = networks.length === 0 ? [undefined] : networks.map(({ document }) => document);
  const profiles: readonly NamedProfile[] = [...candidates.Profile.values()]
    .filter(({ document }) => document.spec.selector !== undefined)
    .map(({ document }) => ({ name: document.metadata.name, spec: document.spec }));
  const byNetwork = profiles.some(({ spec }) => spec.selector?.network !== undefined);

  const roles = membershipsIn([...candidates.Cluster.values()].map(({ document }) => document));

  const placesOf = ({ spec }: Document<'Machine'>) => {
    const address = spec.addresses?.find((text) => !text.includes(':'));
    const number = address === undefined ? undefined : ipv4(address);
    const home = number !== undefined && networks.find((one) => contains(one.subnet, number));
    return home ? [home.document] : everywhere;
  };

  const selectedOf = ({ spec, metadata }: Document<'Machine'>, network: Document | undefined) => {
    const known: Selectable = {
      spec,
      labels: metadata.labels,
      macs: [],
      ...(spec.serial !== undefined && { serial: spec.serial }),
      ...(network && { network: network.metadata.name }),
    };
    return selectable(known, profiles).map((one) => one?.name);
  };

  const compute: CasesOf = (machine) => {
    const { profile: named } = machine.spec;
    const clusterOf = (name: string | undefined) =>
      name === undefined ? undefined : candidates.Cluster.get(name)?.document;
    const cluster = clusterOf(clusterOfMachine(machine.metadata.name, machine, roles));
    const agentCluster = clusterOf(roles.get(machine.metadata.name)?.cluster);
    const places = placesOf(machine);
    const once = named !== undefined ? [named] : byNetwork ? undefined : selectedOf(machine, undefined);
    return places.flatMap((network) =>
      (once ?? selectedOf(machine, network)).map((name): Case => {
        const profile = name === undefined ? undefined : candidates.Profile.get(name)?.document;
        const image = profile?.spec.image;
        return {
          machine,
          profile,
          image: image === undefined ? undefined : candidates.Image.get(image)?.document,
          cluster,
          agentCluster,
          network,
        };
      }),
    );
  };
  const known = new Map<Document<'Machine'>, readonly Case[]>();
  return (machine) => {
    const cases = known.get(machine) ?? compute(machine);
    known.set(machine, cases);
    return cases;
  };
}

/** The ids of the documents of `parts`; a document that has two roles is listed twice. */
export function idsOf(parts: Parts): DocumentId[] {
  return Object.values(parts)
    .filter((one: Document | undefined) => one !== undefined)
    .map((one: Document): DocumentId => idOf(one));
}

/** Whether two cases have the same documents, the Machine aside. */
export const sameParts = (a: Parts, b: Parts): boolean =>
  a.profile === b.profile &&
  a.cluster === b.cluster &&
  a.agentCluster === b.agentCluster &&
  a.image === b.image &&
  a.network === b.network;

/** Whether two lists have the same cases in the same order, the Machine aside. */
export const sameCases = (a: readonly Parts[] | undefined, b: readonly Parts[]): boolean =>
  a !== undefined && a.length === b.length && a.every((one, n) => sameParts(one, b[n]!));
