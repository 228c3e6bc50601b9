/** Handlers for machines beyond their documents: add, accept, explain, render, leases. */
import { type Fault, MusterError } from '../base/errors.ts';
import { formatIpv4 } from '../base/ipv4.ts';
import { type Mac, parseMac } from '../base/mac.ts';
import type { Provenance, Rendered } from '../ignition/rendered.ts';
import type { Member } from '../machines/roster.ts';
import type { ReasonCode } from '../pxe/decide/decision.ts';
import type { ExplainQuestion, Explanation } from '../pxe/decide/explain.ts';
import { API_VERSION } from '../resources/kinds.ts';
import { checkJoins, checkWithin } from './access.ts';
import type { ApiDeps, LeaseView } from './deps.ts';
import { type ApiRequest, type Handler, json, readText } from './handler.ts';
import { partOf } from './listing.ts';
import { verdictsOf } from './timeline.ts';
import { machineView, timestamp } from './times.ts';

type H = Handler<ApiDeps>;

/**
 * Reads the fields of a small JSON body. Every value must be a string; an empty body has no fields.
 *
 * @throws {MusterError} E_USAGE when the body is not a JSON object, or has a field that is not in
 * `known` or is not a string
 */
export async function fieldsOf<K extends string>(
  request: ApiRequest,
  known: readonly K[],
): Promise<Partial<Record<K, string>>> {
  const body = await readText(request, 64 * 1024);
  if (body.trim() === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw new MusterError('E_USAGE', `the body is not JSON: ${(cause as Error).message}`, { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new MusterError('E_USAGE', 'the body must be a JSON object');
  for (const [name, field] of Object.entries(value)) {
    if (!known.includes(name as K))
      throw new MusterError('E_USAGE', `"${name}" is not a known field; the fields are ${known.join(', ')}`);
    if (typeof field !== 'string') throw new MusterError('E_USAGE', `"${name}" must be a string`);
  }
  return value as Partial<Record<K, string>>;
}

function macOf(text: string): Mac {
  const mac = parseMac(text);
  if (!mac)
    throw new MusterError('E_USAGE', `"${text}" is not a MAC address; write it like 52:54:00:aa:00:01`);
  return mac;
}

function memberOf(nameOrMac: string, { roster }: Pick<ApiDeps, 'roster'>): Member | undefined {
  const mac = parseMac(nameOrMac);
  return roster.get(nameOrMac) ?? (mac && roster.byMac(mac));
}

/**
 * Finds a machine by its name or hardware address.
 *
 * @throws {MusterError} E_NOT_FOUND when the roster has no such machine
 */
export function findMachine(nameOrMac: string, { roster }: Pick<ApiDeps, 'roster'>): Member {
  const mac = parseMac(nameOrMac);
  const found = memberOf(nameOrMac, { roster });
  if (!found)
    throw new MusterError(
      'E_NOT_FOUND',
      mac
        ? `no machine with address ${mac} has a document or was seen; \`muster machine add ${mac} --profile PROFILE\` makes one`
        : `there is no machine "${nameOrMac}"; \`muster get machines\` lists those that have a document or were seen`,
    );
  return found;
}

/**
 * Refuses a machine outside of the clusters to which the answer is limited, also one that nobody
 * knows: the answer must not say which machines other clusters have.
 *
 * @throws {MusterError} E_FORBIDDEN
 */
export function checkMine(
  nameOrMac: string,
  { within }: ApiRequest,
  deps: Pick<ApiDeps, 'roster' | 'agents'>,
): void {
  const found = memberOf(nameOrMac, deps);
  checkWithin(within, found && deps.agents.agentCluster(found.name));
}

/** Whether a machine belongs to the clusters to which the answer is limited. */
export function ofClusters(
  { within }: ApiRequest,
  { agents }: Pick<ApiDeps, 'agents'>,
): (machine: string | undefined) => boolean {
  if (within === undefined) return () => true;
  return (machine) => machine !== undefined && within.has(agents.agentCluster(machine) ?? '');
}

/** The labels of a machine's document. */
export const labelsOf =
  ({ roster }: Pick<ApiDeps, 'roster'>) =>
  (machine: string | undefined): Readonly<Record<string, string>> | undefined =>
    machine === undefined ? undefined : roster.get(machine)?.entry?.document.metadata.labels;

/** Reasons to hold a machine that has no profile. */
const UNSELECTED: ReadonlySet<string> = new Set(['no_profile', 'no_inventory'] satisfies ReasonCode[]);

/**
 * Makes a Machine document in the store. Body: `{mac, profile?, name?, address?, cluster?}`.
 */
export const addMachine: H = async (request, deps) => {
  const given = await fieldsOf(request, ['mac', 'profile', 'name', 'address', 'cluster']);
  const mac = macOf(given.mac ?? '');
  const name = given.name ?? deps.roster.byMac(mac)?.name ?? `m-${mac.replaceAll(':', '')}`;
  if (deps.catalog.get('Machine', name))
    throw new MusterError('E_CONFLICT', `Machine "${name}" exists; change it with \`muster apply\``);
  const document = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name },
    spec: {
      macs: [mac],
      ...(given.profile === undefined ? {} : { profile: given.profile }),
      ...(given.cluster === undefined ? {} : { cluster: given.cluster }),
      ...(given.address === undefined ? {} : { addresses: [given.address] }),
    },
  };
  const { results, warnings } = await deps.catalog.apply([document], { expectRevision: 'absent' });
  const held = deps.preview.outlook(name);
  const unselected: Fault = {
    code: 'E_REFERENCE',
    path: 'spec.profile',
    message: `Machine/${name}: it names no profile, and no Profile selects it; it is held when it boots`,
  };
  return json(
    { ...results[0], warnings: [...warnings, ...(UNSELECTED.has(held?.code ?? '') ? [unselected] : [])] },
    201,
  );
};

/**
 * Accepts a machine, or lets a held one try again. The path names it as it is listed, or by
 * hardware address. Body: `{profile?, name?, cluster?, macs?}`; addresses are separated by commas.
 */
export const acceptMachine: H = async (request, deps) => {
  const { macs, ...given } = await fieldsOf(request, ['profile', 'name', 'cluster', 'macs']);
  const machine = findMachine(request.params.name ?? '', deps);
  if (given.cluster !== undefined) checkJoins(request.principal, given.cluster);
  const named = (macs ?? '')
    .split(',')
    .filter((text) => text !== '')
    .map(macOf);
  return json(machineView(await deps.accept(machine.name, { ...given, macs: named })));
};

const ARCHES = ['x86_64', 'aarch64'] as const;
const FIRMWARES = ['bios', 'uefi'] as const;

function choice<T extends string>(
  query: URLSearchParams,
  name: string,
  choices: readonly T[],
): T | undefined {
  const value = query.get(name);
  if (value === null) return undefined;
  if (!choices.includes(value as T))
    throw new MusterError('E_USAGE', `${name} must be one of ${choices.join(', ')}, not "${value}"`);
  return value as T;
}

/** What a machine would get and why, and what is wrong with its last boot. */
export interface ExplanationView extends Explanation {
  readonly verdicts: ReturnType<typeof verdictsOf>;
}

export const explain: H = (request, deps) => {
  const { query } = request;
  const machine = query.get('machine');
  const mac = query.get('mac');
  if ((machine === null) === (mac === null))
    throw new MusterError('E_USAGE', 'name one machine: ?machine=NAME or ?mac=MAC');
  const network = query.get('network');
  const arch = choice(query, 'arch', ARCHES);
  const firmware = choice(query, 'firmware', FIRMWARES);
  const question: ExplainQuestion = {
    ...(machine === null ? {} : { machine }),
    ...(mac === null ? {} : { mac: macOf(mac) }),
    ...(network === null ? {} : { network }),
    ...(arch ? { arch } : {}),
    ...(firmware ? { firmware } : {}),
  };
  const named = machine ?? deps.roster.byMac(macOf(mac!))?.name;
  checkWithin(request.within, named === undefined ? undefined : deps.agents.agentCluster(named));
  const explanation = deps.preview.explain(question);
  return json({ ...explanation, verdicts: verdictsOf(explanation.subject, deps) } satisfies ExplanationView);
};

/** A machine's first-boot configuration as the API shows it. */
export interface MachineConfiguration {
  readonly machine: string;
  readonly format: Rendered['format'];
  readonly files: Rendered['files'];
  readonly kernelArguments: readonly string[];
  readonly merged: Rendered['merged'];
  /** Path in `merged` → origin of the value. */
  readonly provenance: Readonly<Record<string, Provenance>>;
}

/** Converts a rendered configuration to what the API shows. */
export function shownConfiguration(machine: string, rendered: Rendered): MachineConfiguration {
  const { format, files, kernelArguments, merged, provenance } = rendered;
  return {
    machine,
    format,
    files,
    kernelArguments,
    merged,
    provenance: Object.fromEntries(provenance),
  };
}

export const render: H = (request, deps) => {
  const { name } = findMachine(request.params.machine ?? '', deps);
  return json(shownConfiguration(name, deps.preview.render(name)));
};

export const listLeases: H = (request, deps) => {
  const mine = ofClusters(request, deps);
  const items = deps.leases.list(request.query.get('network') ?? undefined).map(
    (view): LeaseView => ({
      network: view.network,
      address: formatIpv4(view.address),
      mac: view.mac,
      state: view.state,
      ...(view.lease?.machine === undefined ? {} : { machine: view.lease.machine }),
      ...(view.lease?.hostname === undefined ? {} : { hostname: view.lease.hostname }),
      expiresAt: timestamp(view.expires),
    }),
  );
  const labels = labelsOf(deps);
  const part = partOf(
    request.query,
    items.filter((lease) => mine(lease.machine)),
    (lease) => `${lease.network}/${lease.address}`,
    (lease) => labels(lease.machine),
  );
  return json({ kind: 'LeaseList', ...part });
};
