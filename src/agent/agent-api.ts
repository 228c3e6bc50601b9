/**
 * The agents' API without its sockets: authenticates a poll by its certificate, records the facts,
 * and answers with a plan.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Millis } from '../base/duration.ts';
import { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { EventKind, Reason } from '../events/event.ts';
import type { Consoles } from '../machines/console.files.ts';
import { consolePart } from '../machines/console.ts';
import { POLL_AT_LEAST } from '../machines/heartbeats.ts';
import { printable } from '../machines/identity.ts';
import type { Inventories } from '../machines/inventories.ts';
import type { AgentStatus } from '../machines/machine.ts';
import { plainAddress } from '../machines/reports.ts';
import type { Member } from '../machines/roster.ts';
import type { Life } from '../store/life.ts';
import { raiseAlarm } from './alarm.ts';
import { shortBuild } from './bundle.ts';
import { dataKey } from './data-key.ts';
import type { AgentFacts } from './facts.ts';
import { readForm } from './form.ts';
import type { AgentRecord } from './identities.ts';
import { factsOfThisLife, mustServe, RESTORED_PLAN, revisionHeader } from './life-gate.ts';
import { AGENT_PATHS, type PlanLine } from './plan.ts';
import type {
  AgentApiAnswer,
  AgentBuilds,
  AgentIdentity,
  AgentPlanner,
  AgentSnapshots,
  LaterKeysGuard,
} from './protocol.ts';
import { type RedeemAnswer, type RedeemDeps, redeem } from './redeem.ts';
import { renewal } from './renewal.ts';
import type { RevisionClaims } from './revision-claim.ts';
import { createSnapshotApi, type SnapshotApi } from './snapshot-api.ts';
import { tar } from './tar.ts';
import { linesFor } from './versions.ts';
import { decodeFacts, encodePlan, FACTS_LIMIT } from './wire.ts';
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

interface AgentApiDeps extends RedeemDeps {
  readonly log: Log;
  readonly planner: AgentPlanner;
  /** Told about every poll that was answered with a plan. */
  readonly planned?: PlannedPoll | undefined;
  /** The store's revision now. */
  readonly revision: () => Promise<number>;
  /** The life of the store; absent: it was never restored. */
  readonly life?: Pick<Life, 'number' | 'state' | 'detail' | 'seen' | 'isAhead'> | undefined;
  /** Tells revisions that machines were sent from revisions that they invented. */
  readonly claims: RevisionClaims;
  /** The first configuration of a machine's boot session; undefined when that is not known. */
  readonly configuration?: ConfigurationOf | undefined;
  /** The addresses that are a machine's own. */
  readonly ownAddresses: (machine: string) => ReadonlySet<string>;
  /** Keeps what machines report of their parts. */
  readonly inventories?: Pick<Inventories, 'take'> | undefined;
  /** Keeps what machines print on their consoles; absent: nobody does. */
  readonly consoles?: Pick<Consoles, 'take'> | undefined;
  /** Compares the checkpoints that machines remember with the security log. */
  readonly witness?: Witness | undefined;
  /** Snapshots of etcd; absent: nobody takes any. */
  readonly snapshots?: AgentSnapshots | undefined;
  /** Which agent machines run; absent: none is upgraded. */
  readonly builds?: AgentBuilds | undefined;
  /** Holds clusters whose keys are later than this store's; absent: none is held. */
  readonly laterKeys?: LaterKeysGuard | undefined;
  /** Ids of the transport CA's generations: all that are trusted, and the one that signs. */
  readonly trusted: () => ReadonlySet<string>;
  readonly primary: () => string;
  /** PEM of all trusted generations. */
  readonly authority: () => string;
  /** Whether an agent may work on a machine; see AgentBoot. Constant time. */
  readonly hasAgent: (machine: string) => boolean;
}

/**
 * A client certificate for whose key the handshake has a signature. Its chain was checked against
 * the trusted generations unless it has ended; the ledger decides in both cases.
 */
