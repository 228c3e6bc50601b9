/**
 * Opens sessions with BMCs: one part of Muster at a time for each, by the protocol that worked,
 * with the certificate that counts, and never more often with a refused password than is safe.
 */
import type { Clock } from '../base/clock.ts';
import { duration, type Millis } from '../base/duration.ts';
import type { Log } from '../base/log.ts';
import type { Secrets } from '../pki/secrets.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import {
  afterLogin,
  decodeOwn,
  eitherOf,
  encodeOwn,
  isDue,
  newPassword,
  OWN_USER,
  type OwnPassword,
  otherOf,
} from './account.ts';
import { type Bmc, BmcFault } from './bmc.ts';
import { afterShown, giveCertificate, givenTo } from './certificate.ts';
import type { IpmiAccess } from './ipmi/client.socket.ts';
import {
  afterRefusal,
  decodeKnown,
  type Given,
  isAt,
  isSpent,
  type Known,
  recordOf,
  UNKNOWN,
  withOffer,
} from './known.ts';
import type { Login, Opened, Stay } from './logins.ts';
import { addressFor, lockOf, loginOf, protocolsFor, type Reach } from './reach.ts';
import type { RedfishAccess } from './redfish/client.socket.ts';

/** What opens a session of each protocol. */
export interface Protocols {
  readonly redfish: (access: RedfishAccess) => Promise<Bmc>;
  readonly ipmi: (access: IpmiAccess) => Promise<Bmc>;
}

export interface ConnectDeps {
  readonly store: Pick<Store, 'list' | 'commit'>;
  /** A value of a Secret, and since when it is this one; undefined: there is none. */
  readonly secret: (
    name: string,
    key: string,
  ) => { readonly value: Buffer; readonly since: number } | undefined;
  readonly protocols: Protocols;
  /** Where the passwords of Muster's own accounts are sealed. */
  readonly vault: Pick<Secrets, 'get' | 'put'>;
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly log: Log;
}

/** What was done for Muster's own account, and what each means. */
export const KEPT = {
  'account-made': 'Muster has an account of its own, with a password that only its vault has.',
  'password-replaced': 'It has a new password, and a log-in with it worked.',
  'log-in-off': 'The account of the document is switched off.',
  'certificate-replaced': "It shows a certificate of Muster's CA.",
} as const;
export type Kept = keyof typeof KEPT;

export interface Connections {
  /**
   * Does `work` in a session; others wait meanwhile. One of Redfish stays open for the next work. A
   * BMC may have ended it: `work` is then done again in a new one, so it must be a single question
   * or order.
   *
   * @throws {BmcFault}
   */
  with<T>(machine: string, reach: Reach, work: (bmc: Bmc) => Promise<T>): Promise<T>;
  /**
   * Opens a session that the caller closes: for a console, by the protocol that the documents name
   * for it, which stays open while others ask, by whichever protocol.
   *
   * @throws {BmcFault}
   */
  hold(machine: string, reach: Reach): Promise<Bmc>;
  /**
   * Makes Muster's own account as the documents ask, replaces its password where that was ordered,
   * and switches the other account off. Returns what it did.
   *
   * @throws {BmcFault}
   */
  keep(machine: string, reach: Reach): Promise<readonly Kept[]>;
  /**
   * Gives it a certificate, and waits until it shows that. `sign` makes one for the key of a
   * request.
   *
   * @throws {BmcFault} and what `sign` throws
   */
  certify(
    machine: string,
    reach: Reach,
    sign: (request: string) => Promise<Given & { readonly pem: string }>,
  ): Promise<void>;
  /** What is known of the BMC of a machine. */
  known(machine: string): Known | undefined;
  /** Stores what is known besides. */
  note(machine: string, reach: Reach, known: Pick<Known, 'due' | 'certify' | 'fault'>): Promise<void>;
  /** Forgets it: the next certificate and log-in count as the first. */
  forget(machine: string): Promise<void>;
  /** Two machines have exchanged their BMCs: what is known of those follows, if it did not yet. */
  exchange(one: string, other: string, reach: (machine: string) => Reach | undefined): Promise<void>;
  /** Ends all sessions. BMCs that do not answer soon keep theirs until they forget them. */
  close(): Promise<void>;
}

/** A session that nobody used for so long is ended: twice the time between two looks, and more. */
const IDLE: Millis = duration('90s');
/** The server waits so long for the ends of sessions when it stops. */
const CLOSING: Millis = duration('5s');

