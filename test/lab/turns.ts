/** Who may use the host's processors when: the longest first, so that none is left alone at the end while processors idle. */

export interface Turn {
  /** Slots that it takes while it runs. */
  readonly slots: number;
  /** About how long, in any unit. */
  readonly cost: number;
}

interface Waiting extends Turn {
  readonly go: () => void;
}

/** Many slots before few, because many find room only where nothing else runs; then the longest first. */
const before = (one: Turn, other: Turn): number => other.slots - one.slots || other.cost - one.cost;

/** Hands out `slots`; gives a function that does `work` when it is its turn. */
export function openTurns(slots: number): <T>(turn: Turn, work: () => Promise<T>) => Promise<T> {
  let free = slots;
  const waiting: Waiting[] = [];
  const next = (): void => {
    waiting.sort(before);
    while (waiting.length > 0 && waiting[0]!.slots <= free) {
      const one = waiting.shift()!;
      free -= one.slots;
      one.go();
    }
  };
  return async (turn, work) => {
    await new Promise<void>((go) => {
      waiting.push({ ...turn, go });
      // Not before all that come at the same moment are there.
      setImmediate(next);
    });
    try {
      return await work();
    } finally {
      free += turn.slots;
      next();
    }
  };
}