export interface ShownCertificate {
  /** Hexadecimal, lower case. */
  readonly serial: string;
  /** DER of its SubjectPublicKeyInfo. */
  readonly spki: Buffer;
  /** Ms since 1970. */
  readonly notAfter: number;
  /**
   * The generation of the transport CA whose certificate the listener showed on this connection.
   * The client accepted it, or it would not have sent a request. Absent: it is not known any more.
   */
  readonly listener?: string;
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
      mustServe(deps.life?.state);
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
      if (hasEnded(deps, shown)) mustServe(deps.life?.state);
      if (hasEnded(deps, shown)) return renewEnded(deps, record, shown, read.facts, address);
      const facts = await factsOfThisLife(deps, liars, member.name, read.facts);
      await heard(deps, member, facts, address);
      if (facts.inventory) void deps.inventories?.take(member.name, facts.inventory);
      const revision = await deps.revision();
      if (shown.serial === record.next?.serial) await deps.identities.renewed(record.machine);
      const restored = deps.life?.state === 'restored';
      const held = await deps.laterKeys?.heard(
        member.name,
        facts,
        isAhead(deps, facts, revision, member.name),
      );
      const wanted = restored ? RESTORED_PLAN : (held ?? (await deps.planner(identity, facts)));
      const current = deps.identities.get(record.machine) ?? record;
      // The renewal comes first, so that a line that ends the plan does not prevent it.
      const renewed = restored ? [] : await renewal(deps, current, shown, facts);
      const lines = [...(restored ? [] : trustLines(deps, facts)), ...renewed, ...wanted.lines];
      const plan = { ...wanted, lines: linesFor(facts.agent, lines) };
      const { digest, tar: body } = encodePlan(plan);
      const headers = {
        'retry-after': String(Math.min(Math.max(0, plan.pollSeconds), POLL_AT_LEAST / 1000)),
        'muster-time': String(Math.floor(deps.clock.now() / 1000)),
        // A machine that has seen a higher revision than the store has now shows the planner that
        // the store was rolled back.
        ...revisionHeader(deps, member.name, Math.max(revision, facts.seenRevision ?? 0)),
        ...deps.witness?.hear(member.name, facts.seenCheckpoint),
        ...(!restored && (await agentHeader(deps, member.name))),
      };
      const applied = digest === facts.applied;
      const { listener } = shown;
      deps.planned?.(identity.machine, { facts, since, applied, ...(listener && { listener }) });
      return applied ? { status: 204, headers } : { status: 200, contentType: TAR, body, headers };
    },

    async configuration(body, certificate, peer) {
      const { member } = authenticate(deps, certificate, plainAddress(peer));
      const form = readForm(body);
      const session = form.get('session') ?? '';
      const origin = URL.parse(form.get('url') ?? '');
      if (session === '' || !origin || !/^https?:$/.test(origin.protocol))
        throw new MusterError('E_USAGE', 'the form lacks session, or url is not an http:// URL');
      const files = deps.configuration?.(member.name, session, origin.origin);
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
      const bundle = deps.builds?.bundle(readForm(body).get('digest') ?? '');
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
  const kept = await deps.consoles?.take(member.name, part);
  return { status: kept === false ? 429 : 204, headers: {} };
}

/** The header that names the agent which the machine may take. */
async function agentHeader({ builds }: AgentApiDeps, machine: string): Promise<Record<string, string>> {
  const offered = await builds?.offer(machine);
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
  (claim !== undefined && claims.believed(machine, claim) && life?.isAhead(claim.revision) === true);

/**
 * The line that gives a machine the transport CA's generations of now, if it reports that it trusts
 * others. It comes before everything else, so that no hold of the plan keeps a machine from it.
 */
function trustLines({ authority }: AgentApiDeps, { trust }: AgentFacts): readonly PlanLine[] {
  const text = authority();
  if (trust === undefined || trust === createHash('sha256').update(text).digest('hex')) return [];
  return [{ do: 'put', mode: 0o644, path: AGENT_PATHS.authority, content: { text } }];
}

/** Whether the certificate has ended by now, maybe since the handshake. */
const hasEnded = ({ clock }: AgentApiDeps, shown: ShownCertificate): boolean => shown.notAfter <= clock.now();

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
  if (lines.length === 0) throw new MusterError('E_AGENT_WAIT', 'the certificate is being renewed');
  events.record({ kind: 'agent.renewed', subject: record.machine, fields: { address, ended: shown.serial } });
  const text = 'The certificate of the agent had ended. It has another one and asks again.';
  const { tar } = encodePlan({
    lines: [...trustLines(deps, facts), ...lines, { do: 'hold', code: 'certificate-ended', text }],
    pollSeconds: 0,
  });
  return { status: 200, contentType: TAR, body: tar, headers: { 'retry-after': '0' } };
}

