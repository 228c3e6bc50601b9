/**
 * Asks the hooks of Clusters before and after the turns of machines, and keeps what they answered:
 * a server that restarts neither asks again what has passed or failed, nor extends the limit.
 * A question never keeps a round of the changes waiting; the round after its answer sees it.
 */
import type { Clock } from '../../../base/clock.ts';
import { duration, type Millis } from '../../../base/duration.ts';
import { parsed } from '../../../base/foreign-json.ts';
import type { Log } from '../../../base/log.ts';
import { type PostAndRead, whyFailed } from '../../../base/post.socket.ts';
import { keyOf, MIN_KEY_OCTETS, signedHeaders } from '../../../base/signature.ts';
import { VERSION } from '../../../base/version.ts';
import type { EventSink } from '../../../events/event.ts';
import type { Catalog } from '../../../resources/catalog.ts';
import type { HookSpec, HookTime } from '../../../resources/hook-spec.ts';
import { KEYS } from '../../../store/keys.ts';
import type { Store, Write } from '../../../store/store.ts';
import type { ClusterMachine } from '../../model/resolved-cluster.ts';
import type { Gate } from '../step.ts';
import { ANSWER_LIMIT, answerOf, type HookAnswer, type Question } from './answer.ts';
import { gateOf, hooksFor, type KeptGate, keptGate, limitOf, ofTurn, type Turn } from './gate.ts';

interface HooksDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly events: EventSink;
  readonly catalog: Pick<Catalog, 'get'>;
  /** The value of a Secret; undefined when there is none. */
  readonly secret: (name: string, key: string) => Buffer | undefined;
  readonly post: PostAndRead;
  readonly newId: () => string;
  /** Aborts when the daemon stops. */
  readonly signal: AbortSignal;
}

type Machine = Pick<ClusterMachine, 'name' | 'roles'>;

export interface Hooks {
  /** Whether a machine may go on in its turn; from memory. */
  gate(turn: Turn, machine: Machine, when: HookTime): Gate;
  /** Asks the hooks for which a machine waits, unless they are being asked or are not due yet. */
  ask(turn: Turn, machine: Machine, when: HookTime): void;
  /** Forgets the answers in this turn: the machine gives it back, and has another one later. */
  forget(turn: Turn, machine: string): void;
  /** The change is paused: hooks that have not passed begin anew when it continues. */
  paused(turn: Turn): void;
}

/** A hook that takes longer than this does not answer. */
const ANSWER_WITHIN = duration('30s');
/** The pause between two questions, where the hook does not ask for another one. */
const ASKED_EVERY = duration('15s');
const SHORTEST_PAUSE = duration('1s');
const LONGEST_PAUSE = duration('10m');
/** How many machines' hooks are asked at the same time. */
const AT_ONCE = 10;

/** The turn of a machine whose hooks are asked or have been. */
interface Known {
  kept: KeptGate;
  /** When they were asked first, monotonic. */
  readonly since: Millis;
  /** When they are asked again, monotonic. */
  dueAt: Millis;
}

/** Reads what was answered before this server started. */
export async function openHooks(deps: HooksDeps): Promise<Hooks> {
  const { store, clock, log } = deps;
  const hooks = new AskedHooks(deps);
  const { records } = await store.list(KEYS.hook.prefix());
  for (const { key, value } of records) {
    const at = KEYS.hook.parse(key);
    const read = keptGate.safeParse(parsed(value));
    if (at === undefined || !read.success) {
      log.warn({ key }, 'a stored answer of a hook cannot be read and is ignored');
      continue;
    }
    // A clock that was ahead meanwhile makes it as long as if they had been asked first now.
    const passed = Math.max(0, clock.now() - read.data.since);
    hooks.known(at[0], at[1], read.data, (clock.monotonic() - passed) as Millis);
  }
  return hooks;
}

class AskedHooks implements Hooks {
  readonly #deps: HooksDeps;
  /** `CLUSTER MACHINE` → its turn. */
  readonly #known = new Map<string, Known>();
  /** `CLUSTER MACHINE` → the turn that began without hooks: one that is added asks in the next. */
  readonly #free = new Map<string, string>();
  readonly #asking = new Set<string>();
  /** The last write; they are done one after the other. */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(deps: HooksDeps) {
    this.#deps = deps;
  }

  known(cluster: string, machine: string, kept: KeptGate, since: Millis): void {
    this.#known.set(`${cluster} ${machine}`, { kept, since, dueAt: since });
  }

