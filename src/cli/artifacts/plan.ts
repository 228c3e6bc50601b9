/** `muster artifacts plan`: lists what a cluster needs, and which of it the server has. */
import type { ArtifactView } from '../../api/operations/artifacts.ts';
import type { AddonView } from '../../api/operations/clusters.ts';
import type { Shown } from '../../api/shown.ts';
import type { Arch } from '../../artifacts/oci.ts';
import { formatReference, parseReference } from '../../artifacts/reference.ts';
import { MusterError } from '../../base/errors.ts';
import type { ResolvedCluster } from '../../cluster/model/resolved-cluster.ts';
import {
  type Required,
  type RequiredProgram,
  requiredArtifacts,
  requiredPrograms,
} from '../../cluster/resolve/artifacts.ts';
import { lackingImages } from '../../cluster/resolve/check-machines.ts';
import { resolveCluster } from '../../cluster/resolve/resolve.ts';
import type { CandidateSet } from '../../resources/candidate.ts';
import { type Document, KINDS, type Kind, PLURAL } from '../../resources/kinds.ts';
import { type ApiClient, openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, jsonText, lookOf, tableText, yamlText } from '../output.ts';
import { artifactsOf } from './inventory.ts';

export interface PlanOptions extends ServerOptions {
  readonly arch: Arch;
  readonly output?: string;
}

/** One line of the plan. */
interface Planned {
  readonly name: string;
  /**
   * `of the system` (tables show `in the OS image`): nothing is fetched, because the operating
   * system's image has it. `missing in image NAME`: the Image that its machines boot does not
   * list it.
   */
  readonly state: 'here' | 'incomplete' | 'missing' | 'of the system' | `missing in image ${string}`;
  readonly roles: readonly string[];
  readonly required: Required | RequiredProgram;
}

/** A line of the plan for which something may have to be fetched. */
export interface PlannedArtifact extends Planned {
  readonly required: Required;
}

/** The name of a required artifact, as tables and messages show it. */
export const requiredName = (required: Required): string => {
  if (required.kind === 'binary') return `binary/${required.name}/${required.version}/${required.arch}`;
  if (required.kind === 'manifest') return `manifest/${required.addon}/${required.sha256}`;
  const reference = parseReference(required.reference);
  return `image/${reference ? formatReference(reference) : required.reference}`;
};

/**
 * The required artifacts, each with whether the server has it. An image with a digest counts under
 * any tag, a manifest for any add-on. Pure.
 */
export function planned(
  required: readonly Required[],
  here: readonly ArtifactView[],
): readonly PlannedArtifact[] {
  return required.map((one) => {
    const name = requiredName(one);
    const digest = one.kind === 'image' ? parseReference(one.reference)?.digest : undefined;
    const found = here.find(
      (item) =>
        item.name === name ||
        (digest !== undefined && item.artifact.kind === 'image' && item.artifact.digest === digest) ||
        (one.kind === 'manifest' && item.artifact.kind === 'manifest' && item.artifact.sha256 === one.sha256),
    );
    const state = found === undefined ? 'missing' : found.missing.length > 0 ? 'incomplete' : 'here';
    return { name, state, roles: one.roles, required: one };
  });
}

/**
 * Resolves the specification of a cluster, from the server's documents.
 *
 * @throws {MusterError} E_NOT_FOUND when there is no such Cluster; E_CLUSTER when it is incomplete
 *   or has no spec.kubernetes.
 */
export async function fullCluster(client: ApiClient, name: string): Promise<ResolvedCluster> {
  const document = await client.call<Document<'Cluster'>>('GET', `/v1/clusters/${encodeURIComponent(name)}`);
  const { kubernetes } = document.spec;
  if (kubernetes === undefined)
    throw new MusterError('E_CLUSTER', `Cluster "${name}" has no spec.kubernetes: it needs no artifacts`);
  const machines = (await client.call<{ items: readonly Shown[] }>('GET', '/v1/machines')).items.map(
    ({ metadata, spec }) => ({
      name: metadata.name,
      addresses: (spec as Document<'Machine'>['spec'] | undefined)?.addresses ?? [],
    }),
  );
  const { resolved, faults } = resolveCluster(name, kubernetes, machines);
  if (resolved !== undefined) return resolved;
  const wrong = faults.filter(({ severity }) => severity === 'error').map(({ fault }) => fault);
  throw new MusterError('E_CLUSTER', wrong[0]!.message, { faults: wrong });
}

/** The add-ons of a cluster, each with the images that it needs if the server has its files. */
export const addonsOf = async (client: ApiClient, cluster: string): Promise<readonly AddonView[]> =>
  (await client.ask('GET /v1/clusters/:name/addons', { params: { name: cluster } })).items;

/** The images of these add-ons, each once. */
export const imagesOf = (addons: readonly AddonView[]): readonly string[] => [
  ...new Set(addons.flatMap(({ images = [] }) => images)),
];

/** All documents of the server, in the form in which the server itself checks them. */
async function candidatesOf(client: ApiClient): Promise<CandidateSet> {
  const kinds = Object.keys(KINDS) as Kind[];
  const listed = kinds.map(async (kind) => {
    const { items } = await client.call<{ items: readonly Document[] }>('GET', `/v1/${PLURAL[kind]}`);
    return [kind, new Map(items.map((document) => [document.metadata.name, { document }]))] as const;
  });
  return Object.fromEntries(await Promise.all(listed)) as unknown as CandidateSet;
}

const COLUMNS: readonly Column<Planned>[] = [
  { heading: 'ARTIFACT', cell: ({ name }) => name },
  { heading: 'FOR', cell: ({ roles }) => roles.join(' ') },
  { heading: 'STATE', cell: ({ state }) => (state === 'of the system' ? 'in the OS image' : state) },
];

/** `muster artifacts plan`: prints what a cluster needs. Exit code 1 when something is missing. */
export async function plan(cluster: string, options: PlanOptions, io: Io): Promise<number> {
  const client = openClient(options, io);
  const resolved = await fullCluster(client, cluster);
  const addons = await addonsOf(client, cluster);
  const artifacts = planned(
    requiredArtifacts(resolved, options.arch, imagesOf(addons)),
    await artifactsOf(client),
  );
  const lacking = lackingImages(resolved, await candidatesOf(client));
  const programs = requiredPrograms(resolved).map((required): Planned => {
    const images = lacking.get(required.name);
    return {
      name: `program/${required.name}`,
      state: images === undefined ? 'of the system' : `missing in image ${[...images].join(', ')}`,
      roles: required.roles,
      required,
    };
  });
  const lines = [...artifacts, ...programs];
  if (options.output === 'json') io.out(jsonText(lines));
  else if (options.output === 'yaml') io.out(yamlText(lines));
  else io.out(tableText(COLUMNS, lines, lookOf(io)));
  for (const { name, state, detail } of addons)
    if (state === 'missing') io.err(`the images of the add-on ${name} are known when its files are here\n`);
    else if (state === 'faulty') io.err(`the add-on ${name} cannot be used: ${detail}\n`);
  const good =
    artifacts.every(({ state }) => state === 'here') &&
    lacking.size === 0 &&
    addons.every(({ state }) => state === 'ready');
  return good ? EXIT.ok : EXIT.failure;
}
