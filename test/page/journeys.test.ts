/** What operators do on the page, in Chromium, with a real boot host and simulated machines. */
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { BootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { afterPages, barriers, openBrowser, openContext, shoot } from './browser.ts';
import { firstLogIn, invited, openServer, PAGE } from './server.ts';

const MACHINES = 12;
let host: BootHost;
let browser: Browser;

beforeAll(async () => {
  [host, browser] = await Promise.all([openServer(MACHINES), openBrowser()]);
});
afterEach(({ task }) => afterPages(task.result?.state === 'fail'));
afterAll(async () => {
  await browser?.close();
  await host?.close();
});

test('an operator logs in with the one-time link and sees machines become ready as it happens', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'ada', 'operator'));
  expect(page.url()).not.toContain('invitation');
  await page.getByRole('link', { name: 'worker-9', exact: true }).waitFor();
  await host.powerOn({ machines: host.machines, perSecond: 0, keep: false, until: 'ticket' });
  await page
    .getByText('ready', { exact: true })
    .nth(MACHINES - 1)
    .waitFor();
  await shoot(page, 'fleet');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await shoot(page, 'log-in');
  expect(await barriers(page)).toEqual([]);
});

test('nobody sees anything without logging in', async () => {
  const context = await openContext(browser);
  const page = await context.newPage();
  await page.goto(`${PAGE}/#/fleet`);
  await page.getByLabel('Name').waitFor();
});
