/** What operators do on the page, in Chromium, with a real boot host and simulated machines. */
import fs from 'node:fs';
import path from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { BootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { orderOf } from '../../src/lab/simulated/documents.files.ts';
import { type IdentityProvider, openIdentityProvider } from '../identity-provider.ts';
import { addAuthenticator, afterPages, barriers, openBrowser, openContext, shoot } from './browser.ts';
import {
  endSessions,
  firstLogIn,
  flagsFor,
  invited,
  invitedFor,
  logInAgain,
  openServer,
  PAGE,
  PASSWORD,
  setPassword,
} from './server.ts';

const MACHINES = 12;
let host: BootHost;
let browser: Browser;
let identity: IdentityProvider;

beforeAll(async () => {
  identity = await openIdentityProvider();
  identity.open(PAGE);
  const options = { stranger: true, flags: flagsFor(identity) };
  [host, browser] = await Promise.all([openServer(MACHINES, options), openBrowser()]);
});
afterEach(({ task }) => afterPages(task.result?.state === 'fail'));
afterAll(async () => {
  await browser?.close();
  await host?.close();
  await identity?.close();
});

test('an operator logs in with the one-time link and sees machines boot as it happens', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'ada', 'operator'));
  expect(page.url()).not.toContain('invitation');
  await page.getByRole('link', { name: 'worker-9', exact: true }).waitFor();
  await host.powerOn({ machines: host.machines, perSecond: 0, keep: false });
  // Machines of a cluster have agents, which are heard.
  await page
    .getByText(/^(booted|ready)$/)
    .nth(MACHINES - 1)
    .waitFor();
  await shoot(page, 'fleet');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('link', { name: 'Overview', exact: true }).click();
  await page.getByRole('list', { name: 'What needs an operator' }).waitFor();
  await page.getByText('only this host has').first().waitFor();
  await shoot(page, 'overview');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Log in', exact: true }).waitFor();
  await shoot(page, 'log-in');
  expect(await barriers(page)).toEqual([]);
});

test('nobody sees anything without logging in', async () => {
  const context = await openContext(browser);
  const page = await context.newPage();
  await page.goto(`${PAGE}/#/fleet`);
  await page.getByLabel('Name').waitFor();
});

test("people log in at the site's identity provider, and learn there when they have no role", async () => {
  for (const [name, shown] of [
    ['ada', 'oidc+ada'],
    ['eve', 'no rule of this server gives you a role'],
  ] as const) {
    const context = await openContext(browser);
    const page = await context.newPage();
    await page.goto(PAGE);
    await page.getByRole('button', { name: 'Log in with Example' }).click();
    await page.locator('input[name=login]').fill(name);
    await page.locator('input[name=password]').fill('anything');
    await page.getByRole('button', { name: 'Sign-in' }).click();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByText(shown).waitFor();
    await shoot(page, `identity-provider-${name}`);
    expect(await barriers(page)).toEqual([]);
  }
});

test('an operator adds a passkey and logs in with it, without name and password', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'sophie', 'viewer'));
  await addAuthenticator(page);
  await page.getByRole('link', { name: 'sophie', exact: true }).click();
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('What you call it').fill('laptop');
  endSessions(host, 'sophie');
  await logInAgain(page, 'An operator ended the session');
  expect(await dialog.getByLabel('What you call it').inputValue()).toBe('laptop');
  await dialog.getByLabel('Password').fill(PASSWORD);
  expect(await barriers(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByRole('cell', { name: 'laptop' }).waitFor();
  await shoot(page, 'passkeys');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Use a passkey' }).click();
  await page.getByRole('link', { name: 'sophie', exact: true }).click();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await page.getByText('You have no passkey yet').waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Use a passkey' }).click();
  await page.getByText('logs nobody in').waitFor();
});

test('a machine that has just appeared is accepted and boots', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'grace', 'admin'));
  await page.getByRole('link', { name: /^Register/ }).click();
  await page.getByText('No unknown machine has asked').waitFor();
  await shoot(page, 'register-empty');
  const order = { ...host.stranger!, firmware: 'ipxe' as const, discovers: true };
  const booted = host.powerOn({ machines: [order], perSecond: 0, keep: false, until: 'ready' });
  const form = page.getByRole('form', { name: /^Accept m-/ });
  await form.waitFor();
  await page.getByText('Simulated Machine').waitFor();
  await page.getByText('894 GiB, nvme, Simulated Disk, serial S64FNE0R').waitFor();
  await page.getByText('whoever is on the segment may have written it').waitFor();
  await shoot(page, 'register');
  expect(await barriers(page)).toEqual([]);
  await form.getByLabel('Name').fill('newcomer');
  await form.getByLabel('Profile').selectOption('node');
  await form.getByRole('button', { name: 'Accept' }).click();
  await page.getByText('No unknown machine has asked').waitFor();
  await page.getByRole('link', { name: 'Fleet' }).click();
  await page.getByLabel('Find').fill('newcomer');
  await page.getByText('1 of 13 machines').waitFor();
  await page.getByText('booted', { exact: true }).waitFor();
  await booted;
  await page.getByRole('link', { name: 'newcomer' }).click();
  await page.getByText('Everything that was heard').waitFor({ state: 'attached' });
  await shoot(page, 'machine-timeline');
  expect(await barriers(page)).toEqual([]);
  for (const tab of ['Why', 'Configuration', 'Facts', 'Events']) {
    await page.getByRole('link', { name: tab, exact: true }).first().click();
    await page.getByText('Loading', { exact: false }).waitFor({ state: 'detached' });
    if (tab === 'Facts') await page.getByRole('heading', { name: 'Hardware' }).waitFor();
    await shoot(page, `machine-${tab.toLowerCase()}`);
    expect(await barriers(page), tab).toEqual([]);
  }
});

