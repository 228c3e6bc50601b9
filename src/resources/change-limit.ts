/** The limit of documents in one change, which is checked before and after the text is read. */
import { MusterError } from '../base/errors.ts';

/** @throws {MusterError} E_TOO_LARGE when there are more documents than `most` */
export function checkNumber(documents: number, most: number | undefined): void {
  if (most !== undefined && documents > most)
    throw new MusterError('E_TOO_LARGE', `${documents} documents in one request; at most ${most}`);
}

/**
 * Counts the lines that begin a document, since reading so many documents takes seconds, and the
 * process answers machines with the same thread.
 *
 * @throws {MusterError} E_TOO_LARGE when `texts` begin more documents than `most`
 */
export function checkMarkers(texts: readonly string[], most: number | undefined): void {
  if (most === undefined) return;
  let markers = 0;
  for (const text of texts)
    for (const _ of text.matchAll(/^---(?=\s|$)/gm)) {
      markers++;
      // The last may end the text, and a text may begin with one.
      if (markers > most + texts.length) checkNumber(markers, most);
    }
}
