/** Passkeys: what the browser does for the server (WebAuthn level 3). */
import type { Body } from '../../api/operations.ts';
import { ask, Problem } from './http.ts';
import { learnWho } from './session.ts';

/** Whether this browser can, at the address by which it shows the page. */
export const canUsePasskeys = (): boolean =>
  'PublicKeyCredential' in window && 'parseCreationOptionsFromJSON' in PublicKeyCredential;

/** @throws {Problem} when the password or the browser's answer is refused, or the person cancels */
export async function addPasskey(label: string, password: string): Promise<void> {
  const options = await ask('POST /v1/passkeys/begin', { body: { password } });
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    options as unknown as PublicKeyCredentialCreationOptionsJSON,
  );
  const credential = await asked(() => navigator.credentials.create({ publicKey }));
  const body = { label, credential } as Body<'POST /v1/passkeys'>;
  await ask('POST /v1/passkeys', { body });
}

export const removePasskey = async (id: string): Promise<void> =>
  void (await ask('DELETE /v1/passkeys/:id', { params: { id } }));

/** @throws {Problem} as {@link addPasskey} */
export async function logInWithPasskey(): Promise<void> {
  const options = await ask('POST /v1/login/passkey', { body: {} });
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  const credential = await asked(() => navigator.credentials.get({ publicKey }));
  const body = { credential, client: 'page' } as Body<'POST /v1/login/passkey/finish'>;
  await ask('POST /v1/login/passkey/finish', { body });
  await learnWho();
}

/** What the browser's errors mean, by their names. */
const MEANING: Readonly<Record<string, string>> = {
  NotAllowedError:
    'Nobody answered the browser in time, or it does not allow passkeys here. It allows them only where it trusts the certificate of the page.',
  InvalidStateError: 'This authenticator has a passkey of this account already.',
};

async function asked(work: () => Promise<Credential | null>): Promise<unknown> {
  try {
    return ((await work()) as PublicKeyCredential | null)?.toJSON();
  } catch (error) {
    const { name, message } = error as DOMException;
    const detail = MEANING[name] ?? message;
    throw new Problem({ status: 0, code: name, detail, fix: 'Try again, or log in with name and password.' });
  }
}
