/** What a site's operators do on the page besides machines: accounts, own log-in, credentials. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { BootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { afterPages, barriers, openBrowser, openContext, shoot } from './browser.ts';
import { firstLogIn, invited, openServer, PASSWORD, setPassword } from './server.ts';

let host: BootHost;
let browser: Browser;

beforeAll(async () => {
  [host, browser] = await Promise.all([openServer(4), openBrowser()]);
});
afterEach(({ task }) => afterPages(task.result?.state === 'fail'));
afterAll(async () => {
  await browser?.close();
  await host?.close();
});

test('an administrator makes an account, its owner logs in, and is logged out and removed', async () => {
  const page = await firstLogIn(await openContext(browser), invited(host, 'grace', 'admin'));
  await page.getByRole('link', { name: 'Operators', exact: true }).click();
  await page.getByRole('button', { name: 'Add an operator …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('ada');
  await dialog.getByLabel('Role').selectOption('operator');
  await dialog.getByLabel('Only for clusters').fill('rack');
  await dialog.getByText('muster operator add ada --role operator --cluster rack', { exact: true }).waitFor();
  await shoot(page, 'operator-add');
  expect(await barriers(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Add an operator', exact: true }).click();
  const link = await page
    .getByRole('region', { name: /^The invitation of ada/ })
    .locator('code')
    .innerText();
  await shoot(page, 'operators');
  expect(await barriers(page)).toEqual([]);
  const theirs = await (await openContext(browser)).newPage();
  await theirs.goto(link);
  await setPassword(theirs);
  await theirs.getByRole('link', { name: 'ada', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('row', { name: /^ada operator of rack active/ }).waitFor();
  await page.getByRole('link', { name: 'Sessions', exact: true }).click();
  await page.getByRole('row', { name: /^ada / }).getByRole('button', { name: 'End …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End', exact: true }).click();
  await theirs.getByRole('dialog', { name: 'Log in again' }).waitFor();
  await page.getByRole('link', { name: 'Accounts', exact: true }).click();
  await page.getByRole('row', { name: /^ada / }).getByRole('button', { name: 'Remove …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByRole('row', { name: /^ada / }).waitFor({ state: 'detached' });
  expect(host.muster('operator', 'ls')).not.toContain('ada');
});

test('an administrator makes a token, whose text is shown once', async () => {
  const context = await openContext(browser, { phone: true });
  const page = await firstLogIn(context, invited(host, 'margaret', 'admin'));
  await page.getByRole('link', { name: 'Operators', exact: true }).click();
  await shoot(page, 'operators-phone');
  await page.getByRole('link', { name: 'Tokens', exact: true }).click();
  await page.getByRole('button', { name: 'Add a token …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('What for').fill('grafana');
  await dialog.getByText('muster token add margaret --role viewer --label grafana --expires 30d').waitFor();
  await dialog.getByRole('button', { name: 'Add a token', exact: true }).click();
  await page.getByText(/^muster_/).waitFor();
  await shoot(page, 'token-phone');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('cell', { name: 'grafana' }).waitFor();
  expect(await page.getByText(/^muster_/).count()).toBe(0);
});

test('an operator changes the own password, which ends the other sessions', async () => {
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'sophie', 'viewer'));
  const other = await (await openContext(browser)).newPage();
  await other.goto(new URL('/', page.url()).href);
  await other.getByLabel('Name').fill('sophie');
  await other.getByLabel('Password').fill(PASSWORD);
  await other.getByRole('button', { name: 'Log in', exact: true }).click();
  await other.getByText('live', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'sophie', exact: true }).click();
  await page.getByRole('button', { name: 'Change the password …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Present password').fill(PASSWORD);
  await dialog.getByLabel('New password', { exact: true }).fill('another horse battery');
  await dialog.getByLabel('New password again').fill('another horse batterz');
  await dialog.getByRole('button', { name: 'Change the password', exact: true }).click();
  await dialog.getByText('The two new passwords are different.').waitFor();
  await dialog.getByLabel('New password again').fill('another horse battery');
  await dialog.getByRole('button', { name: 'Change the password', exact: true }).click();
  await page.getByText('your other sessions have ended').waitFor();
  await page.getByText('now, in this browser').waitFor();
  await shoot(page, 'account');
  expect(await barriers(page)).toEqual([]);
  await other.getByRole('dialog', { name: 'Log in again' }).getByText('a new password was set').waitFor();
});

test('a restore says what it would do before it is ordered', async () => {
  const page = await firstLogIn(await openContext(browser, { phone: true }), invited(host, 'adele', 'admin'));
  await page.goto(new URL('/#/clusters/rack?tab=snapshots', page.url()).href);
  await page.getByRole('button', { name: 'Restore from a member …' }).click();
  const dialog = page.getByRole('dialog', { name: 'Restore etcd of rack' });
  await dialog.getByLabel('From member').selectOption('cp1');
  // It was not founded yet, so the server would refuse it.
  await dialog.getByRole('alert').waitFor();
  await dialog.getByText('muster cluster restore rack --from cp1', { exact: true }).waitFor();
  await shoot(page, 'restore-phone');
  expect(await barriers(page)).toEqual([]);
});

test('a kubeconfig is downloaded after a fresh log-in; a viewer reads who may', async () => {
  // The cluster's keys are made when its machines ask.
  await host.powerOn({ machines: host.machines, perSecond: 0, keep: false });
  const page = await firstLogIn(await openContext(browser), invited(host, 'edsger', 'admin'));
  await page.getByRole('link', { name: 'Clusters', exact: true }).click();
  await page.getByRole('main').getByRole('link', { name: 'rack', exact: true }).click();
  await page.getByRole('button', { name: 'Kubeconfig …' }).click();
  // What the server says six minutes later, for which no test waits.
  await page.route('**/kubeconfig', (route) =>
    route.fulfill({
      status: 403,
      contentType: 'application/problem+json',
      body: JSON.stringify({ code: 'E_PROOF', title: 'x', detail: 'edsger logged in 6 minutes ago' }),
    }),
  );
  const dialog = page.getByRole('dialog', { name: 'Kubeconfig for rack' });
  await shoot(page, 'kubeconfig');
  const order = dialog.getByRole('button', { name: 'Kubeconfig', exact: true });
  await order.click();
  await dialog.getByRole('button', { name: 'Log in again' }).click();
  const proof = page.getByRole('dialog', { name: 'Log in again' });
  await shoot(page, 'prove');
  expect(await barriers(page)).toEqual([]);
  await proof.getByLabel('Password').fill(PASSWORD);
  await proof.getByRole('button', { name: 'Log in', exact: true }).click();
  await proof.waitFor({ state: 'detached' });
  await page.unroute('**/kubeconfig');
  const [download] = await Promise.all([page.waitForEvent('download'), order.click()]);
  expect(download.suggestedFilename()).toBe('rack.kubeconfig');
  const text = readFileSync(await download.path(), 'utf8');
  expect(text).toContain('kind: Config\n');
  expect(text).toContain('name: edsger');
  await dialog.waitFor({ state: 'detached' });
  const viewer = await firstLogIn(await openContext(browser), invited(host, 'barbara', 'viewer'));
  await viewer.getByRole('link', { name: 'Clusters', exact: true }).click();
  await viewer.getByRole('main').getByRole('link', { name: 'rack', exact: true }).click();
  await viewer.getByText(/Remove a machine, Kubeconfig: an administrator may/).waitFor();
  expect(await viewer.getByRole('button', { name: 'Kubeconfig' }).count()).toBe(0);
  expect(await viewer.getByRole('link', { name: 'Operators' }).count()).toBe(0);
  await shoot(viewer, 'cluster-viewer');
  expect(await barriers(viewer)).toEqual([]);
});

