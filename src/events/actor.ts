/** Who asked for what happens: the operator whose request is being carried out. */
import { AsyncLocalStorage } from 'node:async_hooks';

/** The user of a process that asked, as the kernel and /etc/passwd know it. */
export interface Actor {
  /** Absent where the kernel was not asked: by TCP, or where system calls are off. */
  readonly uid?: number;
  /** `unknown` when there is no uid, or /etc/passwd has no line for it. */
  readonly user: string;
  readonly pid?: number;
}

/** The actor of whom nothing is known. */
export const UNKNOWN_ACTOR: Actor = { user: 'unknown' };

export interface Acting {
  /**
   * Runs `work` in the name of `actor`, until the promise of `work` settles. A timer that `work`
   * leaves behind runs in nobody's name.
   */
  run<T>(actor: Actor, work: () => Promise<T>): Promise<T>;
  /** In whose name the calling code runs; undefined for what the server does by itself. */
  current(): Actor | undefined;
}

/** Follows each request through the code that carries it out, also where that waits. */
export function createActing(): Acting {
  const requests = new AsyncLocalStorage<{ actor: Actor | undefined }>();
  return {
    run: (actor, work) => {
      const request: { actor: Actor | undefined } = { actor };
      return requests.run(request, async () => {
        try {
          return await work();
        } finally {
          request.actor = undefined;
        }
      });
    },
    current: () => requests.getStore()?.actor,
  };
}

/** An actor for people: `root (0)`, `unknown (5000)`, `unknown`. */
export const actorText = ({ user, uid }: Actor): string => (uid === undefined ? user : `${user} (${uid})`);
