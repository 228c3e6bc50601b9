/** Checks that every machine's configuration renders: when a document is applied, not while a machine waits for it. */
import type { Fault } from '../base/errors.ts';
import { type Cidr, cidr, contains, ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  type DocumentId,
  spotOf,
} from '../resources/candidate.ts';
import type { ConfigCheck } from '../resources/catalog.ts';
import { parsePath } from '../resources/document.ts';
import type { ClusterSpec, Document, ImageSpec, NetworkSpec, ProfileSpec } from '../resources/kinds.ts';
import { clustersByMachine } from '../resources/membership.ts';
import type { NodeConfig } from '../resources/nodeconfig.ts';
import { expandConfig } from './expand.ts';
import { merge } from './merge.ts';
import { render, scopeOf, withMusterLayer } from './render.ts';
import type { ConfigLayer, RenderInput } from './rendered.ts';
import { templateFault } from './template.ts';

/** What a machine's configuration is made of; all are immutable, so the same ones give the same result. */
interface Parts {
  readonly machine: Document<'Machine'>;
  readonly profile: Document<'Profile'> | undefined;
  readonly cluster: Document<'Cluster'> | undefined;
  readonly image: Document<'Image'> | undefined;
  readonly network: Document<'Network'> | undefined;
}

/** Classes of machines without a configuration of their own that are known to render; only their templates differ. */
const checkedClasses = new WeakMap<object, Parts>();

const checked = new WeakMap<object, { readonly parts: Parts; readonly faults: readonly Fault[] }>();

/** Faults of the configurations concerned by `changed` (undefined: all). Each names the document that holds the faulty value. */
export const checkConfigurations: ConfigCheck = (candidates, changed) => {
  const found = new Findings(candidates);
  for (const kind of ['Cluster', 'Profile'] as const)
    for (const candidate of candidates[kind].values())
      if (!changed || changed.has(`${kind}/${candidate.document.metadata.name}`)) lint(candidate, found);
  const networks = [...candidates.Network.values()].map(({ document }) => ({
    document,
    subnet: cidr(document.spec.subnet),
  }));
  const roles = clustersByMachine([...candidates.Cluster.values()].map(({ document }) => document));
  for (const { document } of candidates.Machine.values()) {
    const cluster = document.spec.cluster ?? roles.get(document.metadata.name);
    const parts = partsOf(document, cluster, candidates, networks);
    const before = checked.get(document);
    // A Cluster that gives it no role any more is none of its parts.
    const left = before !== undefined && before.parts.cluster !== parts.cluster;
    if (!changed || left || idsOf(parts).some((id) => changed.has(id)))
      for (const fault of faultsOf(parts)) found.add(fault, `Machine/${document.metadata.name}`);
  }
  return found.all();
};

function partsOf(
  machine: Document<'Machine'>,
  cluster: string | undefined,
  candidates: CandidateSet,
  networks: readonly { readonly document: Document<'Network'>; readonly subnet: Cidr }[],
): Parts {
  const { spec } = machine;
  const profile = spec.profile === undefined ? undefined : candidates.Profile.get(spec.profile)?.document;
  const image =
    profile?.spec.image === undefined ? undefined : candidates.Image.get(profile.spec.image)?.document;
  const address = spec.addresses?.find((text) => !text.includes(':'));
  const number = address === undefined ? undefined : ipv4(address);
  return {
    machine,
    profile,
    image,
    cluster: cluster === undefined ? undefined : candidates.Cluster.get(cluster)?.document,
    // A machine without an address of its own may boot from any.
    network: ((number !== undefined && networks.find((one) => contains(one.subnet, number))) || networks[0])
      ?.document,
  };
}

function idsOf(parts: Parts): DocumentId[] {
  return Object.values(parts)
    .filter((one: Document | undefined) => one !== undefined)
    .map((one: Document): DocumentId => `${one.kind}/${one.metadata.name}`);
}

function faultsOf(parts: Parts): readonly Fault[] {
  const { profile, cluster, machine } = parts;
  if (!profile?.spec.config && !cluster?.spec.config && !machine.spec.config) return [];
  const known = checked.get(machine);
  if (known && sameParts(known.parts, parts)) return known.faults;
  const faults = renderFaults(parts);
  checked.set(machine, { parts, faults });
  return faults;
}

/**
 * Whole for the first machine of a class, and for each with a configuration of its own. For the others of the class only the
 * templates, which is all that can differ.
 */
function renderFaults(parts: Parts): readonly Fault[] {
  const input = inputOf(parts);
  const base = parts.machine.spec.config ? undefined : (parts.profile ?? parts.cluster);
  const same = base && checkedClasses.get(base);
  if (same && sameParts(same, parts)) {
    const expanded = expandConfig(merge(withMusterLayer(input)), scopeOf(input));
    return expanded.ok ? [] : expanded.faults;
  }
  const result = render(input);
  if (result.ok && base) checkedClasses.set(base, parts);
  return result.ok ? [] : result.faults;
}

