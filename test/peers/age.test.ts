/**
 * Exported keys with Debian's age, and the passphrase at a terminal. Needs age, and python3 for the
 * terminal.
 */
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ageDecrypt, ageEncrypt } from '../../src/pki/age.ts';
import { MUSTER_SCOPE } from '../../src/store/keys.ts';
import { DOCUMENTS, openWorld, type World } from '../unit/api/world.ts';

const PASSPHRASE = 'correct horse bättery';

/** Runs a program at a terminal of its own and answers each of its questions with a line. */
const AT_TERMINAL = `
import os, pty, sys
answers = sys.argv[1].split('|')
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
shown = b''
asked = 0
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    shown += part
    if asked < len(answers) and shown.count(b': ') > asked:
        os.write(terminal, answers[asked].encode() + b'\\r')
        asked += 1
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
`;

const run = promisify(execFile);

/** Resolves to what the terminal showed. */
async function atTerminal(answers: readonly string[], command: readonly string[]): Promise<string> {
  const { stdout } = await run('python3', ['-c', AT_TERMINAL, answers.join('|'), ...command], {
    timeout: 120_000,
    env: { ...process.env, MUSTER_SOCKET: world.socket },
  });
  return stdout;
}

let world: World;
beforeEach(async () => {
  world = await openWorld(DOCUMENTS);
});
afterEach(() => world.close());
const at = (name: string): string => path.join(world.directory, name);

test('age opens what Muster exported with a passphrase that was typed, and every key fits its certificate', async () => {
  await world.pki.found('one');
  await world.pki.found(MUSTER_SCOPE);
  const muster = path.resolve('bin/muster');
  const command = [muster, 'pki', 'export', '--all', '-o', at('keys.age')];
  const shown = await atTerminal([PASSPHRASE, PASSPHRASE], command);
  expect(shown).toMatch(/^Passphrase: \r\nThe same again: \r\n/);
  expect(shown).toContain('keys.age has the keys of _muster, one');
  expect(shown).not.toContain(PASSPHRASE);

  await atTerminal([PASSPHRASE], ['age', '-d', '-o', at('keys.tar'), at('keys.age')]);
  const archive = fs.readFileSync(at('keys.tar'));
  expect(archive.equals(await ageDecrypt(fs.readFileSync(at('keys.age')), { passphrase: PASSPHRASE }))).toBe(
    true,
  );
  fs.mkdirSync(at('keys'));
  execFileSync('tar', ['-x', '-f', at('keys.tar'), '-C', at('keys')]);
  const keys = fs.globSync('*/*ca/*.key', { cwd: at('keys') });
  expect(keys).toHaveLength(4);
  for (const key of keys) {
    const file = at(`keys/${key}`);
    const openssl = (...args: string[]) => execFileSync('openssl', args, { encoding: 'utf8' });
    const certificate = file.replace(/\.key$/, '.crt');
    expect(openssl('x509', '-in', certificate, '-noout', '-pubkey')).toBe(
      openssl('pkey', '-in', file, '-pubout'),
    );
  }
}, 180_000);

test('two passphrases that differ, and Ctrl-C, write nothing', async () => {
  await world.pki.found('one');
  const command = [path.resolve('bin/muster'), 'pki', 'export', '--all', '-o', at('keys.age')];
  const shown = (error: { stdout: string }) => error.stdout;
  expect(await atTerminal([PASSPHRASE, 'another passphrase'], command).catch(shown)).toContain(
    'the two answers differ',
  );
  expect(await atTerminal(['\u0003'], command).catch(shown)).toContain('nothing was given');
  expect(fs.existsSync(at('keys.age'))).toBe(false);
});

test.each([1, 64 * 1024, 64 * 1024 + 1])(
  'age opens a file of %i octets',
  async (size) => {
    const octets = Buffer.alloc(size, 'muster');
    fs.writeFileSync(at('file.age'), await ageEncrypt(octets, { passphrase: PASSPHRASE }));
    await atTerminal([PASSPHRASE], ['age', '-d', '-o', at('file'), at('file.age')]);
    expect(fs.readFileSync(at('file')).equals(octets)).toBe(true);
  },
  60_000,
);
