/**
 * A boot host, machines and time servers whose clocks are right or wrong at any moment: the host's
 * own judgement, the keys and certificates that it really issues, and the agent's own rule in the
 * shell. As long as most machines are right, no certificate in force is wrong, and no right clock
 * is moved.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { CONTRADICTS, judgeClock } from '../../../src/base/clock-judge.ts';
import { duration, type Millis } from '../../../src/base/duration.ts';
import { HostClock } from '../../../src/base/host-clock.ts';
import { type Certificates, openCertificates } from '../../../src/cluster/plan/certificates.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { openPki, type Pki } from '../../../src/pki/pki.ts';
import type { IssuedCertificate } from '../../../src/pki/records.ts';
import { newVaultKey, vaultFrom } from '../../../src/pki/vault.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { GOLDEN } from '../pki/kit.ts';
import { casesOf } from './change/cases.ts';

const DAY = duration('1d');
const KEY = await PrivateKey.generate();
const VAULT = vaultFrom(newVaultKey(), 'test');
const SCRIPT = path.resolve('src/agent/scripts/muster-clock.sh');

/** What the agent's rule does with the boot host's time: the time of the machine afterwards. */
function followed(own: number, host: number, moved: number, certificate: IssuedCertificate): number {
  const program = `
    setting() { setting=set; }
    say() { :; }
    first_line() { first_line=$moved; }
    mkdir() { :; }
    stat() { echo "$since"; }
    openssl() { echo "notAfter=$end"; }
    date() { case $1 in +%s) echo "$own" ;; -s) echo "\${2#@}" >&2 ;; esac; }
    run=$5 identity=$5 own=$1 moved=$3 since=$4 end=$6
    . "$7"
    follow_time "$2"`;
  const end = new Date(certificate.notAfter).toUTCString();
  const [, day, month, year, time] = /, (\d+) (\w+) (\d+) ([\d:]+)/.exec(end)!;
  const words = [own, host, Math.round(moved), Math.floor(certificate.issuedAt / 1000)].map(String);
  const said = execFileSync(
    'sh',
    [
      '-c',
      `exec 2>&1; f() { ${program}\n}; f "$@"`,
      'sh',
      ...words,
      IDENTITY,
      `${month} ${day} ${time} ${year} GMT`,
      SCRIPT,
    ],
    { encoding: 'utf8' },
  );
  return Number(/^(\d+)$/m.exec(said)?.[1] ?? own);
}
/** A directory with a file `agent.crt`, which the script asks for its age only. */
const IDENTITY = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-clock-'));
fs.writeFileSync(path.join(IDENTITY, 'agent.crt'), 'a certificate');
afterAll(() => fs.rmSync(IDENTITY, { recursive: true }));

interface RigMachine {
  readonly name: string;
  /** Its clock minus the true time, ms. */
  off: number;
  /** How far the boot host has moved it, ms. */
  moved: number;
  certificate: IssuedCertificate;
}

class Rig {
  readonly truth = new ManualClock(Date.UTC(2027, 3, 1) as Millis);
  readonly store = openMemoryStore();
  hostOff = 0;
  servers: number[] = [];
  machines: RigMachine[] = [];
  #stored: number | undefined;
  clock!: HostClock;
  pki!: Pki;
  certificates!: Certificates;

