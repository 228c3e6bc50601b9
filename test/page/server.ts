/** A boot host with simulated machines, its page, and operators who log in there. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import type { ShownSession } from '../../src/api/operations/operators.ts';
import {
  type BootHost,
  type BootHostOptions,
  importKubelet,
  openBootHost,
} from '../../src/lab/simulated/boot-host.files.ts';
import { CLIENT, type IdentityProvider } from '../identity-provider.ts';

const [HOST, NAME, PORT] = ['127.0.0.1', 'localhost', 8444] as const;
export const PAGE = `https://${NAME}:${PORT}`;
export const PASSWORD = 'correct horse battery staple';

/** Starts `bin/muster serve` with `size` machines of one cluster and with the page. */
export async function openServer(size: number, options: BootHostOptions = {}): Promise<BootHost> {
  const listen = ['--operators-listen', `${HOST}:${PORT}`, '--operators-name', NAME];
  const flags = [...listen, ...(options.flags ?? [])];
  const host = await openBootHost(size, { ...options, flags });
  importKubelet(host);
  return host;
}

/** The flags of a server whose operators may log in at this identity provider. */
export function flagsFor({ issuer, authority }: IdentityProvider): readonly string[] {
  const directory = mkdtempSync(join(tmpdir(), 'muster-oidc-'));
  const write = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  write('secret', CLIENT.secret);
  write('ca.pem', authority);
  const settings = {
    ...{ issuer, name: 'Example', clientId: CLIENT.id, clientSecretFile: 'secret', authorityFile: 'ca.pem' },
    roles: [{ role: 'operator', claims: { groups: 'rack-admins' } }],
  };
  return ['--oidc', write('oidc.yaml', JSON.stringify(settings))];
}

/** Makes an operator and returns the one-time link. */
export function invited(host: BootHost, name: string, ...roles: readonly string[]): string {
  return linkIn(host.muster('operator', 'add', name, ...roles.flatMap((role) => ['--role', role])));
}

/** The same with a role for one cluster. */
export const invitedFor = (host: BootHost, name: string, role: string, cluster: string): string =>
  linkIn(host.muster('operator', 'add', name, '--role', role, '--cluster', cluster));

const linkIn = (text: string): string => /https:\/\/\S+/.exec(text)![0];

/** Opens the page with the invitation, and sets the password. */
export async function firstLogIn(context: BrowserContext, link: string): Promise<Page> {
  const page = await context.newPage();
  await page.goto(link);
  await setPassword(page);
  await page.getByText('live', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Fleet', exact: true }).click();
  return page;
}

export async function setPassword(page: Page): Promise<void> {
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Password again').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set password and log in' }).click();
}

/** Ends the sessions of an operator, as an administrator does. */
export function endSessions(host: BootHost, name: string): void {
  const sessions = JSON.parse(host.muster('operator', 'sessions', 'ls', '-o', 'json')) as ShownSession[];
  for (const { id, operator } of sessions)
    if (operator === name) host.muster('operator', 'sessions', 'end', id);
}

/** Logs in again over the page, which says why. */
export async function logInAgain(page: Page, why: string): Promise<void> {
  const dialog = page.getByRole('dialog', { name: 'Log in again' });
  await dialog.getByText(why).waitFor();
  await dialog.getByLabel('Password').fill(PASSWORD);
  await dialog.getByRole('button', { name: 'Log in', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}
