/** Power, hardware and the serial console on the page, with BMCs of the virtual rack. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ImaginedMachine, startVirtualBmc, type VirtualBmc } from '../../src/lab/bmc/virtual-bmc.server.ts';
import type { BootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { afterPages, barriers, openBrowser, openContext, shoot } from './browser.ts';
import { firstLogIn, invited, openServer } from './server.ts';

const LOGIN = { user: 'ada', password: 'secret-of-ada' };
const HOSTILE = '\u001b[31m<b>CPU</b> failed';

let host: BootHost;
let browser: Browser;
const machines = [new ImaginedMachine(), new ImaginedMachine()] as const;
let bmcs: readonly VirtualBmc[];

beforeAll(async () => {
  const start = (protocol: 'ipmi' | 'redfish', machine: ImaginedMachine) =>
    startVirtualBmc(
      { protocol, address: '127.0.0.1', port: 0, ...LOGIN, identity: { serial: 'S-1' } },
      machine,
    );
  [host, browser, bmcs] = await Promise.all([
    openServer(3),
    openBrowser(),
    Promise.all([start('ipmi', machines[0]), start('redfish', machines[1])]),
  ]);
  bmcs[1]!.controller.note(HOSTILE);
  const machine = (n: number, more: string): string => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: powered-${n}, labels: {rack: p}}
spec:
  macs: ["52:54:00:cc:00:0${n}"]
  profile: node
  bmc:
    {address: 127.0.0.1, port: ${bmcs[n - 1]!.port}, ${more}, credentials: {user: ada, password: {valueFrom: {secret: bmc, key: password}}}}
`;
  const files = mkdtempSync(join(tmpdir(), 'muster-page-power-'));
  writeFileSync(join(files, 'secret'), LOGIN.password);
  writeFileSync(
    join(files, 'machines.yaml'),
    machine(1, 'protocol: ipmi, console: sol') + machine(2, 'protocol: redfish'),
  );
  host.muster('secret', 'put', 'bmc', 'password', '--from-file', join(files, 'secret'));
  host.muster('apply', '-f', join(files, 'machines.yaml'));
});
afterEach(({ task }) => afterPages(task.result?.state === 'fail'));
afterAll(async () => {
  await browser?.close();
  await host?.close();
  await Promise.all(bmcs?.map((bmc) => bmc.close()) ?? []);
});

test('an operator switches a machine on, sees what became of it, and what its hardware is', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'ada', 'operator'));
  await page.getByRole('link', { name: 'powered-2', exact: true }).click();
  await page.getByRole('link', { name: 'Power', exact: true }).click();
  await page.getByRole('button', { name: 'Ask the BMC now' }).click();
  await page.getByText('off', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Switch on …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Next boot from').selectOption('setup');
  await shoot(page, 'power-order');
  expect(await barriers(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Switch on', exact: true }).click();
  await page.getByText('the setup of its firmware sends nothing').waitFor();
  expect(bmcs[1]!.controller.starts).toEqual(['setup']);
  await page.getByRole('button', { name: 'Event log' }).click();
  await page.getByText('<b>CPU</b> failed').waitFor();
  await page.getByRole('button', { name: 'Sensors' }).click();
  await page.getByRole('cell', { name: '47 °C' }).waitFor();
  await shoot(page, 'power');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Light the lamp …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Light the lamp', exact: true }).click();
  await expect.poll(() => bmcs[1]!.controller.lit).toBe(true);
});

test('an administrator accepts the new certificate of a BMC', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'margaret', 'admin'));
  await page.getByRole('link', { name: 'powered-2', exact: true }).click();
  await page.getByRole('link', { name: 'Power', exact: true }).click();
  const look = page.getByRole('button', { name: 'Ask the BMC now' });
  await look.click();
  await page.getByText('read ').waitFor();
  await bmcs[1]!.changeCertificate();
  await look.click();
  await page.getByText('it shows another certificate').waitFor();
  await page.getByRole('button', { name: 'Accept its certificate …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Accept its certificate', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await look.click();
  await page.getByText('it shows another certificate').waitFor({ state: 'detached' });
  await shoot(page, 'power-admin');
  expect(await barriers(page)).toEqual([]);
});

test('several machines are shown before they are ordered, and followed', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'grace', 'operator'));
  await page.getByLabel('Find').fill('powered');
  for (const name of ['powered-1', 'powered-2'])
    await page.getByRole('checkbox', { name: `Select ${name}` }).check();
  await page.getByRole('button', { name: 'Power …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('link', { name: 'powered-1' }).waitFor();
  await dialog.getByLabel('Order').selectOption('off');
  await dialog.getByLabel('Between two machines').fill('0s');
  await shoot(page, 'power-fleet');
  expect(await barriers(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Switch off: 2 machines' }).click();
  await dialog
    .getByText(/^off by grace.*proved$/)
    .nth(1)
    .waitFor();
  expect(machines.map(({ on }) => on)).toEqual([false, false]);
});

test('an operator types into the serial console, which he sees live', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'radia', 'operator'));
  await page.getByRole('link', { name: 'powered-1', exact: true }).click();
  await page.getByRole('link', { name: 'Console', exact: true }).click();
  await machines[0].start('network', { hang: false });
  await page.getByLabel('Console', { exact: true }).selectOption('live');
  const terminal = page.locator('.live .xterm-rows');
  await terminal.getByText('BIOS (network)').waitFor();
  await page.keyboard.type('root');
  await page.getByRole('button', { name: 'Enter', exact: true }).click();
  await expect.poll(() => machines[0].typed).toBe('root\r');
  machines[0].say('\u001b[1;32mwelcome\u001b[0m\r\n\u001b[38;2;255;0;0mred\u001b[0m # ');
  await terminal.getByText('welcome').waitFor();
  await shoot(page, 'live-console');
  expect(await barriers(page)).toEqual([]);
  // The way out for those who have only a keyboard.
  await page.getByRole('textbox', { name: 'Serial console of powered-1' }).focus();
  await page.keyboard.press('Shift+Tab');
  await page.getByRole('button', { name: 'Enter', exact: true }).and(page.locator(':focus')).waitFor();
  await page.getByLabel('Console', { exact: true }).selectOption('bmc');
  await page.getByRole('region', { name: 'Console of powered-1' }).getByText('welcome').waitFor();
});

test('on a phone a viewer sees the power and the kept console, and is offered no order', async () => {
  const context = await openContext(browser, { phone: true });
  const page = await firstLogIn(context, invited(host, 'barbara', 'viewer'));
  await page.getByRole('link', { name: 'powered-2', exact: true }).click();
  await page.getByRole('link', { name: 'Power', exact: true }).click();
  await page.getByText('Your role shows its power.').waitFor();
  expect(await page.getByRole('button', { name: 'Switch on' }).count()).toBe(0);
  await page.getByRole('button', { name: 'Inventory' }).click();
  await page.getByText('S-1', { exact: true }).waitFor();
  await shoot(page, 'power-phone');
  expect(await barriers(page)).toEqual([]);
});

test('on a phone the live console fits the screen', async () => {
  const context = await openContext(browser, { phone: true, dark: true });
  const page = await firstLogIn(context, invited(host, 'sophie', 'operator'));
  await page.getByRole('link', { name: 'powered-1', exact: true }).click();
  await page.getByRole('link', { name: 'Power', exact: true }).click();
  await page.getByRole('button', { name: 'Power cycle …' }).waitFor();
  await shoot(page, 'power-phone-dark');
  await page.getByRole('link', { name: 'Console', exact: true }).click();
  await page.getByLabel('Console', { exact: true }).selectOption('live');
  await page.locator('.live .xterm-rows').getByText('welcome').waitFor();
  await shoot(page, 'live-console-phone');
  expect(await barriers(page)).toEqual([]);
  expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
});
