/** Documents as records of the store: `{ v, document }` with the key `document/KIND/NAME`. */
import { type Fault, MusterError } from '../base/errors.ts';
import { fieldsOf, parsed } from '../base/foreign-json.ts';
import { KEYS } from '../store/keys.ts';
import type { Store, StoredRecord, Write } from '../store/store.ts';
import type { CatalogChange, Entry } from './catalog.ts';
import { validate } from './document.ts';
import type { Document } from './kinds.ts';

/** Version of the format of stored documents. */
const STORED_VERSION = 1;

/**
 * Reads all documents in the store. A record that is not a valid document is left out and reported
 * as a fault.
 *
 * @throws {MusterError} E_STORE_NEWER when a record was written by a newer version of Muster.
 */
export async function loadDocuments(
  store: Pick<Store, 'list'>,
): Promise<{ readonly changes: readonly CatalogChange[]; readonly faults: readonly Fault[] }> {
  const { records } = await store.list(KEYS.document.prefix());
  const changes: CatalogChange[] = [];
  const faults: Fault[] = [];
  for (const record of records) {
    const read = readStored(record);
    if ('fault' in read) faults.push(read.fault);
    else changes.push(read.change);
  }
  return { changes, faults };
}

const keyOf = ({ kind, metadata }: Document): string => KEYS.document.key(kind, metadata.name);

/** The write that stores `document` if its record has the revision `expect`. */
export const putDocument = (document: Document, expect: number | 'absent'): Write => ({
  key: keyOf(document),
  put: JSON.stringify({ v: STORED_VERSION, document }),
  expect,
});

/** The write that deletes `document` if its record has the revision `expect`. */
export const deleteDocument = (document: Document, expect: number): Write => ({
  key: keyOf(document),
  delete: true,
  expect,
});

/**
 * Reads a stored document, or says why it is left out.
 *
 * @throws {MusterError} E_STORE_NEWER when the record was written by a newer version of Muster.
 */
export function readStored(
  record: StoredRecord,
): { readonly change: CatalogChange } | { readonly fault: Fault } {
  const value = parsed(record.value);
  if (value === undefined)
    return { fault: { code: 'E_SCHEMA', message: `${record.key} in the store is not JSON; it is left out` } };
  const { v, document: written } = fieldsOf(value);
  if (typeof v === 'number' && v > STORED_VERSION)
    throw new MusterError(
      'E_STORE_NEWER',
      `${record.key} has version ${v}, this version knows ${STORED_VERSION}`,
    );
  const result = validate(written);
  if (!result.ok) {
    const first = result.faults[0]!;
    return {
      fault: {
        ...first,
        message: `${record.key} in the store is left out: ${first.path ?? ''} ${first.message}`,
      },
    };
  }
  const { document } = result;
  const entry: Entry = { document, origin: { from: 'api', revision: record.revision } };
  return { change: { kind: document.kind, name: document.metadata.name, entry } };
}
