/** A clock for tests of code that waits, so that they need not wait themselves. */
import { ManualClock } from '../../src/base/clock.ts';
import type { Millis } from '../../src/base/duration.ts';

/** Advances the time as soon as a timer is set and all other work is done. */
export class ImpatientClock extends ManualClock {
  override after(span: Millis, fn: () => void): () => void {
    const cancel = super.after(span, fn);
    setImmediate(() => this.advance(span));
    return cancel;
  }
}
