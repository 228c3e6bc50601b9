/** A boot host with simulated machines, its page, and operators who log in there. */
import type { BrowserContext, Page } from 'playwright-core';
import {
  type BootHost,
  type BootHostOptions,
  openBootHost,
} from '../../src/lab/simulated/boot-host.files.ts';

const ADDRESS = '127.0.0.1:8444';
export const PAGE = `https://${ADDRESS}`;
export const PASSWORD = 'correct horse battery staple';

/** Starts `bin/muster serve` with `size` machines and with the page. */
export const openServer = (size: number, options: BootHostOptions = {}): Promise<BootHost> =>
  openBootHost(size, { ...options, flags: ['--operators-listen', ADDRESS, ...(options.flags ?? [])] });

/** Makes an operator and returns the one-time link. */
export function invited(host: BootHost, name: string, ...roles: readonly string[]): string {
  const text = host.muster('operator', 'add', name, ...roles.flatMap((role) => ['--role', role]));
  return /https:\/\/\S+/.exec(text)![0];
}

/** Opens the page with the invitation, and sets the password. */
export async function firstLogIn(context: BrowserContext, link: string): Promise<Page> {
  const page = await context.newPage();
  await page.goto(link);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Password again').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set password and log in' }).click();
  await page.getByText('live', { exact: true }).waitFor();
  return page;
}