test('a whole rack is registered from a pasted table, after a check that shows faults', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'edsger', 'admin'));
  await page.goto(`${PAGE}/#/register`);
  const table = page.getByLabel('Paste rows');
  await table.fill('name,mac,profile\nrow-1,52:54:00:bb:00:01,node\nrow-2,52:54:00:bb:00:xx,node');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByRole('alert').waitFor();
  await shoot(page, 'rack-faults');
  await table.fill('name\tmac\tprofile\tlabels\nrow-1\t52:54:00:bb:00:01\tnode\track=a unit=1\n');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByRole('button', { name: 'Register 1 machine' }).click();
  await page.getByText('Registered: 1 machine').waitFor();
  await page.goto(`${PAGE}/#/fleet?view=racks&find=rack%3Da`);
  await page.getByRole('heading', { name: 'a', exact: true }).waitFor();
  await shoot(page, 'racks');
  expect(await barriers(page)).toEqual([]);
});

test('an operator finds out why a machine is stuck, and gets it going', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'radia', 'operator'));
  const stuck = { ...orderOf(MACHINES + 1), firmware: 'ipxe' as const };
  host.muster('machine', 'add', stuck.mac, '--name', 'stuck', '--address', stuck.address);
  const booted = host.powerOn({ machines: [stuck], perSecond: 0, keep: false, until: 'ready' });
  await page.getByLabel('Needs attention').check();
  await page.getByRole('link', { name: 'stuck' }).waitFor();
  await shoot(page, 'fleet-stuck');
  await page.getByRole('link', { name: 'stuck' }).click();
  await page.getByRole('heading', { name: /^(certain|likely)/ }).waitFor();
  await page.getByText('Evidence').first().click();
  await shoot(page, 'machine-stuck');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('link', { name: 'Console', exact: true }).click();
  await page.getByText('has sent no lines').waitFor();
  const boot = path.join(host.state, 'console/stuck/00000000-0000-4000-8000-000000000001');
  fs.mkdirSync(boot, { recursive: true });
  const console = path.join(boot, '00000001');
  fs.writeFileSync(console, '[    0.000000] Linux version 6.1\n[    2.5] <b>a line</b>\n');
  await page.getByText('<b>a line</b>').waitFor();
  // A reader at the end stays there; one who went up is left alone.
  const box = page.getByRole('region', { name: 'Console of stuck' });
  const toEnd = () => box.evaluate((at) => at.scrollHeight - at.scrollTop - at.clientHeight);
  fs.appendFileSync(console, `${Array.from({ length: 99 }, (_, n) => `line ${n}`).join('\n')}\nthe end\n`);
  await page.getByText('the end').waitFor();
  expect(await toEnd()).toBeLessThan(2);
  await box.evaluate((at) => at.scrollTo(0, 50));
  fs.appendFileSync(console, 'one more\n');
  await page.getByText('one more').waitFor();
  expect(await box.evaluate((at) => at.scrollTop)).toBe(50);
  await shoot(page, 'machine-console');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Accept …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Profile').selectOption('node');
  await shoot(page, 'machine-accept');
  expect(await barriers(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Accept', exact: true }).click();
  await page
    .getByRole('banner')
    .or(page.locator('main'))
    .getByText('booted', { exact: true })
    .first()
    .waitFor();
  await booted;
});

test('an administrator sees the cluster, and what a rotation of its CA would do', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'margaret', 'admin'));
  await page.getByRole('link', { name: 'Clusters', exact: true }).click();
  await page.getByRole('link', { name: 'rack', exact: true }).waitFor();
  await shoot(page, 'clusters');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('main').getByRole('link', { name: 'rack', exact: true }).click();
  await page.getByText('founded', { exact: false }).first().waitFor();
  for (const tab of ['Members', 'Health', 'Change', 'Snapshots']) {
    await page.getByRole('link', { name: tab, exact: true }).click();
    await page.getByText('Loading', { exact: false }).waitFor({ state: 'detached' });
    await shoot(page, `cluster-${tab.toLowerCase()}`);
    expect(await barriers(page), tab).toEqual([]);
  }
  await page.getByRole('main').getByRole('link', { name: 'Keys', exact: true }).click();
  await page.getByRole('heading', { name: 'Keys of rack' }).waitFor();
  await page.getByRole('button', { name: 'Rotate keys …' }).waitFor();
  await shoot(page, 'keys');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Rotate keys …' }).click();
  await page.getByRole('checkbox', { name: /^etcd-ca/ }).check();
  await page.getByRole('button', { name: 'Show what it would do' }).click();
  await page.getByRole('button', { name: 'Begin the rotation' }).waitFor();
  await shoot(page, 'rotation-preview');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Begin the rotation' }).click();
  await page.getByText('under way').waitFor();
  await shoot(page, 'rotation');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Pause …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause', exact: true }).click();
  await page.getByText('paused by', { exact: false }).waitFor();
});

