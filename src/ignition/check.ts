/**
 * Checks that every machine's configuration renders: when a document is applied, not while a
 * machine waits for it.
 */
import type { Fault } from '../base/errors.ts';
import type { Mac } from '../base/mac.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  type DocumentId,
  idOf,
  spotOf,
} from '../resources/candidate.ts';
import type { ConfigCheck } from '../resources/catalog.ts';
import { parsePath } from '../resources/document.ts';
import type { ClusterSpec, Document, ImageSpec, NetworkSpec, ProfileSpec } from '../resources/kinds.ts';
import type { NodeConfig } from '../resources/nodeconfig.ts';
import { casesIn, idsOf, type Parts, sameCases, sameParts } from './cases.ts';
import { expandConfig, names } from './expand.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';
import { merge } from './merge.ts';
import { render, scopeOf, withMusterLayer } from './render.ts';
import type { ConfigLayer, RenderInput } from './rendered.ts';
import { templateFault } from './template.ts';

const checked = new WeakMap<
  Document<'Machine'>,
  { readonly cases: readonly Parts[]; readonly told: readonly Told[] }
>();

/**
 * Faults of the configurations concerned by `changed` (undefined: all). Each names the document
 * that holds the faulty value.
 */
export const checkConfigurations: ConfigCheck = (candidates, changed) => {
  const found = new Findings(candidates);
  for (const kind of ['Cluster', 'Profile'] as const)
    for (const candidate of candidates[kind].values())
      if (!changed || changed.has(`${kind}/${candidate.document.metadata.name}`)) lint(candidate, found);
  for (const { document } of candidates.Image.values()) {
    const fault = versionFault(document);
    if (fault && (!changed || changed.has(idOf(document)))) found.add(fault, 'error');
  }
  const casesOf = casesIn(candidates);
  // A profile that selects otherwise, a network, a Cluster that gives other roles: they concern
  // machines that name none of them.
  const far = [...(changed ?? [])].some((id) => /^(Profile|Network|Cluster)\//.test(id));
  for (const { document } of candidates.Machine.values()) {
    const cases = casesOf(document);
    const near = !changed || cases.some((parts) => idsOf(parts).some((id) => changed.has(id)));
    if (near || (far && !sameCases(checked.get(document)?.cases, cases)))
      for (const { fault, severity } of toldOf(cases, near))
        found.add(fault, severity, `Machine/${document.metadata.name}`);
  }
  return found.all();
};

/**
 * `remember`: not for what is only asked because of others; it is to be news until it is in force.
 */
function toldOf(cases: readonly Parts[], remember: boolean): readonly Told[] {
  const { machine } = cases[0]!;
  const known = checked.get(machine);
  if (known && sameCases(known.cases, cases)) return known.told;
  const told = judge(cases);
  if (remember) checked.set(machine, { cases, told });
  return told;
}

interface Told {
  readonly fault: Fault;
  readonly severity: CrossFault['severity'];
}

/** A fault of all cases is an error; one of some is a warning that says which. */
function judge(cases: readonly Parts[]): readonly Told[] {
  const different = cases.filter(
    (one, n) => namesNetwork(one) || cases.findIndex(({ profile }) => profile === one.profile) === n,
  );
  const found = new Map<string, { readonly fault: Fault; readonly of: Parts[] }>();
  for (const parts of different)
    for (const fault of faultsOf(parts)) {
      const key = `${fault.path} ${fault.message}`;
      found.set(key, { fault, of: [...(found.get(key)?.of ?? []), parts] });
    }
  return [...found.values()].map(({ fault, of }) =>
    of.length === different.length
      ? { fault, severity: 'error' }
      : { fault: { ...fault, message: `${fault.message}, ${whenOf(of, different)}` }, severity: 'warning' },
  );
}

const namesNetwork = (parts: Parts): boolean =>
  isConfigured(parts) && names(merge(withMusterLayer(inputOf(parts))), 'network');

/** The cases `of` among `all`, e.g. `if it boots from Network/b`. */
function whenOf(of: readonly Parts[], all: readonly Parts[]): string {
  const listed = (documents: readonly (Document | undefined)[]) =>
    [...new Set(documents.flatMap((one) => (one ? [idOf(one)] : [])))].join(' or ');
  const elsewhere = all.some(
    (one) =>
      !of.includes(one) &&
      of.some(({ profile, network }) => profile === one.profile && network !== one.network),
  );
  const otherwise = all.some((one) => of.every(({ profile }) => profile !== one.profile));
  return [
    ...(otherwise ? [`if ${listed(of.map(({ profile }) => profile)) || 'no Profile'} selects it`] : []),
    ...(elsewhere ? [`if it boots from ${listed(of.map(({ network }) => network))}`] : []),
  ].join(', ');
}

const isConfigured = ({ profile, cluster, machine }: Parts): boolean =>
  (profile?.spec.config ?? cluster?.spec.config ?? machine.spec.config) !== undefined;

/**
 * Classes of machines without a configuration of their own that are known to render; only their
 * templates differ.
 */
const checkedClasses = new WeakMap<object, Parts>();

/**
 * Whole for the first machine of a class, and for each with a configuration of its own. For the
 * others of the class only the templates, which is all that can differ.
 */
function faultsOf(parts: Parts): readonly Fault[] {
  if (!isConfigured(parts)) return [];
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

/** Told at the Image, once, not by each of its machines. */
function versionFault({ spec, metadata }: Document<'Image'>): Fault | undefined {
  const { configFormat, ignitionVersion: version } = spec;
  const versions: readonly string[] = IGNITION_VERSIONS;
  if (configFormat !== 'ignition' || version === undefined || versions.includes(version)) return undefined;
  const message = `Image/${metadata.name}: "${version}" is no spec of Ignition that Muster writes: ${versions.join(', ')}`;
  return { code: 'E_CONFIG', message, path: 'spec.ignitionVersion' };
}

/** What machines are checked with: its version's fault is told already. */
function imageOf({ image }: Parts): RenderInput['image'] {
  if (!image) return NO_IMAGE;
  const { ignitionVersion: _, ...rest } = image.spec;
  return versionFault(image) ? rest : image.spec;
}

/**
 * Until an image is there, its documents are taken to be those of the oldest cloud-init that we
 * know.
 */
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
    image: imageOf(parts),
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
      if (message)
        found.add({ code: 'E_CONFIG', message: `${kind}/${metadata.name}: ${message}`, path }, 'error');
    } else if (Array.isArray(value)) for (const [n, item] of value.entries()) visit(item, `${path}[${n}]`);
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`);
  };
  visit(spec.config, 'spec.config');
}

interface Finding extends Told {
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

  add(fault: Fault, severity: Told['severity'], machine?: DocumentId): void {
    const key = `${severity} ${fault.path} ${fault.message}`;
    const before = this.#found.get(key);
    if (before) {
      before.machines++;
      return;
    }
    const document = (/^[A-Z][a-z]+\/[^:]+(?=:)/.exec(fault.message)?.[0] ?? machine) as DocumentId;
    this.#found.set(key, {
      fault,
      severity,
      document,
      ...(machine && machine !== document && { other: machine }),
      machines: 1,
    });
  }

  all(): readonly CrossFault[] {
    return [...this.#found.values()].map(({ fault, severity, document, other, machines }) => {
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
        severity,
      };
    });
  }
}