export async function openConnections(deps: ConnectDeps): Promise<Connections> {
  const connections = new HeldConnections(deps);
  await connections.load();
  return connections;
}

/** The name of the sealed text. */
const sealedAs = (holder: string): string => `bmc.${holder}`;

class HeldConnections implements Connections {
  readonly #deps: ConnectDeps;
  readonly #known = new Map<string, Known>();
  /** The machines of each BMC, by its lock. */
  readonly #sharing = new Map<string, Set<string>>();
  /** What is sealed of each machine that was asked. */
  readonly #passwords = new Map<string, readonly OwnPassword[]>();
  /** The end of the last work with each BMC. */
  readonly #last = new Map<string, Promise<unknown>>();
  readonly #stays = new Map<string, Stay>();
  #closed = false;

  constructor(deps: ConnectDeps) {
    this.#deps = deps;
  }

  async load(): Promise<void> {
    for (const { key, value } of (await this.#deps.store.list(KEYS.bmc.prefix())).records) {
      const [machine] = KEYS.bmc.parse(key) ?? [];
      const known = decodeKnown(value);
      if (machine !== undefined && known) this.#remember(machine, known);
    }
  }

  known(machine: string): Known | undefined {
    const known = this.#known.get(machine);
    if (known === undefined) return undefined;
    const own = this.#known.get(this.#holder(machine, known.lock))?.own;
    const certificate =
      known.certificate ?? this.#knownAt(known.lock).find((one) => one.certificate)?.certificate;
    return { ...known, ...(own && { own }), ...(certificate && { certificate }) };
  }

  async forget(machine: string): Promise<void> {
    if (!this.#known.has(machine)) return;
    const { lock } = this.#known.get(machine)!;
    await this.#deps.store.commit([recordOf(machine, undefined)]);
    this.#remember(machine, undefined);
    if (this.#stays.get(lock)?.machine === machine) await this.#end(lock);
  }

  async exchange(one: string, other: string, reach: (machine: string) => Reach | undefined): Promise<void> {
    const [a, b] = [this.#known.get(one), this.#known.get(other)];
    if (!isAt(a, reach(other)) && !isAt(b, reach(one))) return;
    const [ofOne, ofOther] = [await this.#own(one), await this.#own(other)];
    if (ofOne.length + ofOther.length > 0) {
      await this.#putOwn(one, eitherOf(ofOther, ofOne));
      await this.#putOwn(other, eitherOf(ofOne, ofOther));
    }
    await this.#deps.store.commit([recordOf(one, b), recordOf(other, a)]);
    this.#remember(one, b);
    this.#remember(other, a);
    for (const known of [a, b]) if (known) await this.#end(known.lock);
  }

  async close(): Promise<void> {
    this.#closed = true;
    let cancel = (): void => {};
    const late = new Promise<void>((done) => {
      cancel = this.#deps.clock.after(CLOSING, done);
    });
    await Promise.race([Promise.all([...this.#stays.keys()].map((lock) => this.#end(lock))), late]);
    cancel();
  }

  with<T>(machine: string, reach: Reach, work: (bmc: Bmc) => Promise<T>): Promise<T> {
    return this.#alone(reach, async () => {
      const stayed = await this.#stayed(machine, reach);
      if (stayed === undefined) return this.#do(machine, reach, await this.#open(machine, reach), work);
      return this.#do(machine, reach, stayed, work).catch(async (error: unknown) => {
        // BMCs end sessions by themselves. A log-in that is refused now is counted by `#open`.
        if (!(error instanceof BmcFault && error.code === 'password')) throw error;
        return this.#do(machine, reach, await this.#open(machine, reach), work);
      });
    });
  }

  /** Does it in a session, which stays open if it can and all went well. */
  async #do<T>(machine: string, reach: Reach, opened: Opened, work: (bmc: Bmc) => Promise<T>): Promise<T> {
    let isWell = false;
    try {
      const done = await work(opened.bmc);
      isWell = true;
      return done;
    } finally {
      // A machine that was forgotten meanwhile starts with its next session.
      const stays = isWell && opened.bmc.protocol === 'redfish' && this.#known.has(machine);
      if (stays && !this.#closed) this.#stay(machine, reach, opened);
      else await opened.bmc.close();
    }
  }

  #stay(machine: string, reach: Reach, opened: Opened): void {
    const lock = lockOf(reach);
    const cancel = this.#deps.clock.after(IDLE, () => void this.#end(lock));
    this.#stays.set(lock, { machine, opened, reach: JSON.stringify(reach), cancel });
  }

  /** Takes the session that stayed open; one that is not for this machine and log-in is ended. */
  async #stayed(machine: string, reach: Reach): Promise<Opened | undefined> {
    const lock = lockOf(reach);
    const stay = this.#stays.get(lock);
    if (stay === undefined) return undefined;
    const { user, password } = stay.opened.login;
    const isFor = stay.machine === machine && stay.reach === JSON.stringify(reach);
    const logins = isFor ? await this.#logins(machine, reach, false) : [];
    if (!logins.some((one) => one.user === user && one.password === password)) await this.#end(lock);
    // It was ended, or was idle for too long while the vault was read.
    if (this.#stays.get(lock) !== stay) return undefined;
    stay.cancel();
    this.#stays.delete(lock);
    return stay.opened;
  }

  /** Ends the session with a BMC that stayed open. */
  async #end(lock: string): Promise<void> {
    const stay = this.#stays.get(lock);
    if (stay === undefined) return;
    this.#stays.delete(lock);
    stay.cancel();
    await stay.opened.bmc.close();
  }

  hold(machine: string, reach: Reach): Promise<Bmc> {
    const protocol = reach.console === 'redfish' ? 'redfish' : 'ipmi';
    return this.#alone(reach, async () => (await this.#open(machine, reach, { protocol })).bmc);
  }

  async note(machine: string, reach: Reach, more: Pick<Known, 'due' | 'certify' | 'fault'>): Promise<void> {
    await this.#keep(machine, { ...this.#knownOf(machine, lockOf(reach)), ...more });
  }

  keep(machine: string, reach: Reach): Promise<readonly Kept[]> {
    return this.#alone(reach, async () => {
      await this.#end(lockOf(reach));
      const kept: Kept[] = [];
      let opened: Opened | undefined = await this.#open(machine, reach);
      try {
        const holder = this.#holder(machine, lockOf(reach));
        if (reach.credentials?.managed && (!opened.isOwn || isDue(this.known(machine)))) {
          kept.push(opened.isOwn ? 'password-replaced' : 'account-made');
          const { bmc } = opened;
          opened = undefined;
          opened = await this.#replace(machine, reach, bmc);
          await this.note(machine, reach, { due: undefined });
        }
        const other = otherOf(reach);
        const own = this.#known.get(holder)?.own;
        if (other !== undefined && own && own.off !== other) {
          await opened.bmc.switchOff(other);
          kept.push('log-in-off');
        }
        if (own && own.off !== other) await this.#noteOwn(holder, { since: own.since, off: other });
        return kept;
      } finally {
        await opened?.bmc.close();
      }
    });
  }

  certify(machine: string, reach: Reach, sign: Parameters<Connections['certify']>[2]): Promise<void> {
    const { clock } = this.#deps;
    return this.#alone(reach, async () => {
      await this.#end(lockOf(reach));
      await giveCertificate({
        open: async () => (await this.#open(machine, reach)).bmc,
        known: () => this.known(machine),
        sign,
        offer: (given) => this.#store(machine, withOffer(this.#knownOf(machine, lockOf(reach)), given)),
        pause: (span) => new Promise((done) => void clock.after(span, done)),
        now: () => clock.now(),
      });
    });
  }

