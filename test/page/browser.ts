/** Debian's Chromium, in which the tests of the page run, and the screenshots that they leave. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import axe from 'axe-core';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { projectRoot } from '../../src/base/paths.ts';

/** Where screenshots are kept; CI stores them. */
export const SHOTS = join(projectRoot(), '.cache/page-shots');

export const CHROMIUM = '/usr/bin/chromium';

/** Starts Chromium; it talks to this host only. */
export const openBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: CHROMIUM,
    // The tests run as root in a namespace of their own, where Chromium cannot make others.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--force-color-profile=srgb'],
  });

export interface Look {
  readonly dark?: boolean;
  readonly phone?: boolean;
}

/** What the pages complained about: errors of scripts, and everything that the CSP stopped. */
const complaints: string[] = [];
const open = new Set<BrowserContext>();

/** After each test: screenshots of a test that failed; no page may have complained. */
export async function afterPages(failed: boolean): Promise<void> {
  const pages = [...open].flatMap((context) => context.pages());
  if (failed) for (const [n, page] of pages.entries()) await shoot(page, `failed-${n}`);
  await Promise.all([...open].map((context) => context.close()));
  open.clear();
  const all = complaints.splice(0);
  if (all.length > 0) throw new Error(`the page complained:\n${all.join('\n')}`);
}

/** A browser with its own cookies. The certificate of the page is Muster's own. */
export async function openContext(browser: Browser, { dark, phone }: Look = {}): Promise<BrowserContext> {
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    colorScheme: dark ? 'dark' : 'light',
    viewport: phone ? { width: 390, height: 844 } : { width: 1360, height: 850 },
    reducedMotion: 'reduce',
    timezoneId: 'UTC',
    locale: 'en-GB',
  });
  open.add(context);
  context.on('weberror', (error) => complaints.push(String(error.error().stack)));
  context.on('console', (message) => {
    // A refused request is shown by the page, and Chromium logs it besides.
    const refused = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !refused) complaints.push(message.text());
  });
  return context;
}

/** Gives the page a security key in software, whose owner answers at once. */
export async function addAuthenticator(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
}

/** The screenshot that docs/page.png shows; `MUSTER_SHOTS=docs` writes that file again. */
const SHOWN = 'fleet';

/** Takes a screenshot of what is on the screen. */
export async function shoot(page: Page, name: string): Promise<void> {
  mkdirSync(SHOTS, { recursive: true });
  const path = join(SHOTS, `${name}.png`);
  await page.screenshot({ path });
  if (name === SHOWN && process.env.MUSTER_SHOTS === 'docs')
    copyFileSync(path, join(projectRoot(), 'docs/page.png'));
}

/** What axe finds against the guidelines WCAG 2.2 (A, AA) and its own best practices. */
export async function barriers(page: Page): Promise<readonly string[]> {
  // The page's CSP allows no script from elsewhere; this one comes from the debugger.
  await page.evaluate(axe.source);
  return page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.flatMap(({ id, help, nodes }) => nodes.map(({ target, failureSummary }) =>
      id + ': ' + help + ': ' + target.join(' ') + ' ' + failureSummary)))`);
}
