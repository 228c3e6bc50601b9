/**
 * The agents' API without its sockets: authenticates a poll by its certificate, records the facts,
 * and answers with a plan.
 */
import { createHash } from 'node:crypto';

import { tar } from '../../artifacts/tar.ts';
import { mustKnowTime } from '../../base/clock.ts';
import type { Millis } from '../../base/duration.ts';
import { MusterError } from '../../base/errors.ts';
import type { ClockWitnesses } from '../../base/host-clock.ts';
import { plainAddress } from '../../base/ip.ts';
import type { Log } from '../../base/log.ts';
import type { Consoles } from '../../machines/console.files.ts';
import { consolePart } from '../../machines/console.ts';
import { POLL_AT_LEAST } from '../../machines/heartbeats.ts';
import { printable } from '../../machines/identity.ts';
import type { Inventories } from '../../machines/inventories.ts';
import type { Life } from '../../store/life.ts';

import {
  type AuthenticateDeps,
  authenticate,
  hasEnded,
  type ShownCertificate,
  takenOver,
} from '../identity/authenticate.ts';
import type { AgentRecord } from '../identity/identities.ts';
import { type RedeemAnswer, type RedeemDeps, redeem } from '../identity/redeem.ts';
import { renewal } from '../identity/renewal.ts';
import { decodeFacts, FACTS_LIMIT } from '../wire/decode-facts.ts';
import { encodePlan } from '../wire/encode-plan.ts';
import type { AgentFacts } from '../wire/facts.ts';
import { readForm } from '../wire/form.ts';
import { AGENT_PATHS, type PlanLine } from '../wire/plan.ts';
import type {
  AgentApiAnswer,
  AgentBuilds,
  AgentPlanner,
  AgentSnapshots,
  LaterKeysGuard,
} from '../wire/protocol.ts';
import type { RevisionClaims } from '../wire/revision-claim.ts';
import { dataKey } from './data-key.ts';
import { heard, MAX_CODE } from './heard.ts';
import { factsOfThisLife, mustServe, RESTORED_PLAN, revisionHeader } from './life-gate.ts';
import { createSnapshotApi, type SnapshotApi } from './snapshot-api.ts';

import type { Witness } from './witness.ts';

/** Finds the files of the first configuration that a machine gets in a session, by name. */
export type ConfigurationOf = (
  machine: string,
  session: string,
  baseUrl: string,
) => Readonly<Record<string, string>> | undefined;

/**
 * Notes a poll that was answered with a plan. `since`: when it arrived, monotonic. `applied`:
 * whether the agent had carried out that plan already. `listener`: see {@link ShownCertificate}.
 */
export type PlannedPoll = (
  machine: string,
  poll: {
    readonly facts: AgentFacts;
    readonly since: Millis;
    readonly applied: boolean;
    readonly listener?: string;
  },
) => void;

interface AgentApiDeps extends RedeemDeps, AuthenticateDeps {
  readonly log: Log;
  readonly planner: AgentPlanner;
  /** Told about every poll that was answered with a plan. */
  readonly planned: PlannedPoll;
  /** The store's revision now. */
  readonly revision: () => Promise<number>;
  readonly life: Pick<Life, 'number' | 'state' | 'detail' | 'seen' | 'isAhead'>;
  /** Tells revisions that machines were sent from revisions that they invented. */
  readonly claims: RevisionClaims;
  /** The first configuration of a machine's boot session; undefined when that is not known. */
  readonly configuration: ConfigurationOf;
  /** Whether the machine itself is at an address: its own, and no other hardware answers there. */
  readonly isAt: (machine: string, address: string) => boolean;
  /** Whether documents want a disk of a machine encrypted with a key of the boot host. */
  readonly keepsDataKey: (machine: string) => boolean;
  /** Keeps what machines report of their parts. */
  readonly inventories: Pick<Inventories, 'take'>;
  /** Keeps what machines print on their consoles. */
  readonly consoles: Pick<Consoles, 'take'>;
  /** Compares the checkpoints that machines remember with the security log. */
  readonly witness: Witness;
  /** Told the clocks of the machines. */
  readonly witnesses: ClockWitnesses;
  readonly snapshots: AgentSnapshots;
  /** Which agent machines run. */
  readonly builds: AgentBuilds;
  /** Holds clusters whose keys are later than this store's. */
  readonly laterKeys: LaterKeysGuard;
  /** Id of the transport CA's generation that signs. */
  readonly primary: () => string;
  /** PEM of all trusted generations. */
  readonly authority: () => string;
}

