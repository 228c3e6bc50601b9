/**
 * What a machine asks its own listeners while keys are rotated: every generation of every CA that
 * has more than one gets a probe certificate, and the machine reports which of them its listeners
 * accept. Pure.
 */
import {
  LISTENER_NAMES,
  LISTENERS,
  type ListenerName,
  type ProbeName,
  probeName,
} from '../../agent/wire/evidence.ts';
import { type PlanLine, probePath } from '../../agent/wire/plan.ts';
import type { EncryptionKeyset } from '../../pki/encryption.ts';
import type { LeafName } from '../../pki/hierarchy.ts';
import { allGenerations } from '../../pki/keyset.ts';
import { KEYSETS, type ProbedKeyset } from '../../pki/keysets.ts';
import type { Keysets } from '../../pki/pki.ts';
import { addressOf, type ClusterMachine, type ClusterRole } from '../model/resolved-cluster.ts';

/** The machines that have each listener; it is at their own address, or at loopback alone. */
const PLACES: Readonly<
  Record<ListenerName, { readonly roles: readonly ClusterRole[]; readonly loopback?: true }>
> = {
  'kube-apiserver': { roles: ['control-plane'] },
  kubelet: { roles: ['control-plane', 'worker'] },
  'kube-controller-manager': { roles: ['control-plane'], loopback: true },
  'kube-scheduler': { roles: ['control-plane'], loopback: true },
  'etcd-client': { roles: ['etcd'] },
  'etcd-peer': { roles: ['etcd'] },
};

/** A keyset is probed with its newest generations; a rotation has two. */
const MOST_GENERATIONS = 3;

/** A probe certificate that the machine needs. */
export interface WantedProbe {
  readonly name: ProbeName;
  readonly keyset: ProbedKeyset;
  readonly leaf: LeafName;
  readonly generation: string;
}

/** What a machine has to probe now. */
export interface Probing {
  readonly probes: readonly WantedProbe[];
  /** The probe with which the API server is asked for its encryption configuration. */
  readonly encryption?: ProbeName;
}

const listenersOf = ({ roles }: ClusterMachine): readonly ListenerName[] =>
  LISTENER_NAMES.filter((name) => PLACES[name].roles.some((role) => roles.includes(role)));

const wanted = (keyset: ProbedKeyset, generation: string): WantedProbe => ({
  name: probeName(keyset, generation),
  keyset,
  leaf: KEYSETS[keyset].probedBy,
  generation,
});

/** The probes that a machine needs by the state of its cluster's keysets; mostly none. */
export function probingOf(
  machine: ClusterMachine,
  keysets: Keysets,
  encryption: EncryptionKeyset | undefined,
): Probing {
  const accepted = new Set<ProbedKeyset>(listenersOf(machine).flatMap((name) => LISTENERS[name].accepts));
  const probes = [...accepted].flatMap((name) => {
    const keyset = keysets.get(name);
    const all =
      keyset === undefined ? [] : allGenerations(keyset).toSorted((a, b) => b.createdAt - a.createdAt);
    return all.length < 2 ? [] : all.slice(0, MOST_GENERATIONS).map(({ id }) => wanted(name, id));
  });
  const frontProxy = keysets.get('front-proxy-ca');
  const rotates = encryption !== undefined && allGenerations(encryption).length > 1;
  if (!rotates || !frontProxy || !machine.roles.includes('control-plane')) return { probes };
  // The one that signs may be accepted only by its bridge, and no bridge is sent behind a probe.
  const newest = frontProxy.trusted.reduce((a, b) => (b.createdAt > a.createdAt ? b : a));
  const asks = wanted('front-proxy-ca', newest.id);
  const known = probes.some(({ name }) => name === asks.name);
  return { probes: known ? probes : [...probes, asks], encryption: asks.name };
}

/** The lines of the probes whose certificates are here. */
export function probeLines(
  machine: ClusterMachine,
  { probes, encryption }: Probing,
  certificates: ReadonlyMap<ProbeName, string>,
): readonly PlanLine[] {
  const here = probes.filter(({ name }) => certificates.has(name));
  const files = here.map(
    ({ name, leaf }): PlanLine => ({
      do: 'put-with-key',
      mode: 0o600,
      path: probePath(name),
      content: { text: certificates.get(name)! },
      leaf,
      append: 'pem',
    }),
  );
  const address = addressOf(machine);
  const asked = listenersOf(machine).flatMap((listener): readonly PlanLine[] => {
    const { port, accepts } = LISTENERS[listener];
    const own = here.filter(({ keyset }) => accepts.some((name) => name === keyset)).map(({ name }) => name);
    const at = PLACES[listener].loopback ? '127.0.0.1' : address;
    return own.length === 0 ? [] : [{ do: 'probe', listener, address: at, port, probes: own }];
  });
  const reads = here.some(({ name }) => name === encryption);
  return [
    ...files,
    ...asked,
    ...(encryption !== undefined && reads
      ? [
          {
            do: 'read-encryption',
            address,
            port: LISTENERS['kube-apiserver'].port,
            probe: encryption,
          } as const,
        ]
      : []),
  ];
}
