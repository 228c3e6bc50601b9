/** Makes a CA that an operator brought the one that signs, or that a rotation leads to. */
import { type Clock, mustKnowTime } from '../base/clock.ts';
import { foundKeyset, type OpenGeneration } from './keyset.ts';
import type { AuthorityName } from './keysets.ts';
import type { Pki } from './pki.ts';

/**
 * Takes a CA that an operator brought. It signs at once if its keyset has signed nothing yet;
 * otherwise it is made, as the generation to which the next rotation leads.
 *
 * @throws {MusterError} E_KEYSET when it is there already; E_CONFLICT; E_PKI without such a keyset;
 *   E_CLOCK while the host's clock is in doubt.
 */
export async function takeAuthority(
  {
    pki,
    clock,
  }: { readonly pki: Pick<Pki, 'issued' | 'change' | 'take' | 'transition'>; readonly clock: Clock },
  scope: string,
  { name, authority }: { readonly name: AuthorityName; readonly authority: OpenGeneration },
): Promise<{ readonly generation: string; readonly signs: boolean }> {
  mustKnowTime(clock);
  const unused = (await pki.issued(scope)).every(({ issuer }) => issuer.keyset !== name);
  if (unused) {
    const taken = await pki.take(scope, name, authority);
    await pki.change(scope, name, () => foundKeyset(name, taken));
    return { generation: authority.id, signs: true };
  }
  const { generation } = await pki.transition(scope, name, { do: 'make', given: authority });
  return { generation, signs: false };
}