test('a file that an image lacks is recognised by its hash and sent; a program becomes an artifact', async () => {
  const [kernel, other] = ['a kernel of the test', 'a program of the test'].map((text) => Buffer.from(text));
  const sha256 = createHash('sha256').update(kernel!).digest('hex');
  const file = join(host.state, 'image.yaml');
  writeFileSync(
    file,
    `apiVersion: muster/v1
kind: Image
metadata: {name: lacking}
spec: {os: debian, version: "13", arch: x86_64, kernel: {sha256: ${sha256}}, configFormat: none}
`,
  );
  host.muster('apply', '-f', file);
  const page = await firstLogIn(await openContext(browser), invited(host, 'radia', 'admin'));
  await page.getByRole('link', { name: 'Images', exact: true }).first().click();
  await page
    .getByRole('row', { name: /^lacking/ })
    .getByText('lacks kernel')
    .waitFor();
  await shoot(page, 'images');
  expect(await barriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Add a file …' }).click();
  const dialog = page.getByRole('dialog');
  const give = dialog.getByRole('button', { name: 'Add a file', exact: true });
  const choose = (name: string, buffer: Buffer) =>
    dialog.getByLabel('File').setInputFiles({ name, mimeType: 'application/octet-stream', buffer });
  await choose('other', other!);
  await give.click();
  await dialog.getByText('Nothing lacks this file.').waitFor();
  await choose('kernel', kernel!);
  await shoot(page, 'image-add-file');
  expect(await barriers(page)).toEqual([]);
  await give.click();
  await page
    .getByRole('row', { name: /^lacking/ })
    .getByText('complete')
    .waitFor();
  expect(host.muster('image', 'ls')).toMatch(/lacking .* complete/);
  await page.getByRole('link', { name: 'Artifacts', exact: true }).click();
  await page.getByRole('button', { name: 'Add a file …' }).click();
  await choose('kubectl', other!);
  await dialog.getByLabel('What it is').selectOption('binary');
  await dialog.getByLabel('Name').fill('kubectl');
  await dialog.getByLabel('Version').fill('1.36.9');
  await dialog
    .getByText('muster artifacts import --binary kubectl:1.36.9=kubectl', { exact: true })
    .waitFor();
  await give.click();
  const row = page.getByRole('row', { name: /kubectl/ });
  await row.getByText('complete').waitFor();
  await shoot(page, 'artifacts');
  await row.getByRole('button', { name: 'Remove …' }).click();
  await dialog.getByText('The boot host would remove it now.').waitFor();
  await dialog.getByRole('button', { name: 'Remove', exact: true }).click();
  await row.waitFor({ state: 'detached' });
});