  restart(): void {
    const source = {
      now: () => (this.truth.now() + this.hostOff) as Millis,
      monotonic: () => this.truth.monotonic(),
      after: () => () => {},
    };
    this.clock = new HostClock({ source, passed: () => this.truth.monotonic() });
    this.clock.follow({ known: () => this.machines.length, stored: this.#stored, changed: () => {} });
    this.pki = openPki({ store: this.store, vault: VAULT, clock: this.clock });
    this.certificates = openCertificates({ pki: this.pki, clock: this.clock });
  }

  async found(count: number): Promise<void> {
    this.restart();
    await this.pki.found('golden');
    for (let n = 0; n < count; n++) {
      const one = { name: `m${n}`, off: 0, moved: 0 };
      this.machines.push({ ...one, certificate: (await this.#certificateOf(one.name))! });
    }
    await this.round();
  }

  /** All machines poll once, 15 seconds later. */
  async round(): Promise<void> {
    for (const machine of this.machines) {
      this.truth.advance((15_000 / this.machines.length) as Millis);
      this.clock.serversTold(this.servers.map((off) => this.truth.now() + off));
      this.clock.heard(machine.name, { at: this.truth.now() + machine.off, movedMs: machine.moved });
      machine.certificate = (await this.#certificateOf(machine.name)) ?? machine.certificate;
      if (this.clock.doubt() === undefined) this.#follow(machine);
      this.#check(machine);
    }
    const verdict = this.clock.verdict();
    if (verdict.proved && verdict.by !== 'nobody') this.#stored = this.clock.now();
  }

  #certificateOf(name: string): Promise<IssuedCertificate | undefined> {
    const holder = { name, addresses: ['10.0.0.1'] };
    const order = { leaf: 'etcd-server', holder, cluster: GOLDEN, pin: KEY.publicKey().pin() } as const;
    return this.pki
      .keysets('golden')
      .then((keysets) =>
        this.certificates.get('golden', { keysets, renewals: [] }, { ...order, publicKey: KEY.publicKey() }),
      )
      .then(
        (made) => (made === 'new-key' ? undefined : made),
        (error: { code?: string }) => {
          if (error.code === 'E_CLOCK') return undefined;
          throw error;
        },
      );
  }

  #follow(machine: RigMachine): void {
    const own = Math.floor((this.truth.now() + machine.off) / 1000);
    const host = Math.floor(this.clock.now() / 1000);
    if (Math.abs(host - own) <= 60) return;
    const after = followed(own, host, machine.moved / 1000, machine.certificate);
    machine.off += (after - own) * 1000;
    machine.moved += (after - own) * 1000;
  }

  #check({ name, off, certificate }: RigMachine): void {
    const now = this.truth.now();
    const about = `${name}, ${JSON.stringify(this.clock.verdict())}`;
    expect(certificate.notBefore, about).toBeLessThanOrEqual(now);
    expect(certificate.notAfter, about).toBeGreaterThan(now);
    if (!this.broken.has(name)) expect(Math.abs(off), about).toBeLessThanOrEqual(CONTRADICTS);
  }

  readonly broken = new Set<string>();

  /** A minority of the machines may be wrong. */
  breakMachine(n: number, off: number): void {
    const machine = this.machines[n % this.machines.length]!;
    if (!this.broken.has(machine.name) && (this.broken.size + 1) * 2 >= this.machines.length) return;
    this.broken.add(machine.name);
    machine.off = off;
    machine.moved = 0;
  }

  /** It reboots with the right time. */
  repair(n: number): void {
    const machine = this.machines[n % this.machines.length]!;
    this.broken.delete(machine.name);
    machine.off = 0;
    machine.moved = 0;
  }
}

/** What happens, in words: a counterexample is read as a story. */
type Event =
  | { readonly what: 'host' | 'restart'; readonly days: number }
  | { readonly what: 'machine'; readonly which: number; readonly days: number | 'as-host' }
  | { readonly what: 'repair'; readonly which: number }
  | { readonly what: 'servers'; readonly days: readonly number[] }
  | { readonly what: 'pass'; readonly days: number };

const days = fc.oneof(
  fc.constant(0),
  fc.integer({ min: -900, max: 900 }),
  fc.constantFrom(-20_000, -1, -0.5, 0.04, 0.9, 1, 3, 40, 250, 400, 9000),
);
const which = fc.nat(6);
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ what: fc.constantFrom('host', 'restart'), days }),
  fc.record({ what: fc.constant('machine'), which, days: fc.oneof(days, fc.constant('as-host')) }),
  fc.record({ what: fc.constant('repair'), which }),
  fc.record({ what: fc.constant('servers'), days: fc.array(days, { maxLength: 3 }) }),
  fc.record({ what: fc.constant('pass'), days: fc.constantFrom(0.001, 0.1, 2, 9) }),
) as fc.Arbitrary<Event>;

async function play(count: number, events: readonly Event[]): Promise<void> {
  const rig = new Rig();
  await rig.found(count);
  for (const one of events) {
    if (one.what === 'host' || one.what === 'restart') rig.hostOff = one.days * DAY;
    if (one.what === 'restart') rig.restart();
    if (one.what === 'machine')
      rig.breakMachine(one.which, one.days === 'as-host' ? rig.hostOff : one.days * DAY);
    if (one.what === 'repair') rig.repair(one.which);
    if (one.what === 'servers') rig.servers = one.days.map((off) => off * DAY);
    if (one.what === 'pass') rig.truth.advance((one.days * DAY) as Millis);
    await rig.round();
    await rig.round();
  }
  // All is right in the end: the clock is believed again, and certificates are renewed.
  rig.hostOff = 0;
  rig.servers = [];
  for (const n of rig.machines.keys()) rig.repair(n);
  for (let round = 0; round < 6; round++) await rig.round();
  expect(rig.clock.doubt()).toBeUndefined();
}

test('while most machines are right, no wrong clock ends a certificate in force or moves a right clock', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 5 }), fc.array(event, { maxLength: 12 }), play),
    { numRuns: casesOf(60) },
  );
});

test.for<readonly [string, number, readonly Event[]]>([
  [
    'jumps ahead and back',
    3,
    [
      { what: 'host', days: 400 },
      { what: 'host', days: 0 },
    ],
  ],
  [
    'starts ahead, and one machine lies like it',
    3,
    [
      { what: 'machine', which: 0, days: 400 },
      { what: 'restart', days: 400 },
    ],
  ],
  [
    'stays in 1970 while nobody is heard, and a liar is heard first',
    3,
    [
      { what: 'host', days: -20_000 },
      { what: 'machine', which: 0, days: 'as-host' },
      { what: 'pass', days: 2 },
    ],
  ],
  ['starts in 1970', 3, [{ what: 'restart', days: -20_000 }]],
  [
    'is right, and its only time server is wrong',
    1,
    [
      { what: 'servers', days: [250] },
      { what: 'restart', days: 0 },
    ],
  ],
])('a boot host that %s harms none of %i machines', async ([, count, events]) => {
  await play(count, events);
});

test('machines whose batteries are empty do not keep a host in doubt whose kernel follows a time server', () => {
  const wall = Date.UTC(2027, 3, 1);
  const lost = { at: Date.UTC(2010, 0, 1), moved: true };
  const input = {
    wall,
    continued: undefined,
    continuedProved: false,
    machines: [lost, lost, lost],
    known: 3,
    settled: true,
    servers: [],
    synchronized: true,
    stored: wall - 3 * DAY,
  };
  expect(judgeClock(input)).toEqual({ proved: true, by: 'store' });
  expect(judgeClock({ ...input, synchronized: false })).toMatchObject({ proved: false, code: 'unproved' });
  const other = { at: wall - 300 * DAY, moved: false };
  expect(judgeClock({ ...input, machines: [other, other, lost] })).toMatchObject({ proved: false });
});
