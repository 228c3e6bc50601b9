/**
 * The key that signs checkpoints of the security log, and where the newest signed place is noted.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { MusterError } from '../base/errors.ts';
import { fieldsOf, parsed } from '../base/foreign-json.ts';
import type { ChainPlace } from '../events/audit-chain.ts';
import { type AuditKey, auditKeyId } from '../events/security-chain.ts';
import type { Secrets } from './secrets.ts';

const KEY = 'audit-key';
const HEAD = 'audit-head';

/**
 * Opens the key; at the first call it is made. It is sealed in the store, as all keys are.
 * @throws {MusterError} E_VAULT_KEY, E_VAULT_RECORD when it does not open, E_PKI when it is no key.
 */
export async function openAuditKey(secrets: Pick<Secrets, 'get' | 'put'>): Promise<AuditKey> {
  const kept = await secrets.get(KEY);
  const pem =
    kept ?? generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  if (kept === undefined) await secrets.put(KEY, pem);
  const key = read(pem);
  const publicKey = createPublicKey(key);
  return {
    id: auditKeyId(publicKey),
    pem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    sign: (octets) => sign(null, octets, key),
  };
}

function read(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new MusterError('E_PKI', 'the key of the security log is not a private key in PEM');
  }
}

/**
 * Where the newest signed place of the log is kept: sealed in the store, so that only who has the
 * vault's key can make the store fit a log that was cut. `host`: the name of this host if others
 * share the store; each has a log of its own.
 */
export function auditHead(
  secrets: Pick<Secrets, 'get' | 'put'>,
  host: string | undefined,
): {
  get(): Promise<ChainPlace | undefined>;
  put(place: ChainPlace): Promise<void>;
} {
  const name = host === undefined ? HEAD : `${HEAD}-${host}`;
  return {
    async get() {
      const { sequence, hash } = fieldsOf(parsed((await secrets.get(name)) ?? ''));
      return typeof sequence === 'number' && typeof hash === 'string' ? { sequence, hash } : undefined;
    },
    put: ({ sequence, hash }) => secrets.put(name, JSON.stringify({ sequence, hash })),
  };
}