/** The largest form, in octets. */
export const MAX_FORM_OCTETS = FACTS_LIMIT;

const PEM = 'application/x-pem-file';
const TAR = 'application/x-tar';
const TEXT = 'text/plain; charset=utf-8';

export interface AgentApi extends SnapshotApi<ShownCertificate | undefined> {
  /**
   * Answers with the agent's certificate, or with 202 and what the machine waits for.
   *
   * @throws {MusterError} E_USAGE when the form is malformed or lacks a field, and what {@link
   *   redeem} throws.
   */
  redeem(body: string, address: string): Promise<AgentApiAnswer>;
  /**
   * Answers with a plan. `certificate`: undefined when none was shown, or one of another CA. If it
   * has ended, the plan brings another one for the same key, and nothing else.
   *
   * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted, E_USAGE when
   *   the facts are malformed, and what the planner throws.
   */
  poll(body: string, certificate: ShownCertificate | undefined, address: string): Promise<AgentApiAnswer>;
  /**
   * Answers with the first configuration of the machine's boot session, for its boot disk.
   *
   * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted, E_USAGE when
   *   the form is malformed, E_NOT_FOUND when the session is not the machine's or not known.
   */
  configuration(
    body: string,
    certificate: ShownCertificate | undefined,
    address: string,
  ): Promise<AgentApiAnswer>;
  /**
   * Answers with the key of the machine's data filesystem, see data-key.ts.
   *
   * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted, E_USAGE when
   *   the form is malformed, and what {@link dataKey} throws.
   */
  dataKey(body: string, certificate: ShownCertificate | undefined, address: string): Promise<AgentApiAnswer>;
  /**
   * Answers with a bundle of the agent.
   *
   * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted, E_USAGE when
   *   the form is malformed, E_NOT_FOUND when there is no bundle with that digest.
   */
  bundle(body: string, certificate: ShownCertificate | undefined, address: string): Promise<AgentApiAnswer>;
  /**
   * Keeps lines of the machine's console.
   *
   * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted, E_USAGE when
   *   the form is malformed, E_TOO_LARGE for too many lines.
   */
  console(body: string, certificate: ShownCertificate | undefined, address: string): Promise<AgentApiAnswer>;
  /**
   * Notes that the machine shuts down.
   *
   * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted, E_USAGE when
   *   the form is malformed or lacks the boot id.
   */
  leave(body: string, certificate: ShownCertificate | undefined, address: string): Promise<AgentApiAnswer>;
}

/**
 * Makes the handlers of the agents' API.
 *
 * @throws {MusterError} nothing itself; {@link AgentApi} documents what the handlers throw
 */
