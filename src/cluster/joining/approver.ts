/**
 * The approver: reads the requests for certificates of every founded cluster, and approves or
 * denies requests that are about the cluster's machines. It stores nothing: decisions are in the
 * API, and undecided requests are read again in the next round.
 */
import { duration } from '../../base/duration.ts';
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import type { EventSink } from '../../events/event.ts';
import { type Kube, KubeRefusal } from '../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import { decideRequest, MISFITS, type Verdict } from './decide.ts';
import { readSigningRequest, type SigningRequest } from './request.ts';
import { type Rounds, type RoundsDeps, startRounds } from './rounds.ts';
import type { JoinTokens } from './tokens.ts';

interface ApproverDeps extends RoundsDeps {
  readonly tokens: Pick<JoinTokens, 'ownerOf'>;
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly events: EventSink;
  /** Whether a machine is in quarantine. */
  readonly isQuarantined: (machine: string) => boolean;
}

/** The interval between two rounds; a kubelet repeats its request only after a minute or more. */
const EVERY = duration('12s');
const REQUESTS = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
/** Requests per page. A request has up to 1.5 MiB, and a large page would block the server. */
const PAGE = 20;
/**
 * The most pages that are read. The API deletes decided requests after an hour, undecided requests
 * after a day.
 */
const PAGES = 100;
/** The most decisions in one round. */
const MOST = 50;

/** What is kept of a cluster between two rounds. */
interface Watched {
  /** The control plane that answered last; the next round asks it first. */
  by?: string;
  /**
   * Uid of a request that still exists → `alarm` when its alarm was recorded, otherwise the verdict
   * that could not be written to the API.
   */
  noted: Map<string, 'alarm' | Decided['verdict']>;
}

/** Decides requests from now on, until it is closed. */
export const startApprover = (deps: ApproverDeps): Rounds =>
  startRounds<Watched>(
    deps,
    { every: EVERY, what: 'requests for certificates', begin: () => ({ noted: new Map() }) },
    ({ resolved, state }) => oneRound(deps, resolved, state),
  );

/** Decides all requests of a cluster once; rejects when no control plane answers. */
async function oneRound(deps: ApproverDeps, resolved: ResolvedCluster, state: Watched): Promise<void> {
  const { kube, items } = await listed(deps, resolved, state);
  const uids = new Set<string>();
  let left = MOST;
  for (const item of items) {
    const request = readSigningRequest(item);
    uids.add(request.uid);
    const verdict = decideRequest(
      resolved,
      request,
      (id) => deps.tokens.ownerOf(resolved.name, id),
      deps.isQuarantined,
    );
    const before = state.noted.get(request.uid);
    if (before === 'alarm') continue;
    if (verdict.do === 'leave') {
      // The decision was written, although the API's answer was lost.
      if (before && isOurs(item)) record(deps, resolved, request, before);
      if (before) state.noted.delete(request.uid);
    } else if (verdict.do === 'alarm') {
      state.noted.set(request.uid, 'alarm');
      record(deps, resolved, request, verdict);
    } else if (left-- > 0) await settle(deps, { resolved, kube, state }, { item, request, verdict });
  }
  for (const uid of state.noted.keys()) if (!uids.has(uid)) state.noted.delete(uid);
}

/** All requests, from the first control plane that answers. */
async function listed(
  { kubes, log }: ApproverDeps,
  resolved: ResolvedCluster,
  state: Watched,
): Promise<{ readonly kube: Kube; readonly items: readonly unknown[] }> {
  const all = withRole(resolved, 'control-plane');
  const last = all.filter(({ name }) => name === state.by);
  let failure: unknown;
  for (const machine of new Set([...last, ...all])) {
    const kube = kubes(resolved.name, addressOf(machine));
    try {
      const { items, more } = await pages(kube);
      state.by = machine.name;
      if (more)
        log.warn(
          { cluster: resolved.name },
          `there are more than ${PAGE * PAGES} requests for certificates; the others are skipped`,
        );
      return { kube, items };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

async function pages(kube: Kube): Promise<{ readonly items: readonly unknown[]; readonly more: boolean }> {
  const items: unknown[] = [];
  let from = '';
  for (let page = 0; page < PAGES; page++) {
    const asked = new URLSearchParams({ limit: String(PAGE), ...(from && { continue: from }) });
    const body = fieldsOf((await kube(`${REQUESTS}?${asked}`)).body);
    items.push(...listOf(body.items));
    from = textOf(fieldsOf(body.metadata).continue);
    if (from === '') break;
  }
  return { items, more: from !== '' };
}

interface Place {
  readonly resolved: ResolvedCluster;
  readonly kube: Kube;
  readonly state: Watched;
}

interface Decided {
  /** The object from the API. Its resourceVersion keeps a concurrent change from being lost. */
  readonly item: unknown;
  readonly request: SigningRequest;
  readonly verdict: Exclude<Verdict, { readonly do: 'leave' }>;
}

/**
 * Writes a decision, and records an event when the API has accepted it. A failure is retried in the
 * next round.
 */
async function settle(deps: ApproverDeps, { resolved, kube, state }: Place, decided: Decided): Promise<void> {
  const { item, request, verdict } = decided;
  try {
    const path = `${REQUESTS}/${encodeURIComponent(request.name)}/approval`;
    await kube(path, { method: 'PUT', body: decidedObject(item, verdict) });
    record(deps, resolved, request, verdict);
  } catch (error) {
    // Somebody else decided or deleted the request, so the next round reads it again.
    if (error instanceof KubeRefusal && (error.status === 409 || error.status === 404)) return;
    const level = state.noted.has(request.uid) ? 'debug' : 'warn';
    state.noted.set(request.uid, verdict);
    deps.log[level](
      { err: error, cluster: resolved.name, request: request.name },
      'a request for a certificate could not be decided',
    );
  }
}

const OURS = 'Muster: ';
const isOurs = (item: unknown): boolean =>
  listOf(fieldsOf(fieldsOf(item).status).conditions).some((one) =>
    textOf(fieldsOf(one).message).startsWith(OURS),
  );

/**
 * The object with the decision. Items of a list lack `apiVersion` and `kind`, so these are added.
 */
function decidedObject(item: unknown, verdict: Decided['verdict']): object {
  const status = fieldsOf(fieldsOf(item).status);
  const condition =
    verdict.do === 'approve'
      ? { type: 'Approved', reason: 'MachineOfTheInventory' }
      : { type: 'Denied', reason: MISFITS[verdict.code] };
  const decided = { ...condition, status: 'True', message: `${OURS}${verdict.text}` };
  return {
    ...fieldsOf(item),
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    status: { ...status, conditions: [...listOf(status.conditions), decided] },
  };
}

const KINDS = {
  approve: 'cluster.request-approved',
  deny: 'cluster.request-denied',
  alarm: 'cluster.request-alarm',
} as const;

function record(
  { events }: ApproverDeps,
  { name: cluster }: ResolvedCluster,
  { name, username, signer }: SigningRequest,
  verdict: Decided['verdict'],
): void {
  const text = verdict.do === 'alarm' ? `${verdict.text}; somebody has approved that already` : verdict.text;
  events.record({
    kind: KINDS[verdict.do],
    subject: verdict.machine ?? `Cluster/${cluster}`,
    reason: { code: verdict.do === 'approve' ? 'inventory' : verdict.code, text },
    fields: { cluster, request: name, requester: username.slice(0, 100), signer },
  });
}
