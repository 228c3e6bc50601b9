/**
 * `make torture`: an operator at the page, in Chromium, and a machine with real firmware in QEMU.
 * No document knows the machine. It appears on the page, is accepted there, and boots until it is
 * ready. The browser is outside the rack's namespace, as an operator's browser is in `make demo`.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { afterPages, barriers, openBrowser, openContext, shoot } from '../test/page/browser.ts';
import { firstLogIn } from '../test/page/server.ts';

/** Emulated machines boot in minutes, and they may share the processors with others. */
const BOOT_MS = 1_200_000;

let browser: Browser;
beforeAll(async () => {
  browser = await openBrowser();
});
afterEach(({ task }) => afterPages(task.result?.state === 'fail'));
afterAll(() => browser?.close());

/** Starts the rack of page.yaml, which runs until Ctrl-C. */
function startRack() {
  const words = ['lab', 'run', '--keep', '--page', '0', 'torture/page.yaml'];
  // A process group of its own, since Ctrl-C reaches the whole group.
  const run = spawn('bin/muster', words, { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  let running = true;
  let look = () => {};
  run.stderr.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    look();
  });
  const ended = new Promise<number | null>((resolve) =>
    run.once('close', (code) => {
      running = false;
      resolve(code);
      look();
    }),
  );
  return {
    /** Resolves with what it printed that matches; rejects when it ends before. */
    says: (pattern: RegExp): Promise<string> =>
      new Promise((resolve, reject) => {
        look = () => {
          const found = pattern.exec(text);
          if (found) resolve(found[0]);
          else if (!running) reject(new Error(`the rack has ended:\n${text.slice(-5000)}`));
        };
        look();
      }),
    /** Presses Ctrl-C; resolves with the exit code. */
    interrupt: (): Promise<number | null> => {
      if (running) process.kill(-run.pid!, 'SIGINT');
      return ended;
    },
  };
}

test('an operator accepts a machine that has just appeared on the page, and it boots until it is ready', {
  timeout: 2 * BOOT_MS,
}, async () => {
  const began = Date.now();
  const seconds: Record<string, number> = {};
  const note = (what: string): void => {
    seconds[what] = Math.round((Date.now() - began) / 1000);
  };
  const rack = startRack();
  let accel = '';
  try {
    const link = await rack.says(/https:\/\/127\.0\.0\.1:\d+\/#invitation=\S+/);
    accel = await rack.says(/KVM|emulation/);
    const context = await openContext(browser);
    context.setDefaultTimeout(BOOT_MS);
    const page = await firstLogIn(context, link);
    await page
      .getByRole('navigation')
      .getByRole('link', { name: /^Register/ })
      .click();
    const form = page.getByRole('form', { name: /^Accept m-/ });
    await form.waitFor();
    note('theMachineAppears');
    await shoot(page, 'rack-register');
    expect(await barriers(page)).toEqual([]);
    expect(await rack.says(/page: .* expectations .*/)).toContain('all 2 expectations held');
    await form.getByLabel('Name').fill('newcomer');
    await form.getByLabel('Profile').selectOption('worker');
    await form.getByRole('button', { name: 'Accept' }).click();
    note('itIsAccepted');
    await page.getByText('No unknown machine has asked').waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Fleet' }).click();
    await page.getByRole('link', { name: 'newcomer' }).waitFor();
    await page.getByText('ready', { exact: true }).waitFor();
    note('itIsReady');
    await shoot(page, 'rack-fleet');
    expect(await barriers(page)).toEqual([]);
    await page.getByRole('link', { name: 'newcomer' }).click();
    await page.getByText('Everything that was heard').waitFor({ state: 'attached' });
    await shoot(page, 'rack-timeline');
    expect(await barriers(page)).toEqual([]);
    expect(await rack.interrupt()).toBe(0);
  } finally {
    await rack.interrupt();
  }
  const result = {
    commit: String(execFileSync('git', ['rev-parse', 'HEAD'])).trim(),
    qemu: String(execFileSync('qemu-system-x86_64', ['--version'])).split('\n')[0],
    accel,
    processors: availableParallelism(),
    secondsUntil: seconds,
  };
  mkdirSync('lab/results', { recursive: true });
  writeFileSync('lab/results/torture-page.json', `${JSON.stringify(result, undefined, 2)}\n`);
});