export function createAgentApi(deps: AgentApiDeps): AgentApi {
  /** The machines that invented a revision; each is logged once. */
  const liars = new Set<string>();
  return {
    async redeem(body, address) {
      const form = readForm(body);
      const field = (name: string): string => {
        const value = form.get(name);
        if (value === undefined) throw new MusterError('E_USAGE', `the form lacks ${name}`);
        return value;
      };
      const [ticket, tpm, proof] = ['ticket', 'tpm', 'proof'].map((name) => form.get(name));
      mustServe(deps.life.state);
      const request = { session: field('session'), ticket, csr: field('csr'), tpm, proof, address };
      return redeemAnswer(await redeem(deps, request), deps.waiting.size);
    },

    async poll(form, certificate, peer) {
      const address = plainAddress(peer);
      await takenOver(deps, certificate, address);
      const { identity, member, shown, record } = authenticate(deps, certificate, address, { ended: true });
      const since = deps.clock.monotonic();
      const read = decodeFacts(form);
      if (!read.ok) throw new MusterError('E_USAGE', `the facts: ${read.text}`);
      deps.witnesses.heard(member.name, { at: read.facts.clock, movedMs: read.facts.clockMoved ?? 0 });
      if (hasEnded(deps, shown)) mustServe(deps.life.state);
      if (hasEnded(deps, shown)) return renewEnded(deps, record, shown, read.facts, address);
      const facts = await factsOfThisLife(deps, liars, member.name, read.facts);
      await heard(deps, member, facts, address);
      if (facts.inventory) void deps.inventories.take(member.name, facts.inventory);
      const revision = await deps.revision();
      if (shown.serial === record.next?.serial) await deps.identities.renewed(record.machine);
      const restored = deps.life.state === 'restored';
      const held = await deps.laterKeys.heard(
        member.name,
        facts,
        isAhead(deps, facts, revision, member.name),
      );
      const wanted = restored ? RESTORED_PLAN : (held ?? (await deps.planner(identity, facts)));
      const current = deps.identities.get(record.machine) ?? record;
      // The renewal comes first, so that a line that ends the plan does not prevent it.
      const renewed = restored ? [] : await renewal(deps, current, shown, facts);
      const lines = [...(restored ? [] : trustLines(deps, facts)), ...renewed, ...wanted.lines];
      const plan = { ...wanted, lines };
      const { digest, tar: body } = encodePlan(plan);
      const headers = {
        'retry-after': String(Math.min(Math.max(0, plan.pollSeconds), POLL_AT_LEAST / 1000)),
        ...(deps.clock.doubt() === undefined && {
          'muster-time': String(Math.floor(deps.clock.now() / 1000)),
        }),
        // A machine that has seen a higher revision than the store has now shows the planner that
        // the store was rolled back.
        ...revisionHeader(deps, member.name, Math.max(revision, facts.seenRevision ?? 0)),
        ...deps.witness.hear(member.name, facts.seenCheckpoint),
        ...(!restored && (await agentHeader(deps, member.name))),
      };
      const applied = digest === facts.applied;
      const { listener } = shown;
      deps.planned(identity.machine, { facts, since, applied, ...(listener && { listener }) });
      return applied ? { status: 204, headers } : { status: 200, contentType: TAR, body, headers };
    },

    async configuration(body, certificate, peer) {
      const { member } = authenticate(deps, certificate, plainAddress(peer));
      const form = readForm(body);
      const session = form.get('session') ?? '';
      const origin = URL.parse(form.get('url') ?? '');
      if (session === '' || !origin || !/^https?:$/.test(origin.protocol))
        throw new MusterError('E_USAGE', 'the form lacks session, or url is not an http:// URL');
      const files = deps.configuration(member.name, session, origin.origin);
      if (files === undefined)
        throw new MusterError('E_NOT_FOUND', 'the configuration of this boot session is not known any more');
      const entries = Object.entries(files).map(([name, text]) => ({ name, content: Buffer.from(text) }));
      return { status: 200, contentType: TAR, body: tar(entries), headers: {} };
    },

    async dataKey(body, certificate, peer) {
      const address = plainAddress(peer);
      const { member } = authenticate(deps, certificate, address);
      const key = await dataKey(deps, { machine: member.name, address, form: readForm(body) });
      return { status: 200, contentType: TEXT, body: key.reveal(), headers: {} };
    },

    async bundle(body, certificate, peer) {
      authenticate(deps, certificate, plainAddress(peer));
      const bundle = deps.builds.bundle(readForm(body).get('digest') ?? '');
      if (bundle === undefined) throw new MusterError('E_NOT_FOUND', 'there is no such agent here');
      return { status: 200, contentType: TAR, body: bundle, headers: {} };
    },

    console: (body, certificate, peer) => takeConsole(deps, body, certificate, plainAddress(peer)),

    async leave(body, certificate, peer) {
      const address = plainAddress(peer);
      const { member } = authenticate(deps, certificate, address);
      const bootId = printable(readForm(body).get('bootid') ?? '', MAX_CODE);
      if (bootId === '') throw new MusterError('E_USAGE', 'the form lacks bootid');
      if (deps.roster.heartbeats.leave(member.name, { bootId, address }))
        deps.events.record({ kind: 'agent.left', subject: member.name, fields: { address, boot: bootId } });
      return { status: 204, headers: {} };
    },

    ...createSnapshotApi<ShownCertificate | undefined>(
      deps.snapshots,
      (certificate, peer) => authenticate(deps, certificate, plainAddress(peer)).identity.machine,
    ),
  };
}