  gate(turn: Turn, machine: Machine, when: HookTime): Gate {
    const key = `${turn.cluster} ${machine.name}`;
    const spec = this.#deps.catalog.get('Cluster', turn.cluster)?.document.spec;
    if (spec === undefined) return { is: 'waiting', text: 'the document of its Cluster is missing' };
    const known = this.#known.get(key);
    const kept = ofTurn(known?.kept, turn);
    const isFree = this.#free.get(key) === `${turn.id} ${turn.step}`;
    if (when === 'before' && kept === undefined && isFree) return { is: 'open' };
    const hooks = hooksFor(spec.hooks, turn.kind, machine, when);
    const waited = known ? this.#deps.clock.monotonic() - known.since : 0;
    const gate = gateOf(hooks, kept, turn, machine, when, waited);
    if (when === 'before' && gate.is === 'open' && kept === undefined)
      this.#free.set(key, `${turn.id} ${turn.step}`);
    return gate;
  }

  ask(turn: Turn, machine: Machine, when: HookTime): void {
    const { clock, catalog } = this.#deps;
    const key = `${turn.cluster} ${machine.name}`;
    const hooks = hooksFor(
      catalog.get('Cluster', turn.cluster)?.document.spec.hooks,
      turn.kind,
      machine,
      when,
    );
    if (hooks.length === 0 || this.#asking.has(key) || this.#asking.size >= AT_ONCE) return;
    const before = this.#known.get(key);
    const kept = ofTurn(before?.kept, turn);
    const known =
      before !== undefined && kept?.when === when ? before : newlyAsked(turn, when, this.#deps.clock);
    const { state, hook } = known.kept;
    const isFinal = state === 'open' || (state === 'failed' && hooks.some(({ name }) => name === hook));
    if (isFinal || clock.monotonic() < known.dueAt) return;
    this.#known.set(key, known);
    this.#asking.add(key);
    void this.#round(turn, machine, when, hooks, known)
      .catch((error: unknown) => {
        known.dueAt = (clock.monotonic() + ASKED_EVERY) as Millis;
        this.#deps.log.error({ err: error, cluster: turn.cluster, machine: machine.name }, 'asking hooks');
      })
      .finally(() => this.#asking.delete(key));
  }

  forget({ cluster, id }: Turn, machine: string): void {
    const key = `${cluster} ${machine}`;
    this.#free.delete(key);
    if (this.#known.get(key)?.kept.change !== id) return;
    this.#known.delete(key);
    this.#store({ key: KEYS.hook.key(cluster, machine), delete: true });
  }

  paused({ cluster, id }: Turn): void {
    for (const [key, known] of this.#known) {
      const [of, machine = ''] = key.split(' ');
      const { kept } = known;
      if (of !== cluster || kept.change !== id || kept.state === 'open') continue;
      if (kept.when === 'before') {
        this.forget({ cluster, id, kind: '', step: '' }, machine);
        continue;
      }
      // What has begun goes on to be allowed.
      const { hook: _, reason: __, ...rest } = kept;
      const begun: KeptGate = { ...rest, when: 'before', state: 'open' };
      this.#known.set(key, { ...known, kept: begun });
      this.#store({ key: KEYS.hook.key(cluster, machine), put: JSON.stringify(begun) });
    }
  }

  #store(write: Write): void {
    this.#inTurn(() => this.#deps.store.commit([write])).catch((error: unknown) =>
      this.#deps.log.warn({ err: error }, 'storing what hooks answered'),
    );
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#writing.then(work, work);
    this.#writing = next.catch(() => undefined);
    return next;
  }

  /** Asks all hooks, one after the other, until one of them does not pass. */
  async #round(
    turn: Turn,
    machine: Machine,
    when: HookTime,
    hooks: readonly HookSpec[],
    known: Known,
  ): Promise<void> {
    const { clock } = this.#deps;
    const key = `${turn.cluster} ${machine.name}`;
    known.kept = { ...known.kept, attempt: known.kept.attempt + 1 };
    if (known.kept.attempt === 1) await this.#keep(turn, machine, known, known.kept);
    let by: HookSpec | undefined;
    let answer: HookAnswer = { result: 'pass', reason: '' };
    for (const hook of hooks) {
      answer = await this.#question(hook, turn, machine, when, known.kept);
      by = hook;
      if (answer.result !== 'pass') break;
    }
    // The machine has given its turn back, or another change has begun.
    if (this.#known.get(key) !== known) return;
    const { retryAfter } = answer;
    const rest = retryAfter === undefined ? ASKED_EVERY : retryAfter * 1000;
    known.dueAt = (clock.monotonic() + Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, rest))) as Millis;
    await this.#settle(turn, machine, known, by!, answer);
  }

