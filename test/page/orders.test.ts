/** Orders that the page gives: from the text that asks for one, and with a second person. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { BootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { afterPages, barriers, openBrowser, openContext, shoot } from './browser.ts';
import { firstLogIn, invited, openServer } from './server.ts';

const WAITING = 'Orders that wait for a second person';

let host: BootHost;
let browser: Browser;

beforeAll(async () => {
  const options = { stranger: true, flags: ['--require-second-person', 'yes'] };
  [host, browser] = await Promise.all([openServer(5, options), openBrowser()]);
});
afterEach(({ task }) => afterPages(task.result?.state === 'fail'));
afterAll(async () => {
  await browser?.close();
  await host?.close();
});

const lifeOf = (name: string): { readonly state: string } =>
  JSON.parse(host.muster('machine', 'life', name, '-o', 'json')) as { state: string };

async function openMachine(page: Page, name: string): Promise<void> {
  await page.getByRole('link', { name: 'Fleet', exact: true }).click();
  await page.getByRole('link', { name, exact: true }).click();
}

test('what a text asks for is ordered there, with the command to copy', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'ada', 'operator'));
  host.muster('machine', 'quarantine', 'worker-1', '--reason', 'test');
  await openMachine(page, 'worker-1');
  await page.getByRole('link', { name: 'Why', exact: true }).click();
  // An operator is told who may do it; an administrator gets the order itself.
  await page.getByText('(an administrator may)').first().waitFor();
  const other = await firstLogIn(await openContext(browser), invited(host, 'margaret', 'admin'));
  await openMachine(other, 'worker-1');
  await other.getByRole('link', { name: 'Why', exact: true }).click();
  await other.getByRole('link', { name: 'End the quarantine: worker-1' }).first().click();
  const dialog = other.getByRole('dialog', { name: 'End the quarantine of worker-1' });
  await dialog.getByText('muster machine release worker-1', { exact: true }).waitFor();
  await dialog.getByRole('button', { name: 'Copy' }).click();
  await shoot(other, 'order');
  expect(await barriers(other)).toEqual([]);
  await dialog.getByRole('button', { name: 'End the quarantine', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await other.getByRole('button', { name: 'Quarantine …' }).waitFor();
  expect(other.url()).not.toContain('do=');
});

test('what cannot be undone waits until another administrator confirms it', async () => {
  // An account that is younger than the order could have been made for it, and confirms nothing.
  const other = await firstLogIn(
    await openContext(browser, { phone: true }),
    invited(host, 'radia', 'admin'),
  );
  const grace = await firstLogIn(await openContext(browser), invited(host, 'grace', 'admin'));
  await openMachine(grace, 'worker-1');
  await grace.getByRole('button', { name: 'Take out …' }).click();
  let dialog = grace.getByRole('dialog');
  await dialog.getByLabel('Reason').fill('sold');
  await dialog.getByText('muster machine take-out worker-1 --reason sold', { exact: true }).waitFor();
  await dialog.getByRole('button', { name: 'Take out', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await grace.getByRole('button', { name: 'Wipe …' }).click();
  dialog = grace.getByRole('dialog');
  await dialog.getByLabel('Level').selectOption('overwrite');
  await dialog.getByLabel('Reason').fill('sold');
  await dialog.getByLabel('Type worker-1 to confirm').fill('worker-1');
  await shoot(grace, 'wipe');
  expect(await barriers(grace)).toEqual([]);
  await dialog.getByRole('button', { name: 'Wipe', exact: true }).click();
  await dialog.getByRole('link', { name: 'Orders that wait' }).first().click();
  const waiting = grace.getByRole('region', { name: WAITING });
  await waiting.getByText('You ordered it; another administrator confirms it.').waitFor();
  expect(await waiting.getByRole('button', { name: 'Confirm' }).count()).toBe(0);
  expect(lifeOf('worker-1').state).toBe('taken-out');

  await other.getByRole('link', { name: 'Overview', exact: true }).click();
  await other.getByText('machines/worker-1/wipe').waitFor();
  await shoot(other, 'pending-phone');
  expect(await barriers(other)).toEqual([]);
  await other.getByRole('button', { name: 'Confirm …' }).click();
  await other.getByRole('dialog').getByText('overwrite', { exact: true }).waitFor();
  await other.getByRole('dialog').getByRole('button', { name: 'Confirm', exact: true }).click();
  await other.getByRole('region', { name: WAITING }).waitFor({ state: 'detached' });
  expect(lifeOf('worker-1').state).toBe('wiping');
});

test('an order that waits is withdrawn', async () => {
  const page = await firstLogIn(await openContext(browser), invited(host, 'edsger', 'admin'));
  await openMachine(page, 'worker-1');
  await page.getByRole('button', { name: 'Retire …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Reason').fill('sold');
  await dialog.getByLabel('Its disks were not wiped').check();
  await dialog.getByLabel('Type worker-1 to confirm').fill('worker-1');
  await dialog.getByRole('button', { name: 'Retire', exact: true }).click();
  await dialog.getByRole('link', { name: 'Orders that wait' }).first().click();
  await page.getByRole('button', { name: 'Withdraw …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Withdraw', exact: true }).click();
  await page.getByRole('region', { name: WAITING }).waitFor({ state: 'detached' });
  expect(lifeOf('worker-1').state).toBe('wiping');
});