test('a document is edited: a fault is shown in its line, then the difference, then it is applied', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'adele', 'admin'));
  await page.getByRole('link', { name: 'Documents' }).click();
  await page.getByRole('link', { name: 'node', exact: true }).waitFor();
  await shoot(page, 'documents');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'New Profile' }).click();
  const text = page.getByLabel('Document (YAML)');
  await text.fill('apiVersion: muster/v1\nkind: Profile\nmetadata:\n  name: spare\nspec:\n  imag: debian\n');
  await page.getByRole('button', { name: 'Check' }).click();
  await page
    .getByRole('button', { name: /^Go to line/ })
    .first()
    .click();
  await shoot(page, 'document-fault');
  expect(await barriers(page)).toEqual([]);
  await text.fill('apiVersion: muster/v1\nkind: Profile\nmetadata:\n  name: spare\nspec:\n  image: debian\n');
  endSessions(host, 'adele');
  await page.getByRole('dialog', { name: 'Log in again' }).waitFor();
  expect(await text.isVisible()).toBe(false);
  await shoot(page, 'log-in-again');
  expect(await barriers(page)).toEqual([]);
  await logInAgain(page, 'An operator ended the session');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByRole('heading', { name: 'Profile spare' }).waitFor();
  await text.fill((await text.inputValue()).replace('image: debian', 'image: debian\n  boot: hold'));
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('+   boot: hold').waitFor();
  await shoot(page, 'document-difference');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByRole('button', { name: 'Apply' }).waitFor({ state: 'detached' });
  expect(host.muster('get', 'profile', 'spare', '-o', 'yaml')).toContain('boot: hold');
});

test('events are followed and searched; an auditor reads the security log and nothing else', async () => {
  const context = await openContext(browser, { dark: true });
  const page = await firstLogIn(context, invited(host, 'whitfield', 'viewer'));
  await page.getByRole('link', { name: 'Events' }).click();
  // The list shows the newest; what happened meanwhile decides which those are.
  await page.getByLabel('Find').fill('machine.phase');
  await page.getByText('machine.phase').first().waitFor();
  await shoot(page, 'events-dark');
  expect(await barriers(page)).toEqual([]);
  const auditor = await openContext(browser);
  const log = await auditor.newPage();
  await log.goto(invited(host, 'peggy', 'auditor'));
  await setPassword(log);
  await log.getByText('operator.login').first().waitFor();
  await shoot(log, 'audit');
  expect(await barriers(log)).toEqual([]);
  expect(await log.getByRole('link', { name: 'Fleet' }).count()).toBe(0);
});

test('a viewer sees everything and is offered nothing that would be refused', async () => {
  const context = await openContext(browser, { dark: true, phone: true });
  const page = await firstLogIn(context, invited(host, 'barbara', 'viewer'));
  await page.getByRole('link', { name: 'cp1', exact: true }).waitFor();
  await shoot(page, 'fleet-phone-dark');
  expect(await barriers(page)).toEqual([]);
  expect(await page.getByRole('checkbox', { name: 'Select cp1' }).count()).toBe(0);
  await page.getByRole('link', { name: 'cp1', exact: true }).click();
  await page.getByText('Everything that was heard').waitFor({ state: 'attached' });
  await shoot(page, 'machine-phone-dark');
  expect(await page.getByRole('button', { name: 'Accept' }).count()).toBe(0);
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('link', { name: 'Overview', exact: true }).click();
  await page.getByRole('list', { name: 'What needs an operator' }).waitFor();
  await shoot(page, 'overview-phone-dark');
  expect(await barriers(page)).toEqual([]);
});

test('a role for one cluster shows its machines, and no view of the whole site', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invitedFor(host, 'frances', 'operator', 'rack'));
  await page.getByRole('link', { name: 'cp1', exact: true }).waitFor();
  await shoot(page, 'fleet-one-cluster');
  expect(await barriers(page)).toEqual([]);
  for (const name of ['Documents', 'Keys', 'Register'])
    expect(await page.getByRole('link', { name }).count()).toBe(0);
  await page.getByRole('link', { name: 'cp1', exact: true }).click();
  await page.getByRole('heading', { name: 'cp1' }).waitFor();
  await page.getByRole('main').getByRole('link', { name: 'rack', exact: true }).waitFor();
});
