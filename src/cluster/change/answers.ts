/**
 * Asks the API servers and the members of etcd of a cluster, in this moment, whether they serve.
 * Machines report up to 45 s apart, so one that lost its power seconds ago still looks well in its
 * last report; before another one is taken down, this is what counts.
 */
import type { Clock } from '../../base/clock.ts';
import { duration, type Millis } from '../../base/duration.ts';
import { membersOf } from '../etcd/etcd-plan.ts';
import type { MemberAddress } from '../etcd/founding.ts';
import type { Kube } from '../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';

/** The programs that the boot host can ask itself. */
export const ASKED = ['etcd', 'kube-apiserver'] as const;
export type Asked = (typeof ASKED)[number];

/** The names of the machines whose program has answered. */
export interface Answers extends Readonly<Record<Asked, ReadonlySet<string>>> {
  /** When they were asked, monotonic. */
  readonly at: Millis;
}

/** Resolves within {@link PATIENCE}; never rejects. */
export type AskNow = (resolved: ResolvedCluster) => Promise<Answers>;

/** A program that takes longer than this does not answer. A healthy one takes milliseconds. */
const PATIENCE = duration('2s');
/** Machines that poll in the same second share one question. */
const KEPT = duration('1s');

interface AnswersDeps {
  readonly clock: Clock;
  readonly kubes: (cluster: string, address: string) => Kube;
  /** Whether this member answers a linearizable read, which takes a quorum as well. */
  readonly reads: (cluster: string, member: MemberAddress) => Promise<boolean>;
}

/** Makes the function that asks; the last answers of each cluster are reused for a second. */
export function createAskNow({ clock, kubes, reads }: AnswersDeps): AskNow {
  const last = new Map<string, { readonly at: Millis; readonly answers: Promise<Answers> }>();
  const inTime = (question: Promise<unknown>): Promise<boolean> =>
    new Promise((resolve) => {
      const cancel = clock.after(PATIENCE, () => resolve(false));
      const done = (serves: boolean): void => {
        cancel();
        resolve(serves);
      };
      question.then((answer) => done(answer !== false)).catch(() => done(false));
    });
  const named = async (questions: readonly (readonly [string, Promise<unknown>])[]) => {
    const answers = await Promise.all(questions.map(([, question]) => inTime(question)));
    return new Set(questions.flatMap(([name], n) => (answers[n] ? [name] : [])));
  };
  const ask = async (resolved: ResolvedCluster, at: Millis): Promise<Answers> => {
    const cluster = resolved.name;
    const [etcd, apiservers] = await Promise.all([
      named(membersOf(resolved).map((member) => [member.name, reads(cluster, member)])),
      named(
        withRole(resolved, 'control-plane').map((one) => [
          one.name,
          kubes(cluster, addressOf(one))('/readyz'),
        ]),
      ),
    ]);
    return { at, etcd, 'kube-apiserver': apiservers };
  };
  return (resolved) => {
    const at = clock.monotonic();
    const known = last.get(resolved.name);
    if (known !== undefined && at - known.at < KEPT) return known.answers;
    const answers = ask(resolved, at);
    last.set(resolved.name, { at, answers });
    return answers;
  };
}

/** After a longer pause it is not known since when an API server does not answer. */
const ASKED_AGAIN = duration('1m');

/** What a machine has answered, as `turn.ts` takes it. */
export type AnswersOf = (machine: string) => {
  /** The programs that have just answered. */
  readonly answers: readonly Asked[];
  /** Since when its API server does not answer; absent while it does. */
  readonly silentAt?: Millis;
};

/** Asks, and notes since when API servers are silent. */
export function openAnswered(askNow: AskNow) {
  const last = new Map<string, { readonly at: Millis; readonly silent: ReadonlyMap<string, Millis> }>();
  return {
    async ask(resolved: ResolvedCluster): Promise<AnswersOf> {
      const answers = await askNow(resolved);
      const before = last.get(resolved.name);
      const known = before && answers.at - before.at < ASKED_AGAIN ? before.silent : undefined;
      const silent = new Map(
        resolved.machines
          .filter(({ name }) => !answers['kube-apiserver'].has(name))
          .map(({ name }) => [name, known?.get(name) ?? answers.at]),
      );
      last.set(resolved.name, { at: answers.at, silent });
      return (machine) => {
        const silentAt = silent.get(machine);
        return {
          answers: ASKED.filter((one) => answers[one].has(machine)),
          ...(silentAt !== undefined && { silentAt }),
        };
      };
    },
  };
}
