/**
 * What a library or another server says about an answer, for messages and logs: it can repeat parts
 * of what strangers sent.
 */
import { messageOf } from '../../base/error-text.ts';

export const printed = (about: unknown): string =>
  messageOf(about)
    .replace(/[^\x20-\x7e]/g, '?')
    .slice(0, 200);
