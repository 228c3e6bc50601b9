/**
 * All views fit on phone, tablet, laptop and desk, and with zoom: nothing overlaps, no text is cut,
 * and nothing scrolls sideways that people do not expect to. Measured in the DOM. One page is
 * resized. `MUSTER_SHOTS=fits` keeps a screenshot of each view at each width, to look at.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { BootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { afterPages, openBrowser, openContext, shoot } from './browser.ts';
import { firstLogIn, invited, openServer } from './server.ts';

/** With a zoom of 200 %, 1536 px are 768; with 400 %, 1280 px are 320 (WCAG 2.2, 1.4.10). */
const WIDTHS = [1440, 1024, 768, 390, 320];
/** As long as names may be. */
const LONG = `rack-17-unit-42-${'x'.repeat(47)}`;
const MACHINE = `apiVersion: muster/v1
kind: Machine
metadata: {name: ${LONG}, labels: {rack: a, unit: "1"}}
spec: {macs: ["52:54:00:dd:00:01"], profile: node}
`;

/** The views, and what is on the screen when they are complete. */
const VIEWS: readonly (readonly [string, string])[] = [
  ['overview', 'Looked at'],
  ['fleet', LONG],
  ['fleet?view=racks', LONG],
  ['register', 'No unknown machine has asked'],
  ['clusters', 'rack'],
  ['clusters/rack', 'are ready'],
  ['clusters/rack?tab=health', 'Check again'],
  ['clusters/rack?tab=change', 'change'],
  ['clusters/rack?tab=snapshots', 'snapshot'],
  [`machines/${LONG}`, 'Timeline'],
  [`machines/${LONG}?tab=why`, 'Why'],
  [`machines/${LONG}?tab=configuration`, 'Configuration'],
  [`machines/${LONG}?tab=facts`, 'Facts'],
  [`machines/${LONG}?tab=events`, 'Events'],
  [`machines/${LONG}?tab=console`, 'has sent no lines'],
  ['machines/cp1', 'Everything that was heard'],
  ['machines/cp1?tab=facts', 'Hardware'],
  ['machines/cp1?tab=why', 'Why'],
  ['keys', 'Keys'],
  ['keys/rack', 'Keys of rack'],
  ['images', 'System'],
  ['images?tab=artifacts', 'kubelet'],
  ['images?tab=files', 'Needed by'],
  ['documents/Machine', LONG],
  ['documents/Cluster/rack', 'Cluster rack'],
  ['events', 'events'],
  ['operators', 'active'],
  ['operators?tab=sessions', 'Begun'],
  ['account', 'Passkeys'],
  ['audit', 'operator.login'],
];

const MISFITS = readFileSync(new URL('./misfits.js', import.meta.url), 'utf8');

let host: BootHost;
let browser: Browser;
beforeAll(async () => {
  [host, browser] = await Promise.all([openServer(4), openBrowser()]);
  const file = join(host.state, 'long.yaml');
  writeFileSync(file, MACHINE);
  host.muster('apply', '-f', file);
});
afterEach(({ task }) => afterPages(task.result?.state === 'fail'));
afterAll(async () => {
  await browser?.close();
  await host?.close();
});

async function show(page: Page, view: string, complete: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(`#/${view}`)}`);
  await page.getByRole('main').getByText(complete).first().waitFor();
  await page
    .getByText(/^Loading /)
    .first()
    .waitFor({ state: 'detached' });
}

test('every view fits on every screen', async () => {
  await host.powerOn({ machines: host.machines, perSecond: 0, keep: false });
  const context = await openContext(browser);
  const page = await firstLogIn(context, invited(host, 'ada', 'admin', 'auditor'));
  const found: string[] = [];
  for (const [view, complete] of VIEWS) {
    await page.setViewportSize({ width: WIDTHS[0]!, height: 900 });
    await show(page, view, complete);
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      // Rows are drawn for the new size in the next frame.
      await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
      for (const one of await page.evaluate<readonly string[]>(MISFITS))
        found.push(`${view} at ${width} px: ${one}`);
      if (process.env.MUSTER_SHOTS === 'fits')
        await shoot(page, `fits-${view.replaceAll(/[^a-z]+/g, '-').slice(0, 40)}-${width}`);
    }
  }
  expect(found).toEqual([]);
  // The measure finds what does not fit.
  await page.evaluate(
    "document.querySelector('h1').style.cssText = 'min-width: 99rem; margin-bottom: -5rem'",
  );
  const broken = (await page.evaluate<readonly string[]>(MISFITS)).join('; ');
  expect(broken).toMatch(/scrolls sideways.* lies over /);
});