const sameParts = (a: Parts, b: Parts): boolean =>
  a.profile === b.profile && a.cluster === b.cluster && a.image === b.image && a.network === b.network;

/** Until an image is there, its documents are taken to be those of the oldest cloud-init that we know. */
const NO_IMAGE: Pick<ImageSpec, 'os' | 'configFormat'> = { os: 'debian', configFormat: 'cloud-init' };
const SERVER = '192.0.2.1';
const SESSION = 'the-session-of-a-boot00';

function inputOf(parts: Parts): RenderInput {
  const { machine, profile, cluster, network } = parts;
  const { spec } = machine;
  const address = spec.addresses?.find((text) => !text.includes(':'));
  const address6 = spec.addresses?.find((text) => text.includes(':'));
  const net: NetworkSpec | undefined = network?.spec;
  return {
    layers: layers(cluster, profile, machine),
    image: parts.image?.spec ?? NO_IMAGE,
    instanceId: machine.metadata.name,
    context: {
      machine: {
        name: machine.metadata.name,
        mac: spec.macs[0] as Mac,
        ...(spec.uuid !== undefined && { uuid: spec.uuid }),
        ...(spec.serial !== undefined && { serial: spec.serial }),
        ...(address !== undefined && { address }),
        ...(address6 !== undefined && { address6 }),
      },
      ...(net && {
        network: {
          name: network!.metadata.name,
          subnet: net.subnet,
          ...(net.gateway !== undefined && { gateway: net.gateway }),
          ...(net.domain !== undefined && { domain: net.domain }),
        },
      }),
      profile: { name: profile?.metadata.name ?? 'none' },
      ...(cluster && { cluster: { name: cluster.metadata.name } }),
      boot: { url: `http://${SERVER}:8080/boot/${SESSION}`, session: SESSION, server: SERVER },
    },
  };
}

/** Cluster → profile → machine, those that carry a configuration. */
function layers(
  cluster: Document<'Cluster'> | undefined,
  profile: Document<'Profile'> | undefined,
  machine: Document<'Machine'>,
): readonly ConfigLayer[] {
  const all: [ConfigLayer['layer'], Document | undefined, NodeConfig | undefined][] = [
    ['cluster', cluster, cluster?.spec.config],
    ['profile', profile, profile?.spec.config],
    ['machine', machine, machine.spec.config],
  ];
  return all.flatMap(([layer, document, config]) =>
    config ? [{ layer, document: `${document!.kind}/${document!.metadata.name}`, config }] : [],
  );
}

/** Templates that no machine could fill, in a document that perhaps no machine uses yet. */
function lint(candidate: Candidate<'Cluster'> | Candidate<'Profile'>, found: Findings): void {
  const {
    spec,
    kind,
    metadata,
  }: { spec: ClusterSpec | ProfileSpec; kind: string; metadata: { name: string } } = candidate.document;
  const visit = (value: unknown, path: string) => {
    if (typeof value === 'string') {
      const message = value.includes('${') ? templateFault(value) : undefined;
      if (message) found.add({ code: 'E_CONFIG', message: `${kind}/${metadata.name}: ${message}`, path });
    } else if (Array.isArray(value)) for (const [n, item] of value.entries()) visit(item, `${path}[${n}]`);
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`);
  };
  visit(spec.config, 'spec.config');
}

interface Finding {
  readonly fault: Fault;
  readonly document: DocumentId;
  readonly other?: DocumentId;
  machines: number;
}

/** The same fault of a profile concerns all its machines: told once, with the number of them. */
class Findings {
  readonly #candidates: CandidateSet;
  readonly #found = new Map<string, Finding>();

  constructor(candidates: CandidateSet) {
    this.#candidates = candidates;
  }

  add(fault: Fault, machine?: DocumentId): void {
    const key = `${fault.path} ${fault.message}`;
    const before = this.#found.get(key);
    if (before) {
      before.machines++;
      return;
    }
    const document = (/^[A-Z][a-z]+\/[^:]+(?=:)/.exec(fault.message)?.[0] ?? machine) as DocumentId;
    this.#found.set(key, {
      fault,
      document,
      ...(machine && machine !== document && { other: machine }),
      machines: 1,
    });
  }

  all(): readonly CrossFault[] {
    return [...this.#found.values()].map(({ fault, document, other, machines }) => {
      const [kind, name] = document.split('/') as [keyof CandidateSet, string];
      const candidate = this.#candidates[kind]?.get(name) as Candidate | undefined;
      const at = candidate && spotOf(candidate, parsePath(fault.path ?? ''));
      const more = machines > 1 ? ` and ${machines - 1} more` : '';
      return {
        fault: {
          ...fault,
          message: other ? `${fault.message} (for ${other}${more})` : fault.message,
          ...(at && { at }),
        },
        document,
        ...(other && { other }),
        severity: 'error',
      };
    });
  }
}
