/** The CA of BMCs: made for the first certificate, and replaced when somebody orders it. */
import { MusterError } from '../base/errors.ts';
import { allGenerations, type Keyset, trustBundle } from '../pki/keyset.ts';
import type { Pki } from '../pki/pki.ts';
import { BMC_SCOPE } from '../store/keys.ts';
import { signFor } from './certificate.ts';
import type { Given } from './known.ts';
import type { Reach } from './reach.ts';

const NAME = 'bmc-ca';
/** More CAs in use are refused: BMCs take certificates of the last one first. */
const MOST_IN_USE = 8;

export interface BmcAuthority {
  /** The generation that signs; undefined: there is none yet. */
  primary(): Promise<string | undefined>;
  /** The certificates of all generations that count, PEM; empty: there is none yet. */
  bundle(): Promise<string>;
  /** Signs for the key of a BMC. @throws {BmcFault} when its request proves no key */
  sign(machine: string, reach: Reach, request: string): Promise<Given & { readonly pem: string }>;
  /**
   * Makes a generation that signs from now on.
   *
   * @throws {MusterError} E_BMC when BMCs have certificates of too many already
   */
  replace(): Promise<void>;
  /** Ends generations that sign no more, if no certificate of theirs is in use. */
  forgetBefore(used: ReadonlySet<string>): Promise<void>;
}

export function openBmcAuthority(
  pki: Pick<Pki, 'found' | 'isFounded' | 'keysets' | 'issue' | 'transition'>,
): BmcAuthority {
  const keyset = async (): Promise<Keyset | undefined> =>
    (await pki.isFounded(BMC_SCOPE)) ? (await pki.keysets(BMC_SCOPE)).get(NAME) : undefined;
  /** One change at a time, so that none is forgotten while it is made. */
  let last: Promise<unknown> = Promise.resolve();
  const alone = (work: () => Promise<void>): Promise<void> => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
  return {
    primary: async () => (await keyset())?.primary,
    async bundle() {
      const found = await keyset();
      return found ? trustBundle(found) : '';
    },
    sign: (machine, reach, request) => signFor(pki, machine, reach, request),
    replace: () =>
      alone(async () => {
        await pki.found(BMC_SCOPE);
        mustHaveRoom((await keyset())?.trusted.length ?? 0);
        const { generation } = await pki.transition(BMC_SCOPE, NAME, { do: 'make' });
        for (const step of ['trust', 'promote'] as const)
          await pki.transition(BMC_SCOPE, NAME, { do: step, generation });
      }),
    forgetBefore: (used) =>
      alone(async () => {
        const found = await keyset();
        // Also those that a server made or distrusted which ended in between.
        for (const { id } of found ? allGenerations(found) : []) {
          if (id === found!.primary || used.has(id)) continue;
          const isTrusted = found!.trusted.some((one) => one.id === id);
          for (const step of isTrusted ? (['distrust', 'forget'] as const) : (['forget'] as const))
            await pki.transition(BMC_SCOPE, NAME, { do: step, generation: id });
        }
      }),
  };
}

/** @throws {MusterError} E_BMC when BMCs have certificates of too many CAs for another one */
function mustHaveRoom(inUse: number): void {
  if (inUse < MOST_IN_USE) return;
  throw new MusterError(
    'E_BMC',
    `BMCs have certificates of ${inUse} CAs; \`muster pki status\` shows which do not take a new one`,
  );
}
