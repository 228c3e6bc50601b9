/**
 * A client that writes to all members of an etcd until it is stopped, and remembers each write that
 * was acknowledged.
 */
import type { Clock } from '../base/clock.ts';
import { type Millis, millis } from '../base/duration.ts';
import type { LabEtcd } from './etcd.socket.ts';

/**
 * The pause between two writes to one member. Emulated machines can handle this rate while others
 * boot.
 */
const PAUSE = millis(150);

export interface Writer {
  /** When each write was acknowledged, by its name. */
  readonly acknowledged: ReadonlyMap<string, Millis>;
  /** Resolves when the last write is answered. */
  stop(): Promise<void>;
}

/** Writes until stopped. A member that does not answer delays only the writes to itself. */
export function startWriter(etcd: Pick<LabEtcd, 'members' | 'put'>, clock: Clock): Writer {
  const acknowledged = new Map<string, Millis>();
  let stopped = false;
  const pause = () => new Promise<void>((next) => clock.after(PAUSE, next));
  const writeTo = async (member: string): Promise<void> => {
    for (let number = 0; !stopped; number++) {
      const name = `${member}/${String(number).padStart(8, '0')}`;
      await etcd.put(member, name).then(
        () => acknowledged.set(name, clock.now()),
        () => {
          // The write was not acknowledged, so the key may or may not exist.
        },
      );
      await pause();
    }
  };
  const writing = Promise.all(etcd.members.map(({ name }) => writeTo(name)));
  return {
    acknowledged,
    async stop() {
      stopped = true;
      await writing;
    },
  };
}

/** The writes that were acknowledged no later than `until` and are missing in `there`. */
export function lost(
  { acknowledged }: Pick<Writer, 'acknowledged'>,
  there: ReadonlySet<string>,
  until: Millis,
): readonly string[] {
  return [...acknowledged].flatMap(([name, at]) => (at <= until && !there.has(name) ? [name] : []));
}