/** Reasons why a client certificate is not accepted. */
const REFUSALS = {
  no_certificate: "The client presented no certificate of Muster's transport CA.",
  not_current: 'The certificate was never issued to an agent, or its machine has a newer one by now.',
  other_key: 'The key is not the one that this certificate was issued for.',
  distrusted: 'The certificate is of a generation of the transport CA that is distrusted.',
  revoked:
    'The certificate was revoked when its machine was removed from the cluster; decide with `muster machine rearm`.',
  ended: 'The certificate has ended. A poll with it brings another one for the same key.',
  quarantined: 'The machine is in quarantine; an operator ends that with `muster machine release`.',
  machine_gone: 'The machine has no document any more.',
  no_cluster: 'No cluster names the machine any more, and its documents refer to no Secret.',
} as const;

/**
 * Finds the machine that the ledger gave this certificate to. The certificate's subject is not
 * read: the ledger alone says whose key it is. `ended`: a certificate that has ended is accepted,
 * too.
 *
 * @throws {MusterError} E_AGENT_CERTIFICATE when the certificate is not accepted ({@link
 * REFUSALS})
 */
function authenticate(
  deps: AgentApiDeps,
  shown: ShownCertificate | undefined,
  address: string,
  { ended = false }: { readonly ended?: boolean } = {},
): {
  readonly identity: AgentIdentity;
  readonly member: Member;
  readonly shown: ShownCertificate;
  readonly record: AgentRecord;
} {
  const { identities, roster, events, trusted, hasAgent } = deps;
  const record = shown && identities.holder(shown.serial);
  const member = record && roster.get(record.machine);
  const refuse = (code: keyof typeof REFUSALS): never => {
    const reason = { code, text: REFUSALS[code] };
    events.record({
      kind: 'agent.refused',
      subject: record?.machine ?? address,
      reason,
      fields: { address, ...(shown ? { serial: shown.serial } : {}) },
    });
    throw new MusterError('E_AGENT_CERTIFICATE', reason.text);
  };
  if (shown === undefined) return refuse('no_certificate');
  if (record === undefined) return refuse('not_current');
  if (createHash('sha256').update(shown.spki).digest('hex') !== record.pin) return refuse('other_key');
  const generation = record.next?.serial === shown.serial ? record.next.generation : record.generation;
  if (!trusted().has(generation)) return refuse('distrusted');
  if (member?.status.quarantine !== undefined) return refuse('quarantined');
  if (record.revoked !== undefined) return refuse('revoked');
  if (member?.entry === undefined) return refuse('machine_gone');
  if (!hasAgent(record.machine)) return refuse('no_cluster');
  if (!ended && hasEnded(deps, shown)) return refuse('ended');
  return { identity: { machine: record.machine, serial: shown.serial, address }, member, shown, record };
}

/**
 * Raises the alarm when a system polls with the certificate that its machine had before, while
 * another polls with the current one: something booted in the machine's name while its agent could
 * not be heard.
 */
async function takenOver(
  deps: AgentApiDeps,
  shown: ShownCertificate | undefined,
  address: string,
): Promise<void> {
  const { identities, roster } = deps;
  const machine = shown && identities.replaced(shown.serial);
  if (machine === undefined || roster.get(machine)?.status.alarm !== undefined) return;
  if (roster.heartbeats.alive(machine)?.bootId === undefined) return;
  const text =
    'Two systems run in the name of this machine: one speaks with the certificate that it had before.';
  await raiseAlarm(deps, machine, { code: 'taken_over', text }, address);
}