/** Keeps lines of a machine's console. */
async function takeConsole(
  deps: AgentApiDeps,
  body: string,
  certificate: ShownCertificate | undefined,
  address: string,
): Promise<AgentApiAnswer> {
  const { member } = authenticate(deps, certificate, address);
  const form = readForm(body);
  const { session } = member.status;
  const given = { boot: form.get('boot'), lines: form.get('lines') };
  const part = consolePart(given, session === undefined ? [] : [session]);
  const kept = await deps.consoles.take(member.name, part);
  return { status: kept === false ? 429 : 204, headers: {} };
}

/** The header that names the agent which the machine may take. */
async function agentHeader({ builds }: AgentApiDeps, machine: string): Promise<Record<string, string>> {
  const offered = await builds.offer(machine);
  return offered === undefined ? {} : { 'muster-agent': offered };
}

/**
 * How soon a machine that is held asks again. Each request is a handshake, so a whole data centre
 * asks less often than a rack. A key that did not ask for 30 seconds waits no more.
 */
export const heldSeconds = (waiting: number): number => Math.min(20, Math.max(2, Math.ceil(waiting / 100)));

function redeemAnswer(answer: RedeemAnswer, waiting: number): AgentApiAnswer {
  if (answer.kind === 'certificate')
    return { status: 200, contentType: PEM, body: answer.certificate, headers: {} };
  const headers = { 'retry-after': String(heldSeconds(waiting)), 'muster-hold': answer.hold };
  return answer.hold === 'approval'
    ? { status: 202, headers: { ...headers, 'muster-nonce': answer.nonce } }
    : { status: 202, contentType: TEXT, body: answer.challenge, headers };
}

/** Whether a machine has proved that it saw a later state of this store than the present one. */
const isAhead = (
  { life, claims }: AgentApiDeps,
  { claim, seenRevision = 0 }: AgentFacts,
  revision: number,
  machine: string,
): boolean =>
  seenRevision > revision ||
  (claim !== undefined && claims.believed(machine, claim) && life.isAhead(claim.revision));

/**
 * The line that gives a machine the transport CA's generations of now, if it reports that it trusts
 * others. It comes before everything else, so that no hold of the plan keeps a machine from it.
 */
function trustLines({ authority }: AgentApiDeps, { trust }: AgentFacts): readonly PlanLine[] {
  const text = authority();
  if (trust === undefined || trust === createHash('sha256').update(text).digest('hex')) return [];
  return [{ do: 'put', mode: 0o644, path: AGENT_PATHS.authority, content: { text } }];
}

/**
 * The answer to an agent whose certificate has ended, e.g. because the boot host was away: a plan
 * that brings another one for the same key, and nothing else. The ledger knows the key, and the
 * handshake has proved that the agent holds it, at this moment and whatever any clock says. The
 * plan ends in a hold, so that no machine keeps it as the last one that was done.
 */
async function renewEnded(
  deps: AgentApiDeps,
  record: AgentRecord,
  shown: ShownCertificate,
  facts: AgentFacts,
  address: string,
): Promise<AgentApiAnswer> {
  const { identities, events } = deps;
  if (shown.serial === record.next?.serial) await identities.renewed(record.machine);
  const lines = await renewal(deps, identities.get(record.machine) ?? record, shown, facts);
  if (lines.length === 0) mustKnowTime(deps.clock);
  if (lines.length === 0) throw new MusterError('E_AGENT_WAIT', 'the certificate is being renewed');
  events.record({ kind: 'agent.renewed', subject: record.machine, fields: { address, ended: shown.serial } });
  const text = 'The certificate of the agent had ended. It has another one and asks again.';
  const { tar } = encodePlan({
    lines: [...trustLines(deps, facts), ...lines, { do: 'hold', code: 'certificate-ended', text }],
    pollSeconds: 0,
  });
  return { status: 200, contentType: TAR, body: tar, headers: { 'retry-after': '0' } };
}
