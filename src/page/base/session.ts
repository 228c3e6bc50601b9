/** Who is logged in. */
import { signal } from '@preact/signals';
import type { Access, Principal } from '../../api/access.ts';
import { ask, kept, loggedOut, Problem, whyLoggedOut } from './http.ts';
import { allowed, allowedSomewhere } from './may.ts';

/** Undefined: not known yet. */
export const who = signal<Principal | undefined>(undefined);
/** The server could not be asked who is logged in. */
export const startFault = signal<Problem | undefined>(undefined);

/** @throws {Problem} when the server cannot be asked and somebody was logged in */
export async function learnWho(): Promise<void> {
  startFault.value = undefined;
  try {
    who.value = await ask('GET /v1/whoami');
    loggedOut.value = false;
    kept.value = true;
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 401) loggedOut.value = true;
    else if (who.value === undefined) startFault.value = error;
    else throw error;
  }
}

/** Whether an order asked for a log-in of the last minutes, which a dialog takes. */
export const proving = signal(false);

export async function logIn(operator: string, password: string): Promise<void> {
  await ask('POST /v1/login', { body: { operator, password, client: 'page' } });
  await learnWho();
}

export async function redeem(invitation: string, password: string): Promise<void> {
  await ask('POST /v1/invitation', { body: { invitation, password, client: 'page' } });
  await learnWho();
}

export async function logOut(): Promise<void> {
  await ask('POST /v1/logout');
  kept.value = false;
  whyLoggedOut.value = undefined;
  who.value = undefined;
  loggedOut.value = true;
}

/** Whether the operator may do it, everywhere or in this cluster. */
export const may = (access: Access, cluster?: string): boolean =>
  who.value !== undefined && allowed(who.value.grants, access, cluster);

/** Whether the operator may do it somewhere; then the view shows the part that may be seen. */
export const maySomewhere = (access: Access): boolean =>
  who.value !== undefined && allowedSomewhere(who.value.grants, access);