/** How many characters of a code or id are kept. */
const MAX_CODE = 64;
/** How many characters of a reason's text are kept. */
const MAX_TEXT = 500;

/** Records that the machine is alive, and what is new in its facts. */
async function heard(deps: AgentApiDeps, member: Member, facts: AgentFacts, address: string): Promise<void> {
  const { roster, events, clock } = deps;
  const subject = member.name;
  const bootId = printable(facts.bootId, MAX_CODE);
  const beat = roster.heartbeats.beat(subject, { bootId, address });
  if (beat === 'returned') {
    const text = 'Two systems use one certificate of this machine in turns: it was copied.';
    await raiseAlarm(deps, subject, { code: 'copied', text }, address);
  }
  const before = member.status.agent;
  const step = facts.step === undefined ? undefined : printable(facts.step, MAX_CODE);
  const hold =
    facts.hold === undefined
      ? undefined
      : { code: printable(facts.hold.code, MAX_CODE), text: printable(facts.hold.text, MAX_TEXT) };
  const bootDisk = facts.bootDisk && {
    code: facts.bootDisk.state,
    text: printable(facts.bootDisk.text, MAX_TEXT),
  };
  const version = printable(facts.agent, MAX_CODE);
  const { build, refused } = facts;
  const rebooted = before?.bootId !== bootId;
  const stepChanged = before?.step !== step;
  const holdChanged = before?.hold?.code !== hold?.code || before?.hold?.text !== hold?.text;
  const bootDiskChanged =
    before?.bootDisk?.code !== bootDisk?.code || before?.bootDisk?.text !== bootDisk?.text;
  const secrets = Object.fromEntries(facts.secrets ?? []);
  const secretsChanged = !isDeepStrictEqual(before?.secrets ?? {}, secrets);
  const buildChanged = before?.build !== build;
  const refusedChanged = !isDeepStrictEqual(before?.refused, refused);
  const changed =
    rebooted ||
    stepChanged ||
    holdChanged ||
    bootDiskChanged ||
    secretsChanged ||
    buildChanged ||
    refusedChanged;
  if (!changed && before?.version === version) return;
  const agent: AgentStatus = {
    since: clock.now(),
    version,
    bootId,
    ...(step === undefined ? {} : { step }),
    ...(hold === undefined ? {} : { hold }),
    ...(bootDisk === undefined ? {} : { bootDisk }),
    ...(facts.secrets && { secrets }),
    ...(build !== undefined && { build }),
    ...(refused && { refused }),
  };
  roster.change(member, { agent });
  const session = member.status.session;
  const record = (kind: Extract<EventKind, `agent.${string}`>, more: object): void =>
    events.record({ kind, subject, ...(session === undefined ? {} : { session }), ...more });
  if (rebooted) record('agent.alive', { fields: { address, version, boot: bootId } });
  if (stepChanged && step !== undefined) record('agent.step', { fields: { step } });
  if (hold !== undefined && numbersAside(before?.hold) !== numbersAside(hold))
    record('agent.held', { reason: hold });
  if (secretsChanged)
    record('agent.secrets', { fields: { secrets: [...(facts.secrets?.keys() ?? [])].join(' ') } });
  if (buildChanged && !rebooted && build !== undefined && before?.build !== undefined)
    record('agent.upgraded', { fields: { from: shortBuild(before.build), to: shortBuild(build) } });
  if (refusedChanged && refused)
    record('agent.taken-back', {
      reason: { code: refused.code, text: printable(refused.text, MAX_TEXT) },
      fields: { agent: shortBuild(refused.digest) },
    });
  if (bootDiskChanged && bootDisk !== undefined) record('agent.boot-disk', { reason: bootDisk });
}

/**
 * A hold with its digits replaced: two failures of a program that differ only in times and process
 * ids are the same hold.
 */
const numbersAside = (hold: Reason | undefined): string | undefined =>
  hold && `${hold.code} ${hold.text.replace(/\d+/g, '0')}`;
