/** scripts/hooks/commit-msg, as git calls it. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

/** What the hook says about a message; empty when it accepts it. */
function said(message: string): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-hook-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true }));
  const file = path.join(directory, 'COMMIT_EDITMSG');
  fs.writeFileSync(file, message);
  const { status, stderr } = spawnSync('scripts/hooks/commit-msg', [file], { encoding: 'utf8' });
  expect(status).toBe(stderr === '' ? 0 : 1);
  return stderr;
}

const TITLE = 'é'.repeat(72);

test('a title of 72 characters is accepted, also with a body and what git adds as comments', () => {
  expect(said(`${TITLE}\n`)).toBe('');
  expect(
    said(
      `# a comment\n\n${TITLE}\n\nThe reason, in a line that may be as long as it is, since only titles count.\n`,
    ),
  ).toBe('');
  expect(said(`${TITLE}\n# ------------------------ >8 ------------------------\ndiff --git a/x b/x\n`)).toBe(
    '',
  );
});

test('a longer title is refused with how much is too long, and a body right below it as well', () => {
  expect(said(`${TITLE}ab\n`)).toContain('has 74 characters, 2 too many');
  expect(said('Title\nbody\n')).toContain('Leave the line below the title empty');
});

test('titles that git writes are accepted whatever their length', () => {
  for (const word of ['fixup! ', 'Merge ', 'Revert ']) expect(said(`${word}${TITLE}\n`)).toBe('');
});
