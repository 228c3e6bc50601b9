/**
 * The reporting script, run by the shells that machines have, with a server that answers as Muster
 * does.
 */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { withoutComments } from '../../../src/base/script-text.files.ts';
import { REPORT_SCRIPT_PATH } from '../../../src/ignition/muster-layer.ts';
import * as texts from '../../../src/ignition/report/scripts.files.ts';

const DIRECTORY = path.join(import.meta.dirname, '../../../src/ignition/report');
const SCRIPT = path.join(DIRECTORY, 'muster-report.sh');

test('configurations contain the script and units of the files', () => {
  const read = (name: string) => fs.readFileSync(path.join(DIRECTORY, name), 'utf8');
  expect(texts.REPORT_SCRIPT).toBe(
    withoutComments('src/ignition/report/muster-report.sh', read('muster-report.sh')),
  );
  expect(texts.CONFIGURED_UNIT).toBe(read('muster-configured.service'));
  expect(texts.READY_UNIT).toBe(read('muster-ready.service'));
  expect(texts.FAILED_UNIT).toBe(read('muster-failed.service'));
  for (const unit of [texts.CONFIGURED_UNIT, texts.READY_UNIT, texts.FAILED_UNIT])
    expect(unit).toContain(`ExecStart=/bin/sh ${REPORT_SCRIPT_PATH} `);
});

let directory: string;
let server: http.Server;
let answers: number[];
let got: { url: string; form: Record<string, string> }[];

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-report-'));
  answers = [];
  got = [];
  server = http.createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      got.push({
        url: request.url!,
        form: Object.fromEntries(new URLSearchParams(Buffer.concat(parts).toString())),
      });
      response.writeHead(answers.shift() ?? 204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  fs.writeFileSync(
    path.join(directory, 'cmdline'),
    `quiet muster.url=http://127.0.0.1:${port}/boot/S_-1 a=* BOOTIF=01-52\n`,
  );
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
  fs.rmSync(directory, { recursive: true });
});

/**
 * Runs the script; resolves to its exit status and output. `only` names commands that it finds in
 * addition to the usual ones.
 */
function run(shell: readonly string[], args: readonly string[], env: Record<string, string> = {}) {
  return new Promise<{ status: number; said: string }>((resolve) => {
    execFile(
      shell[0]!,
      [...shell.slice(1), SCRIPT, ...args],
      {
        env: {
          PATH: process.env.PATH,
          MUSTER_CMDLINE: path.join(directory, 'cmdline'),
          MUSTER_NOTES: path.join(directory, 'failed'),
          MUSTER_CLOUD_RESULT: path.join(directory, 'result.json'),
          MUSTER_TRIES: '3',
          MUSTER_PAUSE: '0',
          http_proxy: 'http://127.0.0.1:9/',
          ...env,
        },
        timeout: 20_000,
      },
      (error, stdout, stderr) =>
        resolve({ status: (error?.code as number | undefined) ?? 0, said: stdout + stderr }),
    );
  });
}

const SHELLS: [string, string[]][] = [
  ['dash', ['dash']],
  ['bash', ['bash', '--posix']],
  ['busybox', ['busybox', 'sh']],
];

test.each(SHELLS)('%s reports a step to the session that the kernel command line names', async (_, shell) => {
  expect(await run(shell, ['kernel', 'initrd'])).toEqual({ status: 0, said: '' });
  expect(got).toEqual([{ url: '/boot/S_-1/report', form: { step: 'kernel', detail: 'initrd' } }]);
});

test.each(SHELLS)('%s sends any text unchanged', async (_, shell) => {
  const log = 'grün & = % + \n"\'`$(x)\\ \t~*\n';
  fs.writeFileSync(path.join(directory, 'log'), log);
  await run(shell, ['failed', 'a b & c=d', path.join(directory, 'log')]);
  expect(got[0]?.form).toEqual({ step: 'failed', detail: 'a b & c=d', log: log.trimEnd() });
});

test('the last 16 KiB of a long log are sent', async () => {
  fs.writeFileSync(path.join(directory, 'log'), `${'x'.repeat(50_000)}END`);
  await run(['dash'], ['failed', 'why', path.join(directory, 'log')]);
  expect(got[0]?.form.log).toHaveLength(16384);
  expect(got[0]?.form.log).toMatch(/END$/);
});

