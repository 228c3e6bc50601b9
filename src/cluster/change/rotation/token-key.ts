/** The key id (`kid`) with which API servers mark tokens of a service-account key. */
import { createHash } from 'node:crypto';
import type { PublicKey } from '../../../pki/keys.ts';

/**
 * The SHA-256 of the key's SubjectPublicKeyInfo in base64url (kubernetes,
 * pkg/serviceaccount/jwt.go, keyIDFromPublicKey).
 */
export const keyIdOfTokens = (key: PublicKey): string =>
  createHash('sha256').update(key.spki).digest('base64url');
