/**
 * `make torture`: cuts the power of a boot host in QEMU repeatedly under load, with a disk that
 * loses what was not flushed. After every cut the guest starts from that disk and must have every
 * commit that it had printed on its console as acknowledged. The same is done with a store that
 * does not sync: its losses must be found, otherwise the test proves nothing.
 */
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { GuestConsole } from './console.ts';
import { CUTS, type CutReport, VolatileDisk } from './disk.ts';
import { type DiskServer, serveDisk } from './nbd.ts';

const run = promisify(execFile);
const PROJECT = new URL('../', import.meta.url).pathname;
const RESULT = join(PROJECT, 'lab/results/torture-store.json');
const DISK_BYTES = 128 * 1024 * 1024;
const ROUNDS = 20;
/** How many cuts the broken store gets to lose something. */
const CONTROL_ROUNDS = 4;
/** An emulated guest that prints nothing for this long is stuck. */
const SILENCE_MS = 90_000;
/** Every fourth cut comes within this time after the store begins to open. */
const OPENING_MS = 2000;
/** The other cuts come within this time after the load begins. */
const LOAD_MS = [200, 5000] as const;
/** The cut then waits until up to this many writes are not flushed, so that some can be lost. */
const MAX_UNFLUSHED = 12;
/** The longest wait for unflushed writes. */
const UNFLUSHED_WITHIN_MS = 2000;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

interface Guest {
  readonly kernel: string;
  readonly initrd: string;
  readonly accel: string;
}

interface Round {
  readonly round: number;
  readonly cutDuring: 'opening' | 'load';
  readonly cutAfterMs: number;
  /** Commits that the guest had printed as acknowledged before this cut. */
  readonly acknowledged: number;
  /** How many of the commits acknowledged before this boot were missing. */
  readonly missing: number;
  readonly faults: readonly string[];
  readonly disk: CutReport;
}

interface Campaign {
  readonly rounds: readonly Round[];
  readonly acknowledged: number;
  readonly missing: number;
  readonly faults: number;
  readonly flushes: number;
}

/**
 * A random generator whose seed is printed. What the cuts do to the disk can be repeated with it;
 * the guest's own timing cannot.
 */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Stopping the run stops its QEMU, which would otherwise keep running. */
const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort());

/** The image of an empty ext4, made by mkfs. */
async function freshDisk(): Promise<VolatileDisk> {
  const directory = await mkdtemp(join(tmpdir(), 'muster-torture-'));
  const file = join(directory, 'disk');
  await writeFile(file, '');
  await truncate(file, DISK_BYTES);
  await run('mkfs.ext4', ['-q', '-F', file], {
    env: { ...process.env, PATH: `${process.env.PATH}:/sbin:/usr/sbin` },
  });
  const disk = new VolatileDisk(await readFile(file));
  await rm(directory, { recursive: true });
  return disk;
}

/** One boot of the guest: powers on, waits for the moment, cuts the power. */
async function boot(
  guest: Guest,
  disk: VolatileDisk,
  synchronous: 'FULL' | 'OFF',
  until: (console: GuestConsole, server: DiskServer) => Promise<void>,
): Promise<GuestConsole> {
  const directory = await mkdtemp(join(tmpdir(), 'muster-torture-'));
  const socket = join(directory, 'disk.sock');
  const server = await serveDisk(disk, socket);
  const qemu = spawn(
    'qemu-system-x86_64',
    [
      ...['-accel', guest.accel, '-cpu', guest.accel === 'kvm' ? 'host' : 'max', '-smp', '2', '-m', '1024'],
      ...['-nodefaults', '-display', 'none', '-no-reboot', '-serial', 'stdio'],
      ...['-kernel', guest.kernel, '-initrd', guest.initrd],
      ...['-append', `console=ttyS0 quiet loglevel=3 panic=1 torture.synchronous=${synchronous}`],
      ...['-blockdev', `driver=nbd,node-name=disk,server.type=unix,server.path=${socket}`],
      ...['-device', 'virtio-blk-pci,drive=disk,write-cache=on'],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], signal: stopping.signal, killSignal: 'SIGKILL' },
  );
  const console = new GuestConsole(SILENCE_MS);
  qemu.on('error', (error) => console.end(`QEMU: ${error.message}`));
  let complaints = '';
  qemu.stdout.setEncoding('utf8').on('data', (text: string) => console.take(text));
  qemu.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  const closed = new Promise<void>((resolve) => {
    qemu.once('close', () => {
      console.end(`QEMU ended. ${complaints}`);
      resolve();
    });
  });
  try {
    await until(console, server);
  } finally {
    // The disk is cut first, so that nothing that the guest still sends reaches it. Everything that
    // the guest had printed by then counts.
    await server.close();
    qemu.kill('SIGKILL');
    await closed;
    await rm(directory, { recursive: true });
  }
  return console;
}

