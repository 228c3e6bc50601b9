/** Hooks without a network: their answers are played, and what is kept survives a restart. */
import type { Clock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import type { Answered } from '../../../../src/base/post.socket.ts';
import type { Question } from '../../../../src/cluster/change/hooks/answer.ts';
import { type Hooks, openHooks } from '../../../../src/cluster/change/hooks/hooks.ts';
import type { NewEvent } from '../../../../src/events/event.ts';
import type { HookSpec } from '../../../../src/resources/hook-spec.ts';
import { openMemoryStore } from '../../../../src/store/memory.ts';

/** A cluster that has no hooks. */
export const NO_HOOKS: Hooks = {
  gate: () => ({ is: 'open' }),
  ask: () => undefined,
  forget: () => undefined,
  paused: () => undefined,
};

/** A hook as a document names it. */
export const hook = (name: string, more: Partial<HookSpec> = {}): HookSpec => ({
  ...{ name, when: 'before', url: `https://checks.example/${name}` },
  secret: { valueFrom: { secret: 'checks', key: 'signature' } },
  ...more,
});

type Said = 'pass' | 'wait' | 'fail' | 'unreachable' | Answered;

export class PlayedHooks {
  specs: readonly HookSpec[];
  /** What every hook answers, unless `saysOf` has something else for it. */
  says: Said = 'pass';
  readonly saysOf: Record<string, Said> = {};
  readonly questions: Question[] = [];
  readonly events: NewEvent[] = [];
  /** The hook has taken so many requests and answers none of them. */
  silent = false;
  readonly #store = openMemoryStore();
  #ids = 0;

  constructor(...specs: readonly HookSpec[]) {
    this.specs = specs;
  }

  /** The server starts, for the first time or again. */
  start(clock: Clock): Promise<Hooks> {
    return openHooks({
      ...{ store: this.#store, clock, log: silentLog },
      events: { record: (event) => void this.events.push(event) },
      catalog: { get: () => ({ document: { spec: { hooks: this.specs } } }) as never },
      secret: () => Buffer.from('a key of twenty-four octets'),
      post: ({ body }) => this.#answer(JSON.parse(body) as Question),
      newId: () => String(++this.#ids),
      signal: new AbortController().signal,
    });
  }

  async #answer(question: Question): Promise<Answered> {
    this.questions.push(question);
    if (this.silent) return new Promise(() => undefined);
    const said = this.saysOf[question.hook] ?? this.says;
    if (said === 'unreachable') throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    if (typeof said !== 'string') return said;
    return { status: 200, text: JSON.stringify({ result: said, reason: `${question.hook} says ${said}` }) };
  }
}