  /** Gives Muster's own account a new password, and logs in with it. */
  async #replace(machine: string, reach: Reach, bmc: Bmc): Promise<Opened> {
    const holder = this.#holder(machine, lockOf(reach));
    const before = await this.#own(holder);
    const fresh = { text: newPassword(), at: this.#deps.clock.now() };
    // Durable before the BMC has it: whatever ends this server meanwhile, one of the two is right.
    await this.#putOwn(holder, [fresh, ...before.slice(0, 1)]);
    const fault = await bmc.setAccount({ user: OWN_USER, password: fresh.text }).then(
      () => undefined,
      (error: unknown) => error,
    );
    await bmc.close();
    // The answer may be lost, or wrong: what was done is what a log-in shows.
    const opened = await this.#open(machine, reach, { isOwn: true }).catch((error: unknown) => {
      throw error instanceof BmcFault && error.code === 'password' && fault !== undefined ? fault : error;
    });
    if ((await this.#own(holder))[0] === fresh) return opened;
    await opened.bmc.close();
    throw fault ?? new BmcFault('refused', 'it accepted the new password, and keeps the old one');
  }

  /** Does it when all earlier work with the BMC is done. */
  #alone<T>(reach: Reach, work: () => Promise<T>): Promise<T> {
    const lock = lockOf(reach);
    const before = this.#last.get(lock) ?? Promise.resolve();
    const next = before.then(work);
    const settled = next.catch(() => {});
    this.#last.set(lock, settled);
    void settled.then(() => this.#last.get(lock) === settled && this.#last.delete(lock));
    return next;
  }

  #knownOf(machine: string, lock: string): Known {
    const stored = this.#known.get(machine);
    if (stored?.lock === lock) return stored;
    // A BMC at another address may be the same one, with the account of Muster.
    return { ...UNKNOWN(lock), ...(stored?.own && { own: stored.own }) };
  }

  /** What is known of the BMC by all of its machines. */
  #knownAt(lock: string): readonly Known[] {
    return [...(this.#sharing.get(lock) ?? [])].map((machine) => this.#known.get(machine)!);
  }

  #remember(machine: string, known: Known | undefined): void {
    const before = this.#known.get(machine)?.lock;
    if (before !== undefined && before !== known?.lock) this.#sharing.get(before)?.delete(machine);
    if (known === undefined) this.#known.delete(machine);
    else {
      this.#known.set(machine, known);
      this.#sharing.set(known.lock, (this.#sharing.get(known.lock) ?? new Set()).add(machine));
    }
  }

  /** The machine under whose name the passwords are: machines of one BMC share an account. */
  #holder(machine: string, lock: string): string {
    if (this.#known.get(machine)?.own) return machine;
    const others = [...(this.#sharing.get(lock) ?? [])];
    return others.find((other) => this.#known.get(other)?.own) ?? machine;
  }

  async #own(holder: string): Promise<readonly OwnPassword[]> {
    let own = this.#passwords.get(holder);
    if (own === undefined) {
      own = decodeOwn(await this.#deps.vault.get(sealedAs(holder)));
      this.#passwords.set(holder, own);
    }
    return own;
  }

  async #putOwn(holder: string, passwords: readonly OwnPassword[]): Promise<void> {
    this.#passwords.delete(holder);
    await this.#deps.vault.put(sealedAs(holder), encodeOwn(passwords));
    this.#passwords.set(holder, passwords);
  }

  async #noteOwn(holder: string, own: Known['own']): Promise<void> {
    const known = this.#known.get(holder);
    if (known) await this.#keep(holder, { ...known, own });
  }

  /** The log-ins that may work, the likeliest first. @throws {BmcFault} where there is none */
  async #logins(machine: string, reach: Reach, isOwn: boolean): Promise<readonly Login[]> {
    const holder = this.#holder(machine, lockOf(reach));
    const hasOwn = this.#known.get(holder)?.own !== undefined;
    const isManaged = reach.credentials?.managed !== undefined;
    const own =
      isManaged || hasOwn
        ? (await this.#own(holder)).map(({ text }, at) => ({
            ...{ id: OWN_USER, user: OWN_USER, password: text },
            own: { holder, at },
          }))
        : [];
    if (isOwn) return own;
    const { user, password: reference } = loginOf(reach);
    // Its password was replaced: it is the account of Muster by now.
    if (hasOwn && isManaged && user === OWN_USER) return own;
    const { secret, key } = reference.valueFrom;
    const found = this.#deps.secret(secret, key);
    if (found === undefined && own.length > 0) return own;
    if (found === undefined)
      throw new BmcFault('refused', `there is no Secret yet: muster secret put ${secret} ${key}`);
    // A file that a person wrote ends with a line break, and no password does.
    const password = found.value.toString('utf8').replace(/\r?\n$/, '');
    const given = { id: `${user}@${secret}/${key}@${found.since}`, user, password };
    return isManaged ? [...own, given] : [given, ...own];
  }

  async #open(
    machine: string,
    reach: Reach,
    only: { readonly protocol?: 'ipmi' | 'redfish'; readonly isOwn?: boolean } = {},
  ): Promise<Opened> {
    const lock = lockOf(reach);
    let fault = new BmcFault('password', 'it refused this log-in twice, and Muster does not try it again');
    let protocols = only.protocol
      ? [only.protocol]
      : protocolsFor(reach, this.#knownOf(machine, lock).protocol);
    for (const login of await this.#logins(machine, reach, only.isOwn ?? false)) {
      if (isSpent(this.#knownOf(machine, lock), login.id)) continue;
      const opened = await this.#try(machine, reach, login, protocols, only.protocol !== undefined);
      if ('bmc' in opened) {
        if (login.own) await this.#worked(login.own);
        else if (reach.credentials?.managed) await this.#noteOwn(machine, undefined);
        return { bmc: opened.bmc, isOwn: login.own !== undefined, login };
      }
      await this.#keep(machine, afterRefusal(this.#knownOf(machine, lock), login.id));
      fault = opened.refused;
      protocols = [opened.protocol];
    }
    throw fault;
  }

  /** A log-in by Muster's own account: its password is the one that counts. */
  async #worked({ holder, at }: NonNullable<Login['own']>): Promise<void> {
    const before = await this.#own(holder);
    const after = afterLogin(before, at);
    if (after.length !== before.length || after[0] !== before[0]) await this.#putOwn(holder, after);
    const { off } = this.#known.get(holder)?.own ?? {};
    await this.#noteOwn(holder, { since: after[0]!.at, ...(off !== undefined && { off }) });
  }

  /** Tries a log-in by one protocol after the other. @throws {BmcFault} all but a refused log-in */
  async #try(
    machine: string,
    reach: Reach,
    { user, password }: Login,
    protocols: readonly ('redfish' | 'ipmi')[],
    aside: boolean,
  ): Promise<{ readonly bmc: Bmc } | { readonly refused: BmcFault; readonly protocol: 'redfish' | 'ipmi' }> {
    const known = this.#knownOf(machine, lockOf(reach));
    for (const [n, protocol] of protocols.entries()) {
      try {
        return { bmc: await this.#log(machine, { reach, known, protocol, user, password, aside }) };
      } catch (error) {
        if (!(error instanceof BmcFault)) throw error;
        if (error.code === 'password') return { refused: error, protocol };
        // One that refuses speaks Redfish: by IPMI, which names no system, another might be meant.
        const goesOn = error.code === 'unreachable' || error.code === 'not-understood';
        if (!goesOn || n === protocols.length - 1) throw error;
      }
    }
    throw new BmcFault('unreachable', 'it speaks no protocol that is known here');
  }

  /** One log-in by one protocol. */
  async #log(
    machine: string,
    of: {
      readonly reach: Reach;
      readonly known: Known;
      readonly protocol: 'redfish' | 'ipmi';
      readonly user: string;
      readonly password: string;
      /** For a console: says nothing of the protocol by which the BMC is asked otherwise. */
      readonly aside: boolean;
    },
  ): Promise<Bmc> {
    const { reach, known, protocol, user, password, aside } = of;
    const hasPort = reach.port !== undefined && (!aside || reach.protocol === protocol);
    const access = {
      address: addressFor(reach, protocol),
      ...(hasPort && { port: reach.port! }),
      ...{ user, password },
    };
    let shown: string | undefined;
    const { certificate, name, system } = reach;
    const { ca, sha256 } = certificate ?? {};
    const trust = {
      pinned: (seen: string): void => {
        shown = seen;
      },
      or: reach.managedCertificate ? this.#knownAt(lockOf(reach)).flatMap(givenTo) : [],
      ...(ca === undefined ? { pin: sha256 ?? known.pin } : { ca, ...(name !== undefined && { name }) }),
    };
    const bmc =
      protocol === 'ipmi'
        ? await this.#deps.protocols.ipmi(access)
        : await this.#deps.protocols.redfish({
            ...access,
            ...(system !== undefined && { system }),
            trust,
          });
    const { refusals: _, ...rest } = known;
    const learnt = shown === undefined ? rest : afterShown(rest, shown, certificate !== undefined);
    await this.#keep(machine, { ...learnt, ...(!aside && { protocol }) });
    return bmc;
  }

  async #keep(machine: string, known: Known): Promise<void> {
    if (JSON.stringify(known) === JSON.stringify(this.#known.get(machine))) return;
    await this.#store(machine, known).catch((err: unknown) =>
      this.#deps.log.warn({ err, machine }, 'what was learnt of a BMC is not stored'),
    );
  }

  async #store(machine: string, known: Known): Promise<void> {
    this.#remember(machine, known);
    await this.#deps.store.commit([recordOf(machine, known)]);
  }
}
