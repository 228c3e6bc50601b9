/** Reads a CertificateSigningRequest of a cluster's API field by field. */
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';

export interface SigningRequest {
  readonly name: string;
  /** The object's uid, which distinguishes it from a later object with the same name. */
  readonly uid: string;
  readonly signer: string;
  /** The user that the API server authenticated. */
  readonly username: string;
  readonly groups: readonly string[];
  readonly usages: readonly string[];
  /** PKCS#10 in PEM. */
  readonly request: string;
  /** Ms since 1970; NaN when the field is missing. */
  readonly createdAt: number;
  /** `failed`: signing failed, and nothing is left to decide. */
  readonly state: 'pending' | 'approved' | 'denied' | 'failed';
}

const STATES = { Denied: 'denied', Failed: 'failed', Approved: 'approved' } as const;

/** Reads the object. Never throws: missing fields are empty. */
export function readSigningRequest(item: unknown): SigningRequest {
  const { metadata, spec, status } = fieldsOf(item);
  const { name, uid, creationTimestamp } = fieldsOf(metadata);
  const { signerName, username, groups, usages, request } = fieldsOf(spec);
  return {
    name: textOf(name),
    uid: textOf(uid),
    signer: textOf(signerName),
    username: textOf(username),
    groups: listOf(groups).map(textOf),
    usages: listOf(usages).map(textOf),
    request: Buffer.from(textOf(request), 'base64').toString('latin1'),
    createdAt: Date.parse(textOf(creationTimestamp)),
    state: stateOf(fieldsOf(status)),
  };
}

function stateOf({ conditions, certificate }: ReturnType<typeof fieldsOf>): SigningRequest['state'] {
  const types = listOf(conditions).map((one) => textOf(fieldsOf(one).type));
  for (const [type, state] of Object.entries(STATES)) if (types.includes(type)) return state;
  if (types.length > 0) return 'failed';
  return certificate === undefined ? 'pending' : 'approved';
}
