/**
 * Muster's cloud-init documents, read by the cloud-init of this Debian and by that of Debian 13.
 */
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { behaviourOf } from '../../src/ignition/cloudinit-versions.ts';
import { REPORT_SCRIPT } from '../../src/ignition/report/scripts.files.ts';
import { anyConfig } from '../unit/ignition/arbitrary.ts';
import { CONTEXT, DEBIAN_12, DEBIAN_13, rendered } from '../unit/ignition/kit.ts';
import { unpacked } from './unpacked.ts';

const own = unpacked('cloud-init', 'usr/bin/cloud-init');
const newer = unpacked('cloud-init-trixie', 'usr/bin/cloud-init');
/** Only the newer cloud-init is unpacked; the modules that it needs are those of this Debian. */
const CLOUD_INITS = [
  ['this Debian', own],
  [
    'Debian 13',
    { ...newer, env: { ...newer.env, PYTHONPATH: `${newer.env.PYTHONPATH}:${own.env.PYTHONPATH}` } },
  ],
] as const;
const GOLDEN = path.join(import.meta.dirname, '../golden/config');

/** One cloud-init process answers all questions, because Python takes a second to start. */
function startJudge(env: NodeJS.ProcessEnv) {
  const child = spawn('/usr/bin/python3', [path.join(import.meta.dirname, 'cloudinit-judge.py')], {
    env: { ...env, http_proxy: '', no_proxy: '*' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (part) => {
    said += part;
  });
  const waiting: { resolve(value: unknown): void; reject(error: Error): void }[] = [];
  createInterface(child.stdout).on('line', (line) => waiting.shift()?.resolve(JSON.parse(line)));
  child.on('exit', () => {
    for (const one of waiting.splice(0)) one.reject(new Error(said));
  });
  return {
    ask: <T>(question: object) =>
      new Promise<T>((resolve, reject) => {
        waiting.push({ resolve: resolve as (value: unknown) => void, reject });
        child.stdin.write(`${JSON.stringify(question)}\n`);
      }),
    stop: () => child.kill(),
  };
}

describe.each(CLOUD_INITS)('cloud-init of %s', (_, { command, env }) => {
  let judge: ReturnType<typeof startJudge>;
  let version: string;

  beforeAll(async () => {
    judge = startJudge(env);
    version = (await judge.ask<string>({ version: true })).replace(/-.*/, '');
  });
  afterAll(() => judge.stop());

  /** An Image document with this version of cloud-init. */
  const image = () => ({ ...DEBIAN_12, cloudInitVersion: version });

  describe('user-data', () => {
    const golden = fs
      .readdirSync(GOLDEN, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.user-data'));

    test.each(golden)('`cloud-init schema` accepts %s as user-data and finds nothing deprecated', (name) => {
      const said = execFileSync(
        '/usr/bin/python3',
        [command, 'schema', '--config-file', path.join(GOLDEN, name)],
        {
          env,
          encoding: 'utf8',
        },
      );
      expect(said).toMatch(/^Valid/);
      expect(said).not.toMatch(/deprecat/i);
    });

    test('a misspelled key in user-data is refused, so the check does check', async () => {
      const { faults } = await judge.ask<{ faults: string[] }>({
        userData: '#cloud-config\nwrite_files: [{pth: /a}]\n',
      });
      expect(faults.join()).toContain('pth');
    });

    test('the user-data of any configuration fits the schema and is read as it was meant', async () => {
      await fc.assert(
        fc.asyncProperty(anyConfig, async (config) => {
          const text = rendered(config, image()).files['user-data']!;
          const verdict = await judge.ask<{ faults: string[]; config: unknown }>({ userData: text });
          expect(verdict.faults).toEqual([]);
          expect(verdict.config).toEqual(load(text));
        }),
        { numRuns: 300, seed: 20261120 },
      );
    });

    test('user-data contains the reporting script octet by octet', async () => {
      const text = rendered({}, { ...image(), reports: false }).files['user-data']!;
      const { config } = await judge.ask<{ config: { write_files: { path: string; content: string }[] } }>({
        userData: text,
      });
      expect(config.write_files.find((file) => file.path === '/etc/muster/muster-report.sh')?.content).toBe(
        REPORT_SCRIPT,
      );
    });
  });

  describe('the kernel command line', () => {
    test('the kernel command line makes NoCloud a network source with Muster’s URL', async () => {
      const { kernelArguments } = rendered({}, image());
      const { seed } = await judge.ask<{ seed: object }>({
        cmdline: `quiet ${kernelArguments.join(' ')} BOOTIF=01-52`,
      });
      expect(seed).toEqual({ seedfrom: 'http://10.77.0.1:8080/boot/SESSION/', dsmode: 'net' });
    });

    test('the network configuration on the kernel command line is that of the network-config document', async () => {
      await fc.assert(
        fc.asyncProperty(anyConfig, async (config) => {
          const value = rendered(config, image());
          const { network } = await judge.ask<{ network: unknown }>({
            cmdline: value.kernelArguments.join(' '),
          });
          expect(network).toEqual(load(value.files['network-config']!));
        }),
        { numRuns: 100, seed: 20261120 },
      );
    });

    test('cloud-init 22.4 takes `nocloud` with a URL for a local source, so the name depends on the version', async () => {
      const { seed } = await judge.ask<{ seed: { dsmode: string } }>({
        cmdline: 'ds=nocloud;s=http://10.0.0.1/',
      });
      expect(seed.dsmode).toBe(behaviourOf(version).source === 'nocloud' ? 'net' : 'local');
    });
  });

  describe('fetching', () => {
    let server: http.Server;
    let asked: string[];
    const documents = () => rendered({ hostname: 'kelvin' }, image()).files;

    async function serve(answer: (name: string) => { status: number; body: string }): Promise<string> {
      asked = [];
      server = http.createServer((request, response) => {
        asked.push(request.url!.slice(1));
        const { status, body } = answer(request.url!.slice(1));
        response.writeHead(status).end(body);
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    }

    afterAll(() => {
      server?.closeAllConnections();
      server?.close();
    });

    test('NoCloud fetches and reads all documents, and asks for network-config only in the versions of the table', async () => {
      const files = documents();
      const url = await serve((name) => ({ status: 200, body: files[name as 'user-data'] ?? '' }));
      const got = await judge.ask<{
        documents: number;
        metaData: object;
        userData: string;
        network: unknown;
      }>({
        seed: url,
      });
      expect(got.metaData).toEqual({ 'instance-id': 'node-1-SESSION', 'local-hostname': 'kelvin' });
      expect(got.userData).toBe(files['user-data']);
      expect(asked.includes('network-config')).toBe(behaviourOf(version).fetchesNetworkConfig);
      expect(asked.filter((name) => !Object.hasOwn(files, name))).toEqual([]);
      server.close();
    });

    test('NoCloud retries ten times, a second apart, and treats 503 like 404, so nothing is served until all documents render', async () => {
      const files = documents();
      const url = await serve((name) =>
        name === 'meta-data' && asked.filter((one) => one === 'meta-data').length <= 10
          ? { status: 503, body: '' }
          : { status: 200, body: files[name as 'user-data'] ?? '' },
      );
      const started = performance.now();
      const got = await judge.ask<{ metaData: object }>({ seed: url });
      expect(got.metaData).toMatchObject({ 'instance-id': 'node-1-SESSION' });
      expect(asked.filter((name) => name === 'meta-data')).toHaveLength(11);
      expect(performance.now() - started).toBeGreaterThan(9_000);
      server.close();
    });
  });

  describe('network-config', () => {
    const files = (config: unknown) =>
      judge.ask<Record<string, string>>({
        network: load(rendered(config, DEBIAN_13).files['network-config']!) as object,
      });

    test('cloud-init writes the files of networkd that the network-config document describes', async () => {
      const written = await files({
        network: {
          interfaces: [
            {
              mac: '52:54:00:aa:00:01',
              name: 'lan0',
              addresses: ['10.77.0.11/24'],
              gateway: '10.77.0.1',
              nameservers: ['10.77.0.2'],
              search: ['lab.example'],
              routes: [{ to: '10.9.0.0/16', via: '10.77.0.254' }],
              mtu: 1400,
            },
            { name: 'eth5' },
          ],
        },
      });
      const lan = written['etc/systemd/network/10-cloud-init-lan0.network']!;
      for (const line of [
        'MACAddress=52:54:00:aa:00:01',
        'Address=10.77.0.11/24',
        'Gateway=10.77.0.1',
        'Destination=10.9.0.0/16',
        'Gateway=10.77.0.254',
        'DNS=10.77.0.2',
        'Domains=lab.example',
        'MTUBytes=1400',
        'DHCP=no',
      ])
        expect(lan.split('\n')).toContain(line);
      expect(written['etc/systemd/network/10-cloud-init-eth5.network']).toContain('DHCP=ipv4');
    });

    test('all of IPv6 has a route in every version', async () => {
      const one = { mac: CONTEXT.machine.mac, addresses: ['fd00:77::31/64'], gateway6: 'fd00:77::1' };
      const config = rendered({ network: { interfaces: [one] } }, image()).files['network-config']!;
      const written = await judge.ask<Record<string, string>>({ network: load(config) as object });
      const destinations = Object.values(written)
        .join()
        .match(/(?<=Destination=)\S+/g);
      expect([['::/0'], ['8000::/1', '::/1']]).toContainEqual(destinations?.toSorted());
    });

    test('without network-config only the interface that booted is configured', async () => {
      const written = await files({});
      expect(Object.keys(written)).toHaveLength(1);
      expect(Object.values(written)[0]).toContain(`MACAddress=${CONTEXT.machine.mac}`);
    });
  });
});

describe('scripts in user-data', () => {
  const scripts = () => {
    const config = load(
      rendered({
        disks: [
          {
            device: "/dev/disk/by-id/odd'name",
            wipeTable: true,
            partitions: [
              { label: 'swap', sizeMiB: 64, filesystem: 'swap' },
              { label: 'data', filesystem: 'ext4', mount: '/srv/data' },
            ],
          },
          { device: '/dev/vdb', partitions: [{ label: 'x', filesystem: 'xfs' }] },
        ],
        files: [{ path: "/opt/it's", source: { url: 'http://h/x', sha256: 'a'.repeat(64) } }],
        units: [{ name: 'a@b\\x2dc.service', enabled: true }],
      }).files['user-data']!,
    ) as { bootcmd: string[]; runcmd: string[] };
    return { boot: config.bootcmd.join('\n'), run: config.runcmd.join('\n') };
  };

  test.each(['boot', 'run'] as const)('the scripts of the %s stage in user-data pass shellcheck', (stage) => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-scripts-'));
    const file = path.join(directory, 'script');
    fs.writeFileSync(file, `#!/bin/sh\n${scripts()[stage]}\n`);
    try {
      execFileSync('shellcheck', ['--shell=sh', file], { encoding: 'utf8', stdio: 'pipe' });
    } catch (error) {
      throw new Error((error as { stdout: string }).stdout);
    } finally {
      fs.rmSync(directory, { recursive: true });
    }
  });

  test('the script that fetches a file checks its hash before it installs the file, and fails the boot when the hash is wrong', async () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-fetch-'));
    const body = 'the file\n';
    const server = http.createServer((_, response) => response.end(body));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`;
    const run = (sha256: string) => {
      const data = load(
        rendered({ files: [{ path: `${directory}/deep/it's`, mode: '0750', source: { url, sha256 } }] })
          .files['user-data']!,
      ) as { runcmd: string[] };
      return new Promise<number>((resolve) => {
        spawn('sh', ['-c', data.runcmd.join('\n')], { stdio: 'ignore' }).on('exit', (status) =>
          resolve(status ?? -1),
        );
      });
    };
    const good = execFileSync('sha256sum', { input: body, encoding: 'utf8' }).slice(0, 64);
    expect(await run('0'.repeat(64))).toBe(1);
    expect(fs.existsSync(`${directory}/deep/it's`)).toBe(false);
    expect(await run(good)).toBe(0);
    expect(fs.readFileSync(`${directory}/deep/it's`, 'utf8')).toBe(body);
    expect(fs.statSync(`${directory}/deep/it's`).mode & 0o7777).toBe(0o750);
    server.close();
    fs.rmSync(directory, { recursive: true });
  });
});
