/**
 * What it costs to ask a thousand BMCs, and how long a session of IPMI 2.0 takes to set up. The
 * BMCs are those of the virtual rack, in a process of their own.
 */
import { type ChildProcess, execFile, fork } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openIpmi } from '../src/bmc/ipmi/client.socket.ts';
import { PAYLOADS } from '../src/bmc/ipmi/packet.ts';
import { unpacked } from '../test/peers/unpacked.ts';
import { type Figures, FLEET, type Work } from './bmc-host.ts';
import { type BenchCase, type BenchSuite, median } from './compare.ts';

const COUNT = 1000;
const SESSIONS = 20;
const PROTOCOLS = ['ipmi', 'redfish'] as const;
type Protocol = (typeof PROTOCOLS)[number];
const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Starts a fleet; resolves when all of it listens. */
async function fleet(protocol: Protocol, count: number, first = 0): Promise<ChildProcess> {
  const child = fork(file('bmc-fleet.ts'), [protocol, `${count}`, `${first}`]);
  await once(child, 'message');
  return child;
}

/** Lets a process of its own do that work with a thousand BMCs of another one. */
async function worked(work: Work, protocol: Protocol): Promise<Figures> {
  const bmcs = await fleet(protocol, COUNT, 1);
  try {
    const host = fork(file('bmc-host.ts'), [work, protocol, `${COUNT}`]);
    const [figures] = (await Promise.race([once(host, 'message'), once(host, 'exit')])) as [Figures];
    if (typeof figures !== 'object') throw new Error(`${work} ended without figures`);
    return figures;
  } finally {
    bmcs.kill();
  }
}

const NAMES = { ipmi: 'IPMI', redfish: 'Redfish' } as const;

const polling = (protocol: Protocol): BenchCase => ({
  rounds: 1,
  figures: {
    processor: {
      name: `1,000 BMCs asked for their power every 30 s by ${NAMES[protocol]}, processor`,
      unit: '% of one',
      better: 'less',
      aim: 5,
      ifMissed: 'By Redfish each read is a resumed handshake of TLS and one request.',
    },
    mebibytes: {
      name: `1,000 BMCs asked for their power every 30 s by ${NAMES[protocol]}, memory that it takes`,
      unit: 'MiB',
      better: 'less',
      aim: 100,
    },
  },
  async ours() {
    const { processor, mebibytes } = await worked('poll', protocol);
    return { processor, mebibytes };
  },
});

const switching = (protocol: Protocol): BenchCase => ({
  rounds: 1,
  figures: {
    seconds: {
      name: `1,000 machines switched on at the same time by ${NAMES[protocol]}, until each order is proved`,
      unit: 's',
      better: 'less',
      aim: 60,
    },
  },
  ours: async () => ({ seconds: (await worked('on', protocol)).seconds }),
});

/**
 * Passes datagrams on to the first BMC of a fleet, and measures each set-up of a session on the
 * way: from the first request to the last answer.
 */
async function relay(port: number) {
  const [inside, outside] = [createSocket('udp4'), createSocket('udp4')];
  const took: number[] = [];
  let client: { readonly port: number; readonly address: string } | undefined;
  let began = 0;
  const typeOf = (datagram: Buffer): number => (datagram[4] === 0x06 ? datagram[5]! & 0x3f : -1);
  outside.on('message', (datagram, from) => {
    client = from;
    if (typeOf(datagram) === PAYLOADS.openRequest) began = performance.now();
    inside.send(datagram, port, FLEET.address(0));
  });
  inside.on('message', (datagram) => {
    if (typeOf(datagram) === PAYLOADS.rakp4) took.push(performance.now() - began);
    if (client) outside.send(datagram, client.port, client.address);
  });
  await new Promise<void>((done) => outside.bind(0, '127.0.0.1', done));
  return {
    port: outside.address().port,
    /** The median of the set-ups since the last call. */
    taken: () => median(took.splice(0)),
    close: () => [inside, outside].forEach((one) => void one.close()),
  };
}

export const suite: BenchSuite = {
  about:
    'A thousand BMCs of the virtual rack, which listen in a process of their own, each asked as the watch of the boot host does: by Redfish in one session that stays open, by IPMI in a new one. A machine that is switched on counts as heard a second later. A set-up of a session is measured on its way, from the first request of RMCP+ to the last answer of the BMC, so a start of ipmitool does not count.',
  async open() {
    const one = await fleet('ipmi', 1);
    const way = await relay(FLEET.port.ipmi);
    const { user, password } = FLEET;
    const setUp: BenchCase = {
      figures: {
        ms: {
          name: 'Set-up of a session of IPMI 2.0, cipher suite 17',
          unit: 'ms',
          better: 'less',
          aimRatio: { ipmitool: 1.2 },
        },
      },
      async ours() {
        for (let n = 0; n < SESSIONS; n++)
          await (
            await openIpmi({ address: '127.0.0.1', port: way.port, user, password, suites: [17] })
          ).close();
        return { ms: way.taken() };
      },
      peers: {
        async ipmitool() {
          const { command, env } = unpacked('ipmitool', 'usr/bin/ipmitool');
          const login = ['-I', 'lanplus', '-C', '17', '-H', '127.0.0.1', '-p', `${way.port}`];
          for (let n = 0; n < SESSIONS; n++)
            await promisify(execFile)(
              command,
              [...login, '-U', user, '-P', password, 'chassis', 'power', 'status'],
              { env },
            );
          return { ms: way.taken() };
        },
      },
    };
    return {
      cases: [setUp, ...PROTOCOLS.flatMap((one) => [switching(one), polling(one)])],
      async close() {
        way.close();
        one.kill();
      },
    };
  },
};
