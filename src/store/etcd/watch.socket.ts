/** A watch that continues at another member when one falls silent. */
import { setTimeout as wait } from 'node:timers/promises';
import { messageOf } from '../../base/error-text.ts';
import { MusterError } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { Change } from '../store.ts';
import type { Input, Message } from './api.ts';
import type { KeyRange } from './keyspace.ts';
import type { Members } from './members.socket.ts';

/** How often a member is asked whether the watch is alive. */
const ASK_MS = 3000;
/** A member that says nothing for this long is left. */
const SILENCE_MS = 10_000;
const AGAIN_MS = 200;

interface Deps {
  readonly members: Members;
  readonly log: Log;
}

/**
 * Yields what {@link import('../store.ts').Store.watch} does, with the keys of etcd.
 *
 * @throws {MusterError} E_STORE_COMPACTED when the history after `after` is forgotten, or not
 *   reached.
 */
export async function* watchRange(
  deps: Deps,
  range: KeyRange,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<readonly Change[], void> {
  if (signal.aborted) return;
  const { log } = deps;
  const place = { at: after };
  while (!signal.aborted) {
    try {
      yield* oneStream(deps, range, place, signal);
    } catch (error) {
      if (signal.aborted) return;
      if ((error as { code?: string }).code === 'E_STORE_COMPACTED') throw error;
      log.warn({ cause: messageOf(error), after: place.at }, 'a watch of the store begins again');
      await wait(AGAIN_MS, undefined, { signal }).catch(() => {});
    }
  }
}

/** Watches through one member from `place.at`, which it moves. */
async function* oneStream(
  { members }: Deps,
  keys: KeyRange,
  place: { at: number },
  signal: AbortSignal,
): AsyncGenerator<readonly Change[], void> {
  const ending = new AbortController();
  const both = AbortSignal.any([signal, ending.signal]);
  const requests = async function* (): AsyncGenerator<Input<'WatchRequest'>> {
    yield { create: { ...keys, startRevision: BigInt(place.at + 1), progressNotify: true } };
    while (!both.aborted) {
      await wait(ASK_MS, undefined, { signal: both }).catch(() => {});
      if (!both.aborted) yield { progress: {} };
    }
  };
  let leave = (_: unknown): void => {};
  try {
    await mustBeKept(members, keys, place.at);
    const stream = await members.stream('Watch', requests(), both);
    leave = stream.leave;
    const answers = stream.answers[Symbol.asyncIterator]();
    for (;;) {
      const { done, value } = await heard(answers.next(), ending);
      if (done) throw new Error('etcd ended the watch');
      const changes = changesIn(value);
      if (changes.length === 0) continue;
      place.at = changes.at(-1)!.revision;
      yield changes;
    }
  } catch (error) {
    if (!signal.aborted && (error as { code?: string }).code !== 'E_STORE_COMPACTED') leave(error);
    throw error;
  } finally {
    ending.abort();
  }
}

/**
 * etcd refuses to read at a revision that it has compacted or not reached. A watch from the very
 * revision to which it was compacted would begin, and miss the deletions of that revision.
 */
async function mustBeKept(members: Members, keys: KeyRange, at: number): Promise<void> {
  const range = { ...keys, revision: BigInt(at), limit: 1n, keysOnly: true };
  await members.ask('Range', range, { withinMs: SILENCE_MS });
}

/** Rejects when `answer` takes too long. Time counts only while somebody waits for an answer. */
async function heard<T>(answer: Promise<T>, ending: AbortController): Promise<T> {
  const timer = setTimeout(
    () => ending.abort(new Error(`a member of etcd was silent for ${SILENCE_MS} ms`)),
    SILENCE_MS,
  );
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}

function changesIn(answer: Message<'WatchResponse'>): Change[] {
  if (answer.compactRevision > 0n)
    throw new MusterError('E_STORE_COMPACTED', `history begins after revision ${answer.compactRevision}`);
  if (answer.canceled) throw new Error(`etcd cancelled the watch: ${answer.cancelReason}`);
  return answer.events.map(({ type, kv }) => ({
    key: Buffer.from(kv!.key).toString(),
    value: type === 1 ? undefined : Buffer.from(kv!.value).toString(),
    revision: Number(kv!.modRevision),
  }));
}
