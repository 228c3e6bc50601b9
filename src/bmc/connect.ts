/**
 * Opens sessions with BMCs: one part of Muster at a time for each, by the protocol that worked,
 * with the certificate that counts, and never more often with a refused password than is safe.
 */
import type { Log } from '../base/log.ts';
import { KEYS } from '../store/keys.ts';
import type { Store } from '../store/store.ts';
import { type Bmc, BmcFault } from './bmc.ts';
import type { IpmiAccess } from './ipmi/client.socket.ts';
import { afterRefusal, decodeKnown, isSpent, type Known, UNKNOWN } from './known.ts';
import { lockOf, loginOf, type Reach } from './reach.ts';
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
  readonly log: Log;
}

export interface Connections {
  /**
   * Opens a session, does `work` with it and closes it. Others wait meanwhile.
   *
   * @throws {BmcFault}
   */
  with<T>(machine: string, reach: Reach, work: (bmc: Bmc) => Promise<T>): Promise<T>;
  /**
   * Opens a session of IPMI that the caller closes: for a console, which stays open while others
   * ask, by whichever protocol.
   *
   * @throws {BmcFault}
   */
  hold(machine: string, reach: Reach): Promise<Bmc>;
  /** What is known of the BMC of a machine. */
  known(machine: string): Known | undefined;
  /** Forgets it: the next certificate and log-in count as the first. */
  forget(machine: string): Promise<void>;
}

/** The protocols that are tried, in their order. */
function protocolsFor(reach: Reach, known: Known): readonly ('redfish' | 'ipmi')[] {
  if (reach.protocol !== 'auto') return [reach.protocol];
  // IPMI cannot name a system of several.
  if (reach.system !== undefined) return ['redfish'];
  return known.protocol ? [known.protocol] : ['redfish', 'ipmi'];
}

export async function openConnections(deps: ConnectDeps): Promise<Connections> {
  const connections = new HeldConnections(deps);
  await connections.load();
  return connections;
}

class HeldConnections implements Connections {
  readonly #deps: ConnectDeps;
  readonly #known = new Map<string, Known>();
  /** The end of the last work with each BMC. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(deps: ConnectDeps) {
    this.#deps = deps;
  }

  async load(): Promise<void> {
    for (const { key, value } of (await this.#deps.store.list(KEYS.bmc.prefix())).records) {
      const [machine] = KEYS.bmc.parse(key) ?? [];
      const known = decodeKnown(value);
      if (machine !== undefined && known) this.#known.set(machine, known);
    }
  }

  known(machine: string): Known | undefined {
    return this.#known.get(machine);
  }

  async forget(machine: string): Promise<void> {
    if (!this.#known.has(machine)) return;
    await this.#deps.store.commit([{ key: KEYS.bmc.key(machine), delete: true }]);
    this.#known.delete(machine);
  }

  with<T>(machine: string, reach: Reach, work: (bmc: Bmc) => Promise<T>): Promise<T> {
    return this.#alone(reach, async () => {
      const bmc = await this.#open(machine, reach);
      try {
        return await work(bmc);
      } finally {
        await bmc.close();
      }
    });
  }

  hold(machine: string, reach: Reach): Promise<Bmc> {
    return this.#alone(reach, () => this.#open(machine, reach, 'ipmi'));
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

  async #open(machine: string, reach: Reach, only?: 'ipmi'): Promise<Bmc> {
    const lock = lockOf(reach);
    const stored = this.#known.get(machine);
    const known = stored?.lock === lock ? stored : UNKNOWN(lock);
    const { user, password: reference } = loginOf(reach);
    const { secret, key } = reference.valueFrom;
    const found = this.#deps.secret(secret, key);
    if (found === undefined)
      throw new BmcFault('refused', `there is no Secret yet: muster secret put ${secret} ${key}`);
    const login = `${user}@${secret}/${key}@${found.since}`;
    if (isSpent(known, login))
      throw new BmcFault('password', 'it refused this log-in twice, and Muster does not try it again');
    // A file that a person wrote ends with a line break, and no password does.
    const password = found.value.toString('utf8').replace(/\r?\n$/, '');
    const tried = only ? [only] : protocolsFor(reach, known);
    for (const [n, protocol] of tried.entries()) {
      try {
        return await this.#log(machine, {
          reach,
          known,
          protocol,
          user,
          password,
          aside: only !== undefined,
        });
      } catch (error) {
        if (!(error instanceof BmcFault)) throw error;
        if (error.code === 'password') await this.#keep(machine, afterRefusal(known, login));
        // One that refuses speaks Redfish: by IPMI, which names no system, another might be meant.
        const goesOn = error.code === 'unreachable' || error.code === 'not-understood';
        if (!goesOn || n === tried.length - 1) throw error;
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
      address: reach.address,
      ...(hasPort && { port: reach.port! }),
      ...{ user, password },
    };
    let pin = known.pin;
    const { certificate, system } = reach;
    const given = certificate?.sha256;
    const pinned = (seen: string): void => {
      pin = seen;
    };
    const bmc =
      protocol === 'ipmi'
        ? await this.#deps.protocols.ipmi(access)
        : await this.#deps.protocols.redfish({
            ...access,
            ...(system !== undefined && { system }),
            trust:
              certificate?.ca !== undefined ? { ca: certificate.ca } : { pin: given ?? known.pin, pinned },
          });
    const { refused: _, ...rest } = known;
    await this.#keep(machine, { ...rest, ...(!aside && { protocol }), ...(pin !== undefined && { pin }) });
    return bmc;
  }

  async #keep(machine: string, known: Known): Promise<void> {
    const text = JSON.stringify(known);
    if (text === JSON.stringify(this.#known.get(machine))) return;
    this.#known.set(machine, known);
    await this.#deps.store
      .commit([{ key: KEYS.bmc.key(machine), put: text }])
      .catch((err: unknown) =>
        this.#deps.log.warn({ err, machine }, 'what was learnt of a BMC is not stored'),
      );
  }
}
