/**
 * Answers requests of the table in requests.ts: checks the request's form, then its rule, notes it,
 * and answers. The signer's process and a server with a vault of its own run this same code.
 */
import { MusterError } from '../../base/errors.ts';
import type { Sealer } from '../sealer.ts';
import { OpenKeys, REQUEST_KINDS, REQUESTS, type RequestKind } from './requests.ts';
import type { Site } from './site.ts';

/** What the signer's log is told of a request. */
export interface Noted {
  readonly kind: RequestKind;
  readonly subject: string;
  readonly fields: Readonly<Record<string, string>>;
  /** Why it was refused; absent: it is answered. */
  readonly refused?: string;
}

interface ServiceDeps {
  readonly sealer: Sealer;
  readonly site: Site;
  /** Called before the answer is made; the answer waits for it. */
  readonly note: (noted: Noted) => void | Promise<void>;
}

export type Service = (kind: string, body: unknown) => Promise<unknown>;

/**
 * Makes the service.
 *
 * @throws {MusterError} the service: E_SIGNER for a request that is not understood,
 *   E_SIGNER_REFUSED when its rule refuses it, and what answering throws
 */
export function openService({ sealer, site, note }: ServiceDeps): Service {
  const keys = new OpenKeys(sealer);
  return async (kind, body) => {
    if (!isKind(kind))
      throw new MusterError('E_SIGNER', `the signer knows no request "${kind.slice(0, 40)}"`);
    const row = REQUESTS[kind] as unknown as AnyRow;
    const read = row.body.safeParse(body);
    if (!read.success) throw new MusterError('E_SIGNER', `the request "${kind}" is not understood`);
    const refused = row.rule(read.data, site);
    const [subject, fields = {}] = row.says(read.data);
    await note({ kind, subject, fields, ...(refused !== undefined && { refused }) });
    if (refused !== undefined) throw new MusterError('E_SIGNER_REFUSED', refused);
    return row.answer(read.data, keys);
  };
}

/** A row whose types fit each other, which TypeScript cannot see of a row found by name. */
interface AnyRow {
  readonly body: { safeParse(body: unknown): { success: boolean; data?: unknown } };
  rule(body: unknown, site: Site): string | undefined;
  says(body: unknown): readonly [string, Readonly<Record<string, string>>?];
  answer(body: unknown, keys: OpenKeys): unknown;
}

const isKind = (kind: string): kind is RequestKind => (REQUEST_KINDS as readonly string[]).includes(kind);
