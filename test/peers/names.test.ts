/** Names at a real name server: BIND takes signed updates, and the names go when machines go. */
import { execFile, execFileSync } from 'node:child_process';
import { Resolver } from 'node:dns/promises';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attach, bridge, daemon, ip, type Muster, remove, startMuster } from './dhcp-segment.ts';
import { callApi } from './etcd/api.ts';
import { unpacked } from './unpacked.ts';

const HOME = mkdtempSync(join(tmpdir(), 'muster-names-'));
const { command: NAMED, env } = unpacked('bind9', 'usr/sbin/named');
const bind = (program: string, ...words: string[]) =>
  execFileSync(unpacked('bind9', program).command, words, { env, encoding: 'utf8' });

const machine = (n: number): string => `---
apiVersion: muster/v1
kind: Machine
metadata: {name: node-${n}}
spec: {macs: ["52:54:00:aa:00:0${n}"], addresses: [10.77.0.1${n}]}
`;
const NETWORK = `apiVersion: muster/v1
kind: Network
metadata: {name: rack}
spec:
  subnet: 10.77.0.0/24
  dhcp: {mode: reservations}
  names:
    zone: lab.example
    reverseZone: 0.77.10.in-addr.arpa
    server: 10.77.0.53
    key: {valueFrom: {secret: dns, key: tsig}}
`;
const ZONE = `$TTL 300
@ SOA ns.lab.example. root.lab.example. 1 3600 600 86400 60
@ NS ns.lab.example.
`;

const started = () => daemon('dns', [NAMED, '-g', '-c', join(HOME, 'named.conf'), '-n', '1'], /running/, env);
const resolver = new Resolver({ timeout: 2000, tries: 2 });
resolver.setServers(['10.77.0.53']);
const addressesOf = (name: string) => resolver.resolve4(name).catch((error: { code: string }) => error.code);
/** Names are sent within seconds, and again within ten. */
const SOON = { timeout: 40_000, interval: 200 };
const cli = async (...words: string[]) =>
  (await promisify(execFile)('bin/muster', [...words, '--socket', muster.socket])).stdout;

let muster: Muster;
let named: Awaited<ReturnType<typeof daemon>>;
beforeAll(async () => {
  bridge('br-a', '10.77.0.1/24');
  attach('dns', 'br-a');
  ip('-n', 'dns', 'addr', 'add', '10.77.0.53/24', 'dev', 'eth0');
  const key = bind('usr/sbin/tsig-keygen', '-a', 'hmac-sha256', 'muster');
  const zones = [
    ['lab.example', `${ZONE}ns A 10.77.0.53\nnode-1 TXT "of somebody else"\n`],
    ['0.77.10.in-addr.arpa', ZONE],
  ] as const;
  for (const [zone, text] of zones) writeFileSync(join(HOME, `${zone}.zone`), text);
  writeFileSync(
    join(HOME, 'named.conf'),
    `${key}
options { directory "${HOME}"; pid-file "${HOME}/pid"; session-keyfile "${HOME}/session"; listen-on { 10.77.0.53; }; listen-on-v6 { none; }; recursion no; dnssec-validation no; };
controls { };
${zones.map(([zone]) => `zone "${zone}" { type primary; file "${zone}.zone"; update-policy { grant muster zonesub A AAAA PTR; }; };`).join('\n')}
`,
  );
  mkdirSync('/run/named', { recursive: true });
  named = await started();
  muster = await startMuster(['br-a'], `${NETWORK}${machine(1)}${machine(2)}`);
  await callApi(muster.socket, 'PUT', '/v1/secrets/dns/tsig', key);
});
afterAll(async () => {
  await muster.stop();
  await named.stop();
  remove(['dns'], ['br-a']);
  rmSync(HOME, { recursive: true });
});

const write = (documents: string) =>
  writeFileSync(join(dirname(muster.state), 'config', 'all.yaml'), documents);

describe('BIND', () => {
  it('has the names of machines, forward and reverse, within seconds', async () => {
    await expect.poll(() => addressesOf('node-1.lab.example'), SOON).toEqual(['10.77.0.11']);
    await expect.poll(() => resolver.reverse('10.77.0.12'), SOON).toEqual(['node-2.lab.example']);
    const listed = await cli('get', 'names', '-o', 'wide');
    expect(listed).toMatch(
      /node-1\.lab\.example +A +10\.77\.0\.11 +registered +Machine\/node-1 +10\.77\.0\.53/,
    );
  });

  it('loses the names of a machine that goes, and keeps what others wrote beside them', async () => {
    write(`${NETWORK}${machine(2)}${machine(3)}`);
    await callApi(muster.socket, 'POST', '/v1/reload');
    await expect.poll(() => addressesOf('node-1.lab.example'), SOON).toBe('ENODATA');
    expect(await resolver.resolveTxt('node-1.lab.example')).toEqual([['of somebody else']]);
    await expect.poll(() => addressesOf('node-3.lab.example'), SOON).toEqual(['10.77.0.13']);
  });

  it('gets what it missed when it is back, and operators see meanwhile that it is behind', async () => {
    await named.stop();
    write(`${NETWORK}${machine(3)}${machine(4)}`);
    await callApi(muster.socket, 'POST', '/v1/reload');
    const concerns = async () =>
      (await muster.get<{ concerns: { code: string; subject: string }[] }>('/v1/status')).concerns.map(
        ({ code, subject }) => `${code} ${subject}`,
      );
    await expect.poll(concerns, SOON).toContain('names-behind zone lab.example');
    await muster.restart();
    named = await started();
    await expect.poll(() => addressesOf('node-2.lab.example'), SOON).toBe('ENOTFOUND');
    expect(await addressesOf('node-4.lab.example')).toEqual(['10.77.0.14']);
    await expect.poll(concerns, SOON).not.toContain('names-behind zone lab.example');
  });

  it('refuses a wrong key, which is said by name', async () => {
    await callApi(muster.socket, 'PUT', '/v1/secrets/dns/tsig', 'hmac-sha256:muster:aHVudGVyMg==');
    write(`${NETWORK}${machine(3)}`);
    await callApi(muster.socket, 'POST', '/v1/reload');
    await expect.poll(() => cli('get', 'names'), SOON).toContain('NOTAUTH BADSIG');
  });

  it('reads the zone file that muster dns zone prints', async () => {
    const file = join(HOME, 'printed.zone');
    writeFileSync(file, `${ZONE}ns A 10.77.0.53\n${await cli('dns', 'zone', 'lab.example')}`);
    expect(readFileSync(file, 'utf8')).toContain('node-3.lab.example. A 10.77.0.13');
    expect(bind('usr/bin/named-checkzone', 'lab.example', file)).toContain('OK');
  });
});
