/** A log-in by password while other addresses send wrong passwords. */
import { scrypt } from 'node:crypto';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { connectApi } from '../src/cli/client.socket.ts';
import { shownAuthority } from '../src/cli/login/fingerprint.socket.ts';
import { BOOT_HOST, Rig } from '../test/attacks/rig.ts';
import { daemon, ip } from '../test/peers/dhcp-segment.ts';
import { type BenchCase, type BenchSuite, median } from './compare.ts';

const OPERATORS = `${BOOT_HOST}:8444`;
const PASSWORD = 'correct horse battery';
/** The addresses of the flood: this many, from 10.77.0.200 on. */
const FLOOD = { first: 200, addresses: 40, perSecond: 1000, seconds: 9 } as const;
const LOG_INS = 5;

const IF_MISSED =
  'The hash of a password (scrypt, N=2^15, r=8, p=3) takes most of a log-in without a flood, and it is what makes guessing a stolen hash expensive, so it does not become cheaper. During the flood one hash of a wrong password is computed at the same time, and the program that sends the flood and the main thread that answers it share the two processors with both hashes.';

type LogIn = () => Promise<number>;

/** Makes the operator; resolves with a function that logs in and returns the milliseconds. */
async function operatorOf(rig: Rig): Promise<LogIn> {
  const url = `https://${OPERATORS}`;
  const { pem: authority } = await shownAuthority(url, AbortSignal.timeout(10_000));
  const client = connectApi({ url, authority });
  await rig.operator('operator', 'add', 'ada', '--role', 'viewer');
  const invitation = /invitation=(\S+)/.exec(await rig.operator('operator', 'invite', 'ada'))![1];
  await client.call('POST', '/v1/invitation', { body: { json: { invitation, password: PASSWORD } } });
  return () =>
    timed(client.call('POST', '/v1/login', { body: { json: { operator: 'ada', password: PASSWORD } } }));
}

async function timed(work: Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work;
  return performance.now() - began;
}

/** The median of some log-ins, one after the other. */
async function several(logIn: LogIn): Promise<number> {
  const took: number[] = [];
  for (let n = 0; n < LOG_INS; n++) took.push(await logIn());
  return median(took);
}

/** Logs in again and again while the flood lasts; resolves with the median and the flood's rate. */
async function flooded(logIn: LogIn): Promise<{ readonly took: number; readonly rate: number }> {
  const numbers = [FLOOD.first, FLOOD.addresses, FLOOD.perSecond, FLOOD.seconds].map(String);
  const program = [process.execPath, resolve('test/attacks/wrong-log-ins.ts'), BOOT_HOST, '8444'];
  const flood = await daemon('atk', [...program, ...numbers], /begun/);
  const took: number[] = [];
  for (let ended = false; !ended; ) {
    const one = await logIn();
    // Operators come at any moment, not whenever a hash has just ended.
    await new Promise((done) => setTimeout(done, (took.length * 137) % 500));
    ended = flood.output().includes('done');
    if (!ended) took.push(one);
  }
  if (took.length === 0) throw new Error('no log-in ended while the flood lasted');
  const { sent, seconds } = JSON.parse(/done (.*)/.exec(flood.output())![1]!);
  return { took: median(took), rate: sent / seconds };
}

const hash = (): Promise<unknown> =>
  promisify<string, string, number, object, Buffer>(scrypt)(PASSWORD, 'salt of 16 octet', 32, {
    ...{ N: 2 ** 15, r: 8, p: 3, maxmem: 64 * 1024 * 1024 },
  });

const caseOf = (logIn: LogIn): BenchCase => ({
  figures: {
    took: { name: 'Log-in during 1,000 wrong log-ins a second', unit: 'ms', better: 'less' },
    wait: {
      name: 'Log-in: what the flood adds',
      unit: 'ms',
      better: 'less',
      aim: 200,
      ifMissed: IF_MISSED,
    },
    rate: { name: 'Wrong log-ins that were sent', unit: '1/s', better: 'more' },
    hash: { name: 'One hash of a password, nothing else', unit: 'ms', better: 'less' },
  },
  async ours() {
    const quiet = await several(logIn);
    const alone = await several(() => timed(hash()));
    const { took, rate } = await flooded(logIn);
    return { took, wait: took - quiet, rate, hash: alone };
  },
  peers: { 'without a flood': async () => ({ took: await several(logIn) }) },
});

export const suite: BenchSuite = {
  about:
    'Operators who log in over HTTPS by password, at an address from which they logged in before, while forty other addresses send 1,000 wrong log-ins a second over connections that stay open. All of it shares the processors of one host.',
  async open() {
    const rig = await Rig.open(undefined, ['--operators-listen', OPERATORS]);
    try {
      for (let n = 0; n < FLOOD.addresses; n++)
        ip('-n', 'atk', 'addr', 'add', `10.77.0.${FLOOD.first + n}/24`, 'dev', 'eth0');
      return { cases: [caseOf(await operatorOf(rig))], close: () => rig.close() };
    } catch (error) {
      await rig.close();
      throw error;
    }
  },
};