/** Freezes the disk during the write that makes `count` writes unflushed, or after a while. */
async function midWrite(disk: VolatileDisk, server: DiskServer, count: number): Promise<void> {
  const reached = new Promise<void>((resolve) => {
    disk.alarm(count, () => {
      server.freeze();
      resolve();
    });
  });
  await Promise.race([reached, sleep(UNFLUSHED_WITHIN_MS)]);
}

/** Cuts the power `count` times and checks the store after each cut; the last boot only checks. */
async function campaign(
  guest: Guest,
  synchronous: 'FULL' | 'OFF',
  count: number,
  random: () => number,
  enough: (rounds: readonly Round[]) => boolean = () => false,
): Promise<Campaign> {
  const disk = await freshDisk();
  const named = new Map<number, number>();
  const rounds: Round[] = [];
  for (let round = 1; round <= count + 1; round++) {
    const cutDuring = round <= count && round % 4 === 0 ? 'opening' : 'load';
    const [least, most] = cutDuring === 'opening' ? [0, OPENING_MS] : LOAD_MS;
    const cutAfterMs = round <= count ? Math.round(least + random() * (most - least)) : 0;
    const console = await boot(guest, disk, synchronous, async (console, server) => {
      await console.until(cutDuring);
      await console.orEnd(sleep(cutAfterMs));
      if (round <= count)
        await console.orEnd(midWrite(disk, server, 1 + Math.floor(random() * MAX_UNFLUSHED)));
    });
    const missing = console.opened ? console.missing(named) : 0;
    const lost = disk.powerCut(CUTS[(round + Math.floor(round / CUTS.length)) % CUTS.length]!, random);
    const acknowledged = console.acknowledged(named);
    rounds.push({ round, cutDuring, cutAfterMs, acknowledged, missing, faults: console.faults, disk: lost });
    say(
      `  ${round > count ? 'end' : `cut ${round}`}: ${missing} missing, ${console.faults.length} faults; ` +
        `${acknowledged} acknowledged, ${lost.unflushedWrites} writes not flushed (${lost.cut})`,
    );
    if (enough(rounds)) break;
  }
  const sum = (of: (round: Round) => number) => rounds.reduce((total, round) => total + of(round), 0);
  return {
    rounds,
    acknowledged: sum((round) => round.acknowledged),
    missing: sum((round) => round.missing),
    faults: sum((round) => round.faults.length),
    flushes: disk.flushes,
  };
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: `${ROUNDS}` },
      seed: { type: 'string', default: '20261120' },
      accel: { type: 'string', default: 'tcg' },
    },
  });
  const seed = Number(values.seed);
  const directory = join(PROJECT, (await run(join(PROJECT, 'torture/guest.sh'))).stdout.trim());
  const guest = {
    kernel: join(directory, 'kernel'),
    initrd: join(directory, 'initrd'),
    accel: values.accel,
  };
  const started = Date.now();
  say(`the store, power cut ${values.rounds} times, seed ${seed}`);
  const store = await campaign(guest, 'FULL', Number(values.rounds), generator(seed));
  say('the same without syncing, which must lose something');
  const broken = (rounds: readonly Round[]) =>
    rounds.some((round) => round.missing > 0 || round.faults.length > 0);
  const control = await campaign(guest, 'OFF', CONTROL_ROUNDS, generator(seed), broken);
  const ok = store.missing === 0 && store.faults === 0 && store.acknowledged > 0 && broken(control.rounds);
  const qemu = (await run('qemu-system-x86_64', ['--version'])).stdout.split('\n')[0];
  const result = {
    about:
      'make torture: a boot host in QEMU, power cut under load; its disk loses what was not flushed. `store` is the shipped one; `control` has synchronous=OFF and must be caught.',
    ok,
    at: new Date(started).toISOString().slice(0, 16),
    seconds: Math.round((Date.now() - started) / 1000),
    seed,
    qemu,
    accel: values.accel,
    store,
    control: { ...control, caught: broken(control.rounds) },
  };
  await mkdir(join(RESULT, '..'), { recursive: true });
  await writeFile(RESULT, `${JSON.stringify(result, null, 2)}\n`);
  say(
    `${store.rounds.length - 1} cuts, ${store.acknowledged} commits acknowledged, ${store.missing} missing, ${store.faults} faults; ` +
      `broken store ${result.control.caught ? 'caught' : 'NOT CAUGHT'}; ${ok ? 'ok' : 'FAILED'}`,
  );
  return ok ? 0 : 1;
}

process.exitCode = await main();
