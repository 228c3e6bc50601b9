/**
 * Checks that every machine's configuration renders: when a document is applied, not while a
 * machine waits for it. The input is assembled by `input.ts`, as at a boot.
 */
import { type Fault, MusterError } from '../base/errors.ts';
import type { Mac } from '../base/mac.ts';
import { withoutSecrets } from '../base/without-secrets.ts';
import {
  type Candidate,
  type CandidateSet,
  type CrossFault,
  type DocumentId,
  idOf,
  isFaulty,
  spotOf,
} from '../resources/candidate.ts';
import type { ConfigCheck } from '../resources/catalog.ts';
import { parsePath, pathText } from '../resources/document.ts';
import type { ClusterSpec, Document, ImageSpec, Kind, ProfileSpec } from '../resources/kinds.ts';
import type { NodeConfig } from '../resources/nodeconfig.ts';
import { type Case, casesIn, idsOf, sameCases, sameParts } from './cases.ts';
import { expandConfig, names } from './expand.ts';
import { foreignKeys } from './extra.ts';
import { IGNITION_VERSIONS } from './ignition-types.ts';
import { type BootFacts, type Parts, renderInput } from './input.ts';
import { merge } from './merge.ts';
import { networkDoubts } from './network-faults.ts';
import { render, scopeOf, withMusterLayer } from './render.ts';
import type { ConfigLayer, RenderInput } from './rendered.ts';
import { templateFault } from './template.ts';

/**
 * The agent's layer of a machine as a check knows it, with stand-ins for CA and ticket; undefined
 * for a machine without a role. Throws MusterError for what the agent could not read.
 */
type CheckedLayer = (
  parts: Parts,
  boot: Pick<BootFacts, 'name' | 'session' | 'baseUrl'>,
) => ConfigLayer | undefined;

/**
 * Makes the check of configurations. It gives the faults of the configurations concerned by
 * `changed` (undefined: all); each names the document that holds the faulty value.
 */
