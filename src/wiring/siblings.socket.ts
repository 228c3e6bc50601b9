/** What this host and the other boot hosts fetch from each other, whether it acts or stands by. */
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import { parsed } from '../base/foreign-json.ts';
import type { Log } from '../base/log.ts';
import type { EventSink } from '../events/event.ts';
import { type Recipient, readRecipient } from '../pki/age.ts';
import type { Assets } from '../pxe/assets/assets.files.ts';
import { askSibling, type SiblingAt, textOf } from '../pxe/siblings/ask.socket.ts';
import { writeCode } from '../pxe/siblings/code.ts';
import { Copying, idOf, type Sent, type Sibling } from '../pxe/siblings/copying.ts';
import { Invitations } from '../pxe/siblings/invitations.ts';
import { listenToSiblings } from '../pxe/siblings/listener.server.ts';
import { makePair, type Pair } from '../pxe/siblings/pair.ts';
import {
  FILE_PATH,
  type JoinAnswer,
  joinRequest,
  WANTED_PATH,
  type Wanted,
  wanted as wantedForm,
} from '../pxe/siblings/wire.ts';
import { type HostSeen, SILENT_MS } from '../store/etcd/hosts.ts';
import type { About } from '../store/etcd.socket.ts';

export interface SiblingsOptions {
  readonly host: string;
  readonly port: number;
  /** Octets a second at most. */
  readonly rate: number;
  readonly assets: Assets;
  readonly events: EventSink;
  /** What the host gets that was invited and asks from there. */
  readonly whatJoins: (host: string, recipient: Recipient, sharesCertificate: boolean) => Promise<JoinAnswer>;
  /** The addresses by which this host alone is reached. */
  readonly addresses: () => readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

export interface Siblings {
  /** What the others are told of it. */
  readonly about: Pick<About, 'sibling' | 'files' | 'joined'>;
  /** This host acts: these are the files that all hosts should have. */
  wants(files: () => Iterable<string>): void;
  /** Identifies that list; undefined while this host does not act. */
  wantedFiles(): string | undefined;
  /** The others remove the file as well. */
  removedFile(sha256: string): void;
  /**
   * Invites a new host: the code that it joins by.
   *
   * @throws {MusterError} E_CONFLICT when this host has no address of its own
   */
  invite(host: string, sharesCertificate: boolean): string;
  invited(host: string): boolean;
  callOff(host: string): void;
  close(): Promise<void>;
}

/** So many files that were removed are remembered. */
const MOST_REMOVED = 1000;

/**
 * Opens the listener for the other hosts, and begins to fetch what this one lacks.
 *
 * @throws {MusterError} E_PORT_IN_USE, E_SOCKET_OPEN
 */
export async function openSiblings(options: SiblingsOptions): Promise<Siblings> {
  const { host, assets, clock, rate } = options;
  const log = options.log.child({ room: 'siblings' });
  const pair = await makePair(host);
  const ending = new AbortController();
  let presence: Parameters<About['joined']>[0] | undefined;
  let files: (() => Iterable<string>) | undefined;
  const removed = new Set<string>();
  const others = (): readonly HostSeen[] => presence?.list().slice(1) ?? [];
  const own = (): Wanted | undefined => files && listOf(files(), assets, removed);
  const invitations = new Invitations(clock);
  const { port, close } = await listenToSiblings({
    ...{ port: options.port, pair, assets, wanted: own, clock, log },
    invites: () => invitations.some,
    join: (body, address) => joined(options, invitations, body, address),
    sibling: (shown) => others().find(({ sibling }) => sibling?.fingerprint === shown)?.host,
    isSibling: (address) => others().some(({ addresses }) => addresses.includes(address)),
  });
  const copying = new Copying({
    ...{ assets, own, rate, clock, log, signal: ending.signal },
    siblings: () =>
      others()
        .filter(({ agoMs }) => agoMs < SILENT_MS)
        // A host that died acting is listed as such until its key is forgotten.
        .toSorted((a, b) => rank(a) - rank(b) || a.agoMs - b.agoMs)
        .flatMap((one) => siblingOf(pair, one)),
    changed: () => presence?.soon(),
  });
  return {
    about: {
      sibling: () => ({ port, fingerprint: pair.fingerprint }),
      files: () => copying.said,
      joined(heard) {
        presence = heard;
      },
    },
    wants(given) {
      files = given;
    },
    wantedFiles: () => {
      const list = own();
      return list && idOf(list);
    },
    removedFile(sha256) {
      removed.add(sha256);
      if (removed.size > MOST_REMOVED) removed.delete(removed.values().next().value!);
    },
    invite(name, sharesCertificate) {
      const addresses = options.addresses();
      if (addresses.length === 0)
        throw new MusterError('E_CONFLICT', 'this host has no address of its own at which it could be asked');
      const secret = invitations.invite(name, sharesCertificate);
      return writeCode({ addresses, port, fingerprint: pair.fingerprint, secret });
    },
    invited: (name) => invitations.has(name),
    callOff: (name) => invitations.callOff(name),
    async close() {
      ending.abort();
      await copying.ended;
      await close();
    },
  };
}

/** Answers a host that asks to join; undefined: its secret is not that of an invitation. */
async function joined(
  { whatJoins, events, log }: SiblingsOptions,
  invitations: Invitations,
  body: string,
  address: string,
): Promise<string | undefined> {
  const request = joinRequest.safeParse(parsed(body));
  if (!request.success) return undefined;
  const recipient = readRecipient(request.data.recipient);
  const found = invitations.redeem(request.data.secret);
  if (found.host === undefined) {
    if (found.recorded) events.record({ kind: 'host.join-refused', subject: 'muster', fields: { address } });
    return undefined;
  }
  const { host, sharesCertificate } = found;
  const answer = await whatJoins(host, recipient, sharesCertificate).catch((error: unknown) => {
    log.error(
      { host, cause: messageOf(error) },
      'a boot host cannot be given what it needs; invite it again',
    );
    throw error;
  });
  events.record({ kind: 'host.joined', subject: 'muster', fields: { host, address } });
  log.info({ host, address }, 'a boot host has what it needs to stand by');
  return JSON.stringify(answer);
}

const rank = ({ role }: HostSeen): number => (role === 'acting' ? 0 : 1);

function listOf(files: Iterable<string>, assets: Assets, removed: ReadonlySet<string>): Wanted {
  const all = [...new Set(files)].toSorted().map((sha256) => {
    const size = assets.find(sha256)?.size;
    return { sha256, ...(size !== undefined && { size }) };
  });
  return { v: 1, files: all, removed: [...removed] };
}

/** Another host, as it is asked; none if it does not say where. */
function siblingOf(pair: Pair, { host, role, addresses, sibling }: HostSeen): Sibling[] {
  if (sibling === undefined) return [];
  const at: SiblingAt = { host, addresses, ...sibling };
  return [
    {
      host,
      acts: role === 'acting',
      async wanted(signal) {
        const answer = await askSibling(pair, at, WANTED_PATH, { signal });
        if (answer.statusCode === 503) return void answer.resume();
        mustBe(answer, host, 200);
        return wantedForm.parse(parsed(await textOf(answer)));
      },
      async file(sha256, offset, signal) {
        const headers: Record<string, string> = offset > 0 ? { range: `bytes=${offset}-` } : {};
        const answer = await askSibling(pair, at, FILE_PATH + sha256, { headers, signal });
        const { statusCode } = answer;
        if (statusCode !== 404 && statusCode !== 416) return sentOf(answer, host, offset);
        answer.resume();
        return statusCode === 404 ? 'lacks' : 'shorter';
      },
    },
  ];
}

function sentOf(answer: IncomingMessage, host: string, offset: number): Sent {
  mustBe(answer, host, offset > 0 ? 206 : 200);
  const { 'content-length': length, 'content-range': range } = answer.headers;
  const [, first, whole] = /^bytes ([0-9]+)-[0-9]+\/([0-9]+)$/.exec(range ?? '') ?? [];
  const total = Number(offset > 0 ? whole : length);
  if (!Number.isSafeInteger(total) || (offset > 0 && Number(first) !== offset)) {
    answer.destroy();
    throw new MusterError('E_UNREACHABLE', `${host} sends octets that were not asked for`);
  }
  return { total, body: answer };
}

function mustBe(answer: IncomingMessage, host: string, status: number): void {
  if (answer.statusCode === status) return;
  answer.destroy();
  throw new MusterError('E_UNREACHABLE', `${host} answers with status ${answer.statusCode}`);
}