test('it tries again while the server is not ready, after the delay that the server named', async () => {
  answers = [503, 500, 204];
  expect((await run(['dash'], ['kernel'])).status).toBe(0);
  expect(got).toHaveLength(3);
  answers = [503, 503, 503, 204];
  const gaveUp = await run(['dash'], ['kernel']);
  expect(gaveUp.status).toBe(1);
  expect(gaveUp.said).toContain('could not reach');
  expect(got).toHaveLength(6);
});

test.each(SHELLS)(
  '%s notes on an installed system that a report was believed, and no other',
  async (_, shell) => {
    const reported = path.join(directory, 'reported');
    answers = [409];
    await run(shell, ['ready'], { MUSTER_REPORTED: reported });
    expect(fs.existsSync(reported)).toBe(false);
    answers = [204];
    await run(shell, ['ready'], { MUSTER_REPORTED: reported });
    expect(fs.existsSync(reported)).toBe(true);
  },
);

test('it does not try again when its session is over', async () => {
  answers = [404];
  const result = await run(['dash'], ['kernel']);
  expect(result).toEqual({
    status: 0,
    said: "muster-report: the server does not take 'kernel' for this boot session\n",
  });
  expect(got).toHaveLength(1);
});

test('with wget instead of curl it reports the same', async () => {
  const bin = path.join(directory, 'bin');
  fs.mkdirSync(bin);
  for (const tool of ['cat', 'od', 'tr', 'sed', 'sleep', 'dirname', 'tail', 'sh', 'wget'])
    fs.symlinkSync('/bin/busybox', path.join(bin, tool));
  expect(await run(['/bin/busybox', 'sh'], ['kernel', 'a b'], { PATH: bin })).toEqual({
    status: 0,
    said: '',
  });
  expect(got[0]?.form).toEqual({ step: 'kernel', detail: 'a b' });
});

test('without a session on the kernel command line it reports nothing and succeeds', async () => {
  fs.writeFileSync(path.join(directory, 'cmdline'), 'quiet\n');
  const result = await run(['dash'], ['kernel']);
  expect(result.status).toBe(0);
  expect(result.said).toContain('nobody to report to');
});

test('a step that does not exist is a usage error', async () => {
  expect((await run(['dash'], ['done'])).status).toBe(2);
  expect((await run(['dash'], [])).status).toBe(2);
  expect(got).toEqual([]);
});

/** A cloud-init that prints `status`, as the real versions 22.4 and 25.1 do. */
function cloudInit(status: string): string {
  const bin = path.join(directory, 'bin');
  fs.mkdirSync(bin);
  fs.writeFileSync(path.join(bin, 'cloud-init'), `#!/bin/sh\ncat <<'END'\n${status}\nEND\n`, { mode: 0o755 });
  return `${bin}:${process.env.PATH}`;
}

test('configured is not reported when cloud-init failed; failed then says why', async () => {
  const PATH = cloudInit(
    "status: error\nboot_status_code: enabled-by-generator\ndetail:\n('scripts_user', RuntimeError())",
  );
  expect((await run(['dash'], ['configured'], { PATH })).status).toBe(1);
  expect(got).toEqual([]);
  await run(['dash'], ['failed', '', '/dev/null'], { PATH });
  expect(got[0]?.form).toMatchObject({
    step: 'failed',
    detail: "cloud-init failed: detail: ('scripts_user', RuntimeError())",
  });
});

/** The result file that cloud-init writes when its last stage has ended. */
function cloudResult(errors: readonly string[]): void {
  const v1 = { datasource: 'DataSourceNoCloudNet [seed=/proc/cmdline]', errors };
  fs.writeFileSync(path.join(directory, 'result.json'), `${JSON.stringify({ v1 }, undefined, 1)}\n`);
}

test('cloud-init is not run when its result file has no errors, because that takes ten seconds on a slow machine', async () => {
  const PATH = cloudInit('status: error');
  cloudResult([]);
  expect((await run(['dash'], ['configured'], { PATH })).status).toBe(0);
  expect(got[0]?.form.step).toBe('configured');
});