  async #settle(
    turn: Turn,
    machine: Machine,
    known: Known,
    hook: HookSpec,
    { result, reason }: HookAnswer,
  ): Promise<void> {
    const { clock } = this.#deps;
    const { hook: blamed, reason: said, ...before } = known.kept;
    const to = (state: KeptGate['state'], why: Pick<KeptGate, 'hook' | 'reason'>): KeptGate => ({
      ...before,
      ...why,
      state,
      at: state === before.state ? before.at : clock.now(),
    });
    const why = { hook: hook.name, reason };
    if (result === 'pass') {
      await this.#keep(turn, machine, known, to('open', {}));
      if (blamed !== undefined) this.#tell(turn, machine, hook, 'hook-passed', 'Its hooks let it continue.');
    } else if (result === 'fail') await this.#keep(turn, machine, known, to('failed', why));
    else if (clock.monotonic() - known.since >= limitOf(hook)) {
      // What it said when its time was over stays, so that operators are told once.
      const same = before.state === 'late' && blamed === hook.name;
      await this.#keep(turn, machine, known, to('late', same ? { hook: blamed, reason: said } : why));
    } else {
      await this.#keep(turn, machine, known, to('asked', why));
      if (blamed === undefined)
        this.#tell(turn, machine, hook, 'hook', `The hook ${hook.name} lets it wait: ${reason}.`);
    }
  }

  /** Stores what was answered before it has an effect. */
  async #keep({ cluster }: Turn, { name }: Machine, known: Known, kept: KeptGate): Promise<void> {
    const isNews = kept.state !== known.kept.state || kept.hook !== known.kept.hook || kept.attempt === 1;
    await this.#inTurn(async () => {
      // The machine may have given its turn back meanwhile.
      if (!isNews || this.#known.get(`${cluster} ${name}`) !== known) return;
      await this.#deps.store.commit([{ key: KEYS.hook.key(cluster, name), put: JSON.stringify(kept) }]);
    });
    known.kept = kept;
  }

  #tell(
    { cluster, kind, id, step }: Turn,
    { name }: Machine,
    hook: HookSpec,
    code: string,
    text: string,
  ): void {
    this.#deps.events.record({
      kind: 'cluster.change',
      subject: name,
      reason: { code, text },
      fields: { cluster, change: kind, id, step, hook: hook.name },
    });
  }

  async #question(
    hook: HookSpec,
    turn: Turn,
    { name: machine, roles }: Machine,
    when: HookTime,
    { attempt, since }: KeptGate,
  ): Promise<HookAnswer> {
    const { clock, post, secret, newId, signal } = this.#deps;
    const waits = (reason: string): HookAnswer => ({ result: 'wait', reason });
    const { valueFrom } = hook.secret;
    const value = secret(valueFrom.secret, valueFrom.key);
    const key = value && keyOf(value);
    if (key === undefined)
      return waits(
        value
          ? `the key of its signature is shorter than ${MIN_KEY_OCTETS} octets`
          : `Secret ${valueFrom.secret} has no key ${valueFrom.key} yet, so it cannot be asked`,
      );
    const question: Question = {
      cluster: turn.cluster,
      machine,
      node: roles.some((role) => role !== 'etcd') ? machine : null,
      operation: turn.kind,
      change: turn.id,
      step: turn.step,
      when,
      hook: hook.name,
      attempt,
      since: new Date(since).toISOString(),
    };
    const body = JSON.stringify(question);
    const headers = {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'user-agent': `muster/${VERSION}`,
      ...signedHeaders(key, { id: newId(), seconds: Math.floor(clock.now() / 1000), body }),
    };
    const late = new AbortController();
    const cancel = clock.after(ANSWER_WITHIN, () => late.abort());
    try {
      const read = { limit: ANSWER_LIMIT, ca: hook.ca };
      const ended = AbortSignal.any([late.signal, signal]);
      return answerOf(await post({ url: hook.url, headers, body }, read, ended));
    } catch (error) {
      const text = late.signal.aborted ? 'it does not answer within 30 s' : whyFailed(error);
      return waits(`it cannot be asked: ${text}`);
    } finally {
      cancel();
    }
  }
}

/** A turn in which nobody was asked yet. */
function newlyAsked({ id, step }: Turn, when: HookTime, clock: Clock): Known {
  const now = clock.now();
  const since = clock.monotonic();
  return {
    kept: { v: 1, change: id, step, when, since: now, state: 'asked', at: now, attempt: 0 },
    since,
    dueAt: since,
  };
}
