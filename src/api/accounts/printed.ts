/**
 * What a library or another server says about an answer, for messages and logs: it can repeat parts
 * of what strangers sent.
 */
export const printed = (about: unknown): string =>
  (about instanceof Error ? about.message : String(about)).replace(/[^\x20-\x7e]/g, '?').slice(0, 200);