test('configured is not reported when cloud-init’s result file has errors', async () => {
  const PATH = cloudInit("status: error\nerrors:\n- ('scripts_user', RuntimeError())");
  cloudResult(["('scripts_user', RuntimeError())"]);
  expect((await run(['dash'], ['configured'], { PATH })).status).toBe(1);
  expect(got).toEqual([]);
});

test.each(['status: done', 'status: running', 'status: done\nextended_status: degraded done'])(
  'configured is reported when cloud-init says %j',
  async (status) => {
    const PATH = cloudInit(status);
    expect((await run(['dash'], ['configured'], { PATH })).status).toBe(0);
    expect(got[0]?.form.step).toBe('configured');
  },
);

/** A directory with busybox's tools and programs that print what the kernel and systemd said. */
function machineTools(): string {
  const bin = path.join(directory, 'bin');
  fs.mkdirSync(bin);
  const tools = 'sh cat od tr sed sleep tail head awk sort cut wc ls mv rm mkdir grep timeout wget';
  for (const tool of tools.split(' ')) fs.symlinkSync('/bin/busybox', path.join(bin, tool));
  for (const program of ['dmesg', 'journalctl'])
    fs.writeFileSync(path.join(bin, program), `#!/bin/sh\ncat '${directory}/${program}'\n`, { mode: 0o755 });
  return bin;
}

test('new lines of kernel and journal are sent once, by their times and without the session', async () => {
  const spool = path.join(directory, 'console');
  const env = { PATH: machineTools(), MUSTER_CONSOLE: spool };
  const cmdline = fs.readFileSync(path.join(directory, 'cmdline'), 'utf8').trim();
  const print = (dmesg: string, journalctl: string) => {
    fs.writeFileSync(path.join(directory, 'dmesg'), dmesg);
    fs.writeFileSync(path.join(directory, 'journalctl'), journalctl);
  };
  print(`[    0.000000] Linux\n[    0.000000] ${cmdline}\n[    9.500000] last\n`, '');
  expect(await run(['/bin/dash'], ['console'], env)).toEqual({ status: 0, said: '' });
  expect(got).toHaveLength(1);
  expect(got[0]).toMatchObject({ url: '/boot/S_-1/console' });
  expect(got[0]!.form.boot).toBe(fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
  expect(got[0]!.form.lines).toBe(
    '[    0.000000] Linux\n[    0.000000] quiet muster.url=[hidden] a=* BOOTIF=01-52\n[    9.500000] last',
  );
  // What is not taken stays, and comes again before anything newer.
  print(
    '[    9.500000] last\n[   12.000000] newer\n',
    '[   10.000000] host systemd[1]: Started a\n   and more\n',
  );
  answers = [503];
  expect((await run(['/bin/dash'], ['console'], env)).status).toBe(1);
  print('[    9.500000] last\n[   12.000000] newer\n', '');
  expect((await run(['/bin/dash'], ['console'], env)).status).toBe(0);
  expect(got.slice(1).map(({ form }) => form.lines)).toEqual(
    Array(2).fill(
      '[   10.000000] host systemd[1]: Started a\n[   10.000000]    and more\n[   12.000000] newer',
    ),
  );
  expect(fs.readdirSync(spool)).toEqual(['kernel']);
});

test('of many lines the first and the last are sent, in parts that fit into a request', async () => {
  const env = { PATH: machineTools(), MUSTER_CONSOLE: path.join(directory, 'console') };
  const lines = Array.from({ length: 6000 }, (_, n) => `[${String(n).padStart(5)}.000000] ${'x'.repeat(60)}`);
  fs.writeFileSync(path.join(directory, 'dmesg'), `${lines.join('\n')}\n`);
  fs.writeFileSync(path.join(directory, 'journalctl'), '');
  expect((await run(['/bin/dash'], ['spool'], env)).status).toBe(0);
  const parts = fs.readdirSync(env.MUSTER_CONSOLE).filter((name) => name.startsWith('part'));
  const texts = parts.map((name) => fs.readFileSync(path.join(env.MUSTER_CONSOLE, name), 'utf8'));
  for (const text of texts) expect(text.length).toBeLessThanOrEqual(15_000);
  const sent = texts.join('').trimEnd().split('\n');
  expect(sent[0]).toBe(lines[0]);
  expect(sent).toContain('[lines were left out here]');
  expect(sent.at(-1)).toBe(lines.at(-1));
  expect(got).toEqual([]);
});
