/** The limit of documents in one change. */
import { MusterError } from '../base/errors.ts';

/** @throws {MusterError} E_TOO_LARGE when there are more documents than `most` */
export function checkNumber(documents: number, most: number | undefined): void {
  if (most !== undefined && documents > most)
    throw new MusterError('E_TOO_LARGE', `${documents} documents in one request; at most ${most}`);
}
