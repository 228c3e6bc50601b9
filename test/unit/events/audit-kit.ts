/** A security log in memory, and its key, for tests. */
import { createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { ManualClock } from '../../../src/base/clock.ts';
import type { ChainPlace } from '../../../src/events/audit-chain.ts';
import { type AuditVerdict, auditVerifier } from '../../../src/events/audit-verify.ts';
import { type AuditKey, SecurityChain } from '../../../src/events/security-chain.ts';

export interface TestKey extends AuditKey {
  readonly keys: ReadonlyMap<string, KeyObject>;
}

export function testKey(id = 'test-key'): TestKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  const publicKey = createPublicKey(privateKey);
  return {
    id,
    pem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    sign: (octets) => sign(null, octets, privateKey),
    keys: new Map([[id, publicKey]]),
  };
}

/** `count` entries about machines, with a checkpoint after every `every` and at the end. */
export function madeLog(
  count: number,
  every: number,
  key: AuditKey,
): { readonly lines: readonly string[]; readonly head: ChainPlace } {
  const lines: string[] = [];
  const clock = new ManualClock();
  const chain = new SecurityChain({ key, clock, write: (line) => lines.push(line) });
  for (let n = 1; n <= count; n++) {
    chain.add({
      at: new Date(clock.now()).toISOString(),
      kind: 'agent.step',
      subject: `m${n % 3}`,
      reason: { code: 'moved', text: `step ${n}, "quoted" – ü` },
      fields: { step: n, done: n % 2 === 0 },
      ...(n % 4 === 0 && { actor: { uid: n, user: 'root', pid: 7 } }),
    });
    if (n % every === 0) chain.sign();
  }
  chain.sign();
  return { lines, head: chain.head! };
}

export function verdictOf(
  lines: readonly string[],
  keys: ReadonlyMap<string, KeyObject>,
  expected: readonly ChainPlace[] = [],
): AuditVerdict {
  const verifier = auditVerifier(keys, expected);
  for (const [n, line] of lines.entries()) verifier.line(line, `log:${n + 1}`);
  return verifier.end();
}
