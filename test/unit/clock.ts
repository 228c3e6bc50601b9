/** A clock for what waits and whose waiting nobody wants to sit through. */
import { ManualClock } from '../../src/base/clock.ts';
import type { Millis } from '../../src/base/duration.ts';

/** Time passes as soon as somebody waits for it and all else is done. */
export class ImpatientClock extends ManualClock {
  override after(span: Millis, fn: () => void): () => void {
    const cancel = super.after(span, fn);
    setImmediate(() => this.advance(span));
    return cancel;
  }
}