export function configurationCheck(agentLayer: CheckedLayer): ConfigCheck {
  const results = new CaseResults(agentLayer);
  return (candidates, changed) => {
    const found = new Findings(candidates);
    for (const kind of ['Cluster', 'Profile'] as const)
      for (const candidate of candidates[kind].values())
        if (!changed || changed.has(`${kind}/${candidate.document.metadata.name}`)) {
          lint(candidate, found);
          doubt(candidate.document, imagesOf(candidate.document, candidates), found);
        }
    for (const { document } of candidates.Image.values()) {
      const fault = versionFault(document);
      if (fault && (!changed || changed.has(idOf(document)))) found.add(fault, 'error', idOf(document));
    }
    const casesOf = casesIn(candidates);
    // A changed Profile may now select other machines, and a Network or Cluster may concern
    // machines that did not use it before.
    const indirect = [...(changed ?? [])].some((id) => /^(Profile|Network|Cluster)\//.test(id));
    for (const { document } of candidates.Machine.values()) {
      const cases = casesOf(document);
      // What a document with faults would bring is not known.
      const { profile, cluster } = document.spec;
      const images = cases.map((one) => one.profile?.spec.image ?? '');
      if (
        isFaulty(candidates, 'Profile', profile ?? '') ||
        isFaulty(candidates, 'Cluster', cluster ?? '') ||
        images.some((image) => isFaulty(candidates, 'Image', image))
      )
        continue;
      if (!changed || changed.has(idOf(document)))
        doubt(
          document,
          cases.map(({ image }) => image),
          found,
        );
      const direct = !changed || cases.some((parts) => idsOf(parts).some((id) => changed.has(id)));
      if (direct || (indirect && !results.isKnown(document, cases)))
        for (const { fault, severity } of results.of(cases, direct))
          found.add(fault, severity, idOf(document));
    }
    return found.all();
  };
}

interface Judged {
  readonly fault: Fault;
  readonly severity: CrossFault['severity'];
}

/** What was found for each machine, kept for as long as its document and its cases are the same. */
class CaseResults {
  readonly #agentLayer: CheckedLayer;
  readonly #results = new WeakMap<
    Document<'Machine'>,
    { readonly cases: readonly Case[]; readonly judged: readonly Judged[] }
  >();
  /**
   * By profile or Cluster, and by the shape of Muster's own layers: the parts of a machine without
   * a configuration of its own that is known to render. Other machines of that class can differ
   * only in their templates, so only these are checked. That makes the check of a thousand machines
   * ten times as fast.
   */
  readonly #classes = new WeakMap<object, Map<string, { readonly parts: Parts; readonly layers: Layers }>>();

  constructor(agentLayer: CheckedLayer) {
    this.#agentLayer = agentLayer;
  }

  isKnown(machine: Document<'Machine'>, cases: readonly Case[]): boolean {
    return sameCases(this.#results.get(machine)?.cases, cases);
  }

  /**
   * The faults of a machine's cases. `remember` is false for a machine that is only looked at
   * because another document changed: its faults are reported again until that change is applied.
   */
  of(cases: readonly Case[], remember: boolean): readonly Judged[] {
    const { machine } = cases[0]!;
    const known = this.#results.get(machine);
    if (known && sameCases(known.cases, cases)) return known.judged;
    const judged = this.#judge(cases);
    if (remember) this.#results.set(machine, { cases, judged });
    return judged;
  }

  /** A fault of all cases is an error; a fault of some is a warning that says which. */
  #judge(all: readonly Case[]): readonly Judged[] {
    const inputs = new Map(all.map((one) => [one, checkInput(one, this.#agentLayer)]));
    const different = all.filter(
      (one, n) =>
        all.length === 1 ||
        namesNetwork(inputs.get(one)!) ||
        all.findIndex(({ profile }) => profile === one.profile) === n,
    );
    const found = new Map<string, { readonly fault: Fault; readonly of: Case[] }>();
    for (const parts of different)
      for (const fault of this.#faultsOf(parts, inputs.get(parts)!)) {
        const key = `${fault.path} ${fault.message}`;
        found.set(key, { fault, of: [...(found.get(key)?.of ?? []), parts] });
      }
    return [...found.values()].map(({ fault, of }) =>
      of.length === different.length
        ? { fault, severity: 'error' }
        : { fault: { ...fault, message: `${fault.message}, ${whenOf(of, different)}` }, severity: 'warning' },
    );
  }

  /** Renders the input. If the machine's class is known to render, only expands its templates. */
  #faultsOf(parts: Case, input: CheckInput): readonly Fault[] {
    if ('faults' in input) return input.faults;
    if (input.layers.length === 0) return [];
    const base = parts.machine.spec.config ? undefined : (parts.profile ?? parts.cluster);
    const shape = base && shapeOf(input.layers);
    const sameClass = base && this.#classes.get(base)?.get(shape!);
    if (sameClass && sameParts(sameClass.parts, parts)) {
      const merged = merge(withMusterLayer({ ...input, layers: sameClass.layers }));
      const expanded = expandConfig(merged, scopeOf(input));
      return expanded.ok ? [] : expanded.faults;
    }
    const result = render(input);
    if (!result.ok) return result.faults;
    if (base) {
      const shapes = this.#classes.get(base) ?? new Map();
      this.#classes.set(base, shapes.set(shape!, { parts, layers: input.layers }));
    }
    return [];
  }
}

type Layers = RenderInput['layers'];

/**
 * The paths and unit names of Muster's own layers, without the values of one machine. Machines with
 * the same shape render alike.
 */
const shapeOf = (layers: Layers): string =>
  layers
    .flatMap(({ layer, config: { files = [], units = [], network } }) =>
      layer === 'muster'
        ? [...files.map(({ path }) => path), ...units.map(({ name }) => name), network ? 'network' : '']
        : [],
    )
    .join(' ');

const namesNetwork = (input: CheckInput): boolean =>
  'layers' in input && input.layers.length > 0 && names(merge(withMusterLayer(input)), 'network');

/** The cases `of` among `all`, e.g. `if it boots from Network/b`. */
function whenOf(of: readonly Case[], all: readonly Case[]): string {
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

/** The fault of an image's Ignition version. It is reported at the Image, not for each machine. */
function versionFault({ spec, metadata }: Document<'Image'>): Fault | undefined {
  const { configFormat, ignitionVersion: version } = spec;
  const versions: readonly string[] = IGNITION_VERSIONS;
  if (configFormat !== 'ignition' || version === undefined || versions.includes(version)) return undefined;
  const message = `Image/${metadata.name}: "${version}" is not a version of the Ignition spec that Muster writes; use one of ${versions.join(', ')}`;
  return { code: 'E_CONFIG', message, path: 'spec.ignitionVersion' };
}

/** The image that machines are checked with: the fault of its version is reported already. */
function imageOf({ image }: Parts): RenderInput['image'] {
  if (!image) return NO_IMAGE;
  const { ignitionVersion: _, ...rest } = image.spec;
  return versionFault(image) ? rest : image.spec;
}

/** While an image is missing, its format is assumed to be the oldest cloud-init that we know. */
const NO_IMAGE: Pick<ImageSpec, 'os' | 'configFormat'> = { os: 'debian', configFormat: 'cloud-init' };

/**
 * An example boot: an address for documentation (RFC 5737), and a session id of the real length.
 */
const BASE_URL = 'http://192.0.2.1:8080';
const SESSION = 'the-session-of-a-boot00';

type CheckInput = RenderInput | { readonly faults: readonly Fault[] };

/**
 * The input of a machine's configuration as far as its documents determine it, or why the agent's
 * layer cannot be made.
 */
export function checkInput(parts: Case, agentLayer: CheckedLayer): CheckInput {
  const { spec, metadata } = parts.machine;
  const boot = {
    name: metadata.name,
    mac: spec.macs[0] as Mac,
    address: spec.addresses?.find((text) => !text.includes(':')),
    session: SESSION,
    baseUrl: BASE_URL,
  };
  try {
    return renderInput(parts, { ...boot, agentLayer: agentLayer(parts, boot) }, imageOf(parts));
  } catch (error) {
    if (error instanceof MusterError) return { faults: error.faults };
    throw error;
  }
}

/** Finds templates that no machine could fill, in a document that perhaps no machine uses yet. */
function lint({ document }: Candidate<'Cluster'> | Candidate<'Profile'>, found: Findings): void {
  const { config }: ClusterSpec | ProfileSpec = document.spec;
  const id = idOf(document);
  const visit = (value: unknown, path: string) => {
    if (typeof value === 'string') {
      const message = value.includes('${') ? templateFault(value) : undefined;
      if (message) found.add({ code: 'E_CONFIG', message: `${id}: ${message}`, path }, 'error', id);
    } else if (Array.isArray(value)) for (const [n, item] of value.entries()) visit(item, `${path}[${n}]`);
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`);
  };
  visit(config, 'spec.config');
}

/** The image that all machines of a Profile boot; none for a Cluster, whose machines may differ. */
const imagesOf = ({ spec }: Document<'Cluster' | 'Profile'>, { Image }: CandidateSet): Images =>
  'image' in spec && spec.image !== undefined ? [Image.get(spec.image)?.document] : [];

type Images = readonly (Document<'Image'> | undefined)[];

/** The field of `extra` that a format reads. */
const EXTRA_OF: Readonly<Partial<Record<ImageSpec['configFormat'], 'cloudInit' | 'ignition'>>> = {
  'cloud-init': 'cloudInit',
  ignition: 'ignition',
};

/** Why the extra document of a configuration has no effect; undefined when it has one. */
function strayExtra({ extra }: NodeConfig, images: Images): string | undefined {
  const fields = new Set(images.map((image) => image && EXTRA_OF[image.spec.configFormat]));
  const [field] = fields;
  if (extra === undefined || field === undefined || fields.size !== 1 || extra[field] !== undefined)
    return undefined;
  const { metadata, spec } = images[0]!;
  return `it has no effect, because Image/${metadata.name} has configFormat ${spec.configFormat}; write it as extra.${field}`;
}

/**
 * Warns of values that every machine would take and that may not work there. `images`: those that
 * machines with this document boot, as far as it is known.
 */
function doubt(document: Document<'Cluster' | 'Profile' | 'Machine'>, images: Images, found: Findings): void {
  const { config } = document.spec;
  const id = idOf(document);
  const warn = (path: string, message: string) =>
    found.add({ code: 'E_CONFIG', message: `${id}: ${message}`, path: `spec.config.${path}` }, 'warning', id);
  for (const key of config?.extra?.cloudInit === undefined ? [] : foreignKeys(config.extra.cloudInit))
    warn(
      'extra.cloudInit',
      `no module of cloud-init reads "${key}"; it has an effect only if the image brings one`,
    );
  const stray = config && strayExtra(config, images);
  if (stray !== undefined) warn('extra', stray);
  for (const { path, message } of networkDoubts(config?.network?.interfaces ?? []))
    warn(pathText(['network', 'interfaces', ...path]), message);
}

interface Finding extends Judged {
  readonly document: DocumentId;
  readonly other?: DocumentId;
  machines: number;
}

/** Collects faults. One fault of a profile concerns all its machines: it is reported once. */
class Findings {
  readonly #candidates: CandidateSet;
  readonly #found = new Map<string, Finding>();

  constructor(candidates: CandidateSet) {
    this.#candidates = candidates;
  }

  /** `checked` is the document whose check found the fault; the fault may name another one. */
  add({ document: faulty, ...fault }: Fault, severity: Judged['severity'], checked: DocumentId): void {
    const key = `${severity} ${fault.path} ${fault.message}`;
    const before = this.#found.get(key);
    if (before) {
      before.machines++;
      return;
    }
    const document = (faulty as DocumentId | undefined) ?? checked;
    const other = checked === document ? {} : { other: checked };
    this.#found.set(key, { fault, severity, document, ...other, machines: 1 });
  }

  all(): readonly CrossFault[] {
    return [...this.#found.values()].map(({ fault, severity, document, other, machines }) => {
      const [kind, name] = document.split('/') as [Kind, string];
      const candidate = this.#candidates[kind]?.get(name) as Candidate | undefined;
      const at = candidate && spotOf(candidate, parsePath(fault.path ?? ''));
      const more = machines > 1 ? ` and ${machines - 1} more` : '';
      return {
        fault: {
          ...fault,
          message: withoutSecrets(other ? `${fault.message} (for ${other}${more})` : fault.message),
          ...(at && { at }),
        },
        document,
        ...(other && { other }),
        severity,
      };
    });
  }
}
