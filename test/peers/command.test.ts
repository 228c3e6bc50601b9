/** The command as a process, for behaviour that only a shell sees. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = path.join(import.meta.dirname, '../..');

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function shell(script: string, env: Record<string, string> = {}): Promise<Ended> {
  const child = spawn('bash', ['-c', `set -o pipefail; ${script}`], {
    cwd: ROOT,
    env: { PATH: process.env.PATH!, HOME: '/nonexistent', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text;
    });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => resolve({ status, ...said }));
  });
}

/** Concurrent, because most tests wait for processes to start and some for time to pass. */
describe.concurrent('bin/muster', () => {
  it('the command runs from any directory, through a link, and without a home directory', async () => {
    expect((await shell(`cd / && '${ROOT}/bin/muster' version --socket /nowhere`)).stdout).toMatch(
      /^muster [0-9.]+\n$/,
    );
    const linked = await shell(
      `d=$(mktemp -d) && ln -s '${ROOT}/bin/muster' "$d/m" && "$d/m" version --socket /nowhere; rm -r "$d"`,
    );
    expect(linked.stdout).toMatch(/^muster [0-9.]+\n$/);
  });

  it('the command ends without a message when the reader of its output closes the pipe', async () => {
    const { status, stdout, stderr } = await shell('bin/muster explain profile.config | head -n 1');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toBe('KIND:    Profile\n');
  });

  it('the command reports output that cannot be written', async () => {
    expect(await shell('bin/muster explain profile.config > /dev/full')).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^muster: standard output: ENOSPC.* \(E_OUTPUT\)\n {2}Free space.*\n$/),
    });
    expect((await shell('bin/muster nonsense 2> /dev/full')).status).toBe(1);
  });

  it.for([
    ['muster aply', "unknown command 'aply'; did you mean apply?", 'muster'],
    ['muster get machines --wat', "unknown option '--wat'", 'muster get'],
    ['muster apply', "required option '-f, --filename <path>' not specified", 'muster apply'],
    ['muster get machines -o xml', "option '-o, --output <format>' argument 'xml' is invalid", 'muster get'],
    ['muster machine add', "missing required argument 'mac'", 'muster machine add'],
  ] as const)(
    '%s gets an error with its reason, its code and where to look',
    async ([command, why, help]) => {
      const { status, stdout, stderr } = await shell(`bin/${command}`);
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      const [first, ...rest] = stderr.split('\n');
      expect(first).toContain(`muster: ${why}`);
      expect(first).toMatch(/ \(E_USAGE\)$/);
      expect(rest).toEqual([`  See \`${help} --help\`.`, '']);
    },
  );

  it('data go to standard output and messages to standard error', async () => {
    expect((await shell('bin/muster get machines --socket /nowhere/s 2>/dev/null')).stdout).toBe('');
    expect((await shell('bin/muster validate test/unit 2>/dev/null')).stdout).toBe('');
  });

  it.for([
    ['muster', 2],
    ['muster nonsense', 2],
    ['muster get', 2],
    ['muster get machines --socket /nowhere/s', 1],
    ['muster diff -f /nowhere', 2],
    ['muster serve --http-port x --interface lo', 2],
    ['muster serve --http-port x --help', 0],
    ['muster serve --log-level loud --interface lo --help', 0],
    ['muster version --socket /nowhere/s', 0],
  ] as const)('%s exits with %i', async ([command, code]) => {
    expect((await shell(`bin/${command} </dev/null`)).status).toBe(code);
  });

  it('NO_COLOR turns colours off, even when FORCE_COLOR is set', async () => {
    const file = `<(printf 'apiVersion: muster/v1\\nkind: Profile\\nmetadata: {name: p}\\nspec: {}\\n')`;
    expect(
      (await shell(`bin/muster validate -f ${file}`, { NO_COLOR: '1', FORCE_COLOR: '1' })).stdout,
    ).not.toContain('\x1b');
  });

  it.for(['-f /dev/zero', '-f - < /dev/zero', '-f - < <(cat /dev/zero)'])(
    'input that never ends is refused once it is longer than allowed: %s',
    { timeout: 120_000 },
    async (source) => {
      expect(await shell(`timeout 100 bin/muster validate ${source}`)).toMatchObject({
        status: 1,
        stderr: expect.stringMatching(/^(\/dev\/zero|stdin):1:1: 3\d{7} octets; at most .* \(E_YAML\)/),
      });
    },
  );

  it.for([
    ['a pipe that nobody writes to', 'exec bin/muster validate -f "$d/pipe"'],
    ['a pipe that is kept open', 'exec 9<>"$d/pipe"; exec bin/muster validate -f "$d/pipe"'],
    ['standard input that says nothing', 'exec 9<>"$d/pipe"; exec bin/muster validate -f - <&9'],
  ] as const)('can be ended while it waits for %s', async ([, command]) => {
    const { status, stderr } = await shell(
      `d=$(mktemp -d); trap 'rm -r "$d"' EXIT; mkfifo "$d/pipe"; (${command}) & sleep 1; kill -TERM $!; wait $!`,
    );
    expect({ status, stderr }).toEqual({ status: 143, stderr: '' });
  });

  it('what the command prints on a terminal cannot steer it, and a program gets every octet', async () => {
    // A word of an unknown command comes back in the message.
    const word = "$'x\\e]0;title\\a\\u202ey'";
    const piped = await shell(`bin/muster ${word}`, { LC_ALL: 'C.UTF-8' });
    expect(piped.stderr).toMatch(/\x1b\]0;title\x07\u202e/);
    const shown = await shell(`w=${word} script -qec 'bin/muster "$w"' /dev/null`, {
      TERM: 'xterm',
      LC_ALL: 'C.UTF-8',
    });
    expect(shown.stdout).toContain('xy');
    expect(shown.stdout).not.toMatch(/\u202e|\x1b\]/);
  });

  it('the command waits for the writer of a pipe', async () => {
    const document = 'apiVersion: muster/v1\\nkind: Profile\\nmetadata: {name: p}\\nspec: {}\\n';
    const { stdout } = await shell(
      `d=$(mktemp -d); trap 'rm -r "$d"' EXIT; mkfifo "$d/pipe"; bin/muster validate -f "$d/pipe" & sleep 0.5; printf '${document}' > "$d/pipe"; wait $!`,
    );
    expect(stdout).toBe('valid: 1 document in 1 file\n');
  });

  it('standard input that is not UTF-8 is refused', async () => {
    expect((await shell(`printf 'kind: f\\374r' | bin/muster validate -f -`)).stderr).toMatch(
      /^stdin:1:8: not UTF-8; .* \(E_YAML\)/,
    );
  });

  it('documents are read from standard input', async () => {
    const document = 'apiVersion: muster/v1\\nkind: Profile\\nmetadata: {name: p}\\nspec: {}\\n';
    expect((await shell(`printf '${document}' | bin/muster validate -f -`)).stdout).toBe(
      'valid: 1 document in 1 file\n',
    );
    expect((await shell(`printf 'kind: [' | bin/muster validate -f -`)).stderr).toMatch(
      /^stdin:1:\d+: .*\(E_YAML\)/,
    );
  });
});
