/**
 * `make torture`: one host of the segment floods the boot host for ten minutes, while a documented
 * machine boots again and again. The server's memory must be level at the end, and the machine must
 * not wait. Settings: TORTURE_SECONDS.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { setTimeout as after } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { percentile } from '../bench/compare.ts';
import { BOOT_HOST, Rig, SERVER_MAC, VICTIM_MAC } from '../test/attacks/rig.ts';

const SECONDS = Number(process.env.TORTURE_SECONDS ?? 600);
const PACKETS_PER_SECOND = 2500;
const SAMPLE_MS = 5_000;
/** Resident memory may grow by this much in the second half of the run. */
const MOST_GROWTH = 0.05;
const LONGEST_P99_MS = 50;
/** The documented machine begins a boot this often. */
const BOOT_EVERY_SECONDS = 0.5;

/** The process with this socket in its arguments: the server, without its launcher. */
function serverPid(socket: string): number {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (words.includes(socket) && words.some((word) => word.endsWith('main.ts'))) return Number(pid);
    } catch {
      // The process has ended meanwhile.
    }
  throw new Error(`no process serves ${socket}`);
}

const residentMiB = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;

/** Processor time of the process, seconds. */
function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** How long the main thread was ready to run and got no processor, seconds. */
const waitedSeconds = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e9;

/** Datagrams that the kernel dropped because a socket's buffer was full. */
function droppedByKernel(): number {
  const [names, values] = readFileSync('/proc/net/snmp', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('Udp:'))
    .map((line) => line.split(' '));
  return Number(values![names!.indexOf('RcvbufErrors')]);
}

interface Answer {
  readonly what: string;
  readonly ms: number | null;
}

const jsonLines = <T>(text: string): T[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as T);

test('ten minutes of a flood leave memory level, and a documented machine boots without waiting', {
  timeout: (SECONDS + 120) * 1000,
}, async () => {
  const rig = await Rig.open();
  try {
    const pid = serverPid(rig.muster.socket);
    const commit = String(execFileSync('git', ['rev-parse', 'HEAD'])).trim();
    const resident: number[] = [];
    const load = os.loadavg()[0]!;
    const sampling = new AbortController();
    const samples = (async () => {
      for (; !sampling.signal.aborted; await after(SAMPLE_MS)) resident.push(residentMiB(pid));
    })();
    const [flooded, booted] = await Promise.all([
      rig.in(
        'atk',
        ['python3', 'torture/flood.py', String(SECONDS), String(PACKETS_PER_SECOND), BOOT_HOST, SERVER_MAC],
        SECONDS + 60,
      ),
      rig.in(
        'vic',
        ['python3', 'torture/answers.py', String(SECONDS), String(BOOT_EVERY_SECONDS), BOOT_HOST, VICTIM_MAC],
        SECONDS + 60,
      ),
    ]);
    sampling.abort();
    await samples;
    expect([flooded.code, booted.code], flooded.output + booted.output).toEqual([0, 0]);
    const [flood] = jsonLines<{ packets: number; connections: number }>(flooded.output);
    const answers = jsonLines<Answer>(booted.output);
    const spans = (what: string) =>
      answers.filter((one) => one.what === what).map(({ ms }) => ms ?? Number.POSITIVE_INFINITY);
    const middle = resident.length >> 1;
    // A sixth of the half at each end, so that one garbage collection does not decide.
    const part = Math.max(1, Math.round(resident.length / 12));
    const median = (values: readonly number[]) => percentile(values, 0.5);
    const before = median(resident.slice(middle, middle + part));
    const atEnd = median(resident.slice(-part));
    const result = {
      commit,
      seconds: SECONDS,
      packetsPerSecond: Math.round(flood!.packets / SECONDS),
      droppedByKernel: droppedByKernel(),
      connectionsOpened: flood!.connections,
      serverProcessorSeconds: Math.round(processorSeconds(pid)),
      serverWaitedForProcessorSeconds: Math.round(waitedSeconds(pid)),
      processors: os.cpus().length,
      loadBefore: load,
      loadAfter: os.loadavg()[0],
      residentMiB: resident.map(Math.round),
      growthInSecondHalf: atEnd / before - 1,
      answers: Object.fromEntries(
        ['DISCOVER', 'REQUEST', 'script'].map((what) => {
          const all = spans(what);
          const lost = all.filter((ms) => !Number.isFinite(ms)).length;
          const [p50, p99] = [0.5, 0.99].map((part) => percentile(all, part));
          return [what, { count: all.length, lost, p50Ms: p50, p99Ms: p99 }];
        }),
      ),
    };
    mkdirSync('lab/results', { recursive: true });
    writeFileSync('lab/results/torture-flood.json', `${JSON.stringify(result, undefined, 2)}\n`);
    expect(spans('boot').length).toBeGreaterThan(0);
    expect(flood!.packets / SECONDS).toBeGreaterThan(0.9 * PACKETS_PER_SECOND);
    expect(result.growthInSecondHalf).toBeLessThan(MOST_GROWTH);
    for (const what of ['DISCOVER', 'REQUEST', 'script'])
      expect(percentile(spans(what), 0.99), JSON.stringify(result.answers)).toBeLessThan(LONGEST_P99_MS);
  } finally {
    await rig.close();
  }
});
