/**
 * The files that Muster writes for systemd-networkd, read and carried out by a real one. Needs root
 * and scripts/in-namespace.sh.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { load } from 'js-yaml';
import { afterAll, describe, expect, test } from 'vitest';
import { anyNetwork } from '../unit/ignition/arbitrary.ts';
import { DEBIAN_13, rendered } from '../unit/ignition/kit.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-networkd-'));
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const PLACE = '/etc/systemd/network/';

/** The networkd files of a rendered configuration. */
function filesOf(interfaces: readonly object[]): Map<string, string> {
  const text = rendered({ network: { interfaces } }, DEBIAN_13).files['user-data']!;
  const { write_files = [] } = load(text) as { write_files?: { path: string; content: string }[] };
  return new Map(
    write_files
      .filter((file) => file.path.startsWith(PLACE))
      .map((file) => [file.path.slice(PLACE.length), file.content]),
  );
}

interface Seen {
  readonly log: string;
  readonly addresses: readonly {
    readonly ifname: string;
    readonly master?: string;
    readonly linkinfo?: {
      readonly info_kind: string;
      readonly info_data?: Readonly<Record<string, unknown>>;
    };
    readonly addr_info: readonly { readonly local: string }[];
  }[];
  readonly routes: readonly Readonly<Record<string, unknown>>[];
  readonly rules: readonly Readonly<Record<string, unknown>>[];
}

let runs = 0;

/** What a networkd makes of `final`, after a boot with `eno1` on DHCP. */
function networkd(final: ReadonlyMap<string, string>, settled = 'true'): Seen {
  const place = path.join(dir, String(runs++));
  const write = (name: string, files: Iterable<readonly [string, string]>) => {
    fs.mkdirSync(path.join(place, name), { recursive: true });
    for (const [file, content] of files) fs.writeFileSync(path.join(place, name, file), content);
  };
  write('boot', [['10-cloud-init-eno1.network', '[Match]\nName=eno1\n[Network]\nDHCP=ipv4\n']]);
  write('final', final);
  const guest = path.join(import.meta.dirname, 'networkd-guest.sh');
  const done = spawnSync(
    'unshare',
    ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', guest, place],
    { encoding: 'utf8', env: { ...process.env, SETTLED: settled } },
  );
  const part = (name: string) =>
    new RegExp(`=== ${name}\n([\\s\\S]*?)\n===`).exec(done.stdout)?.[1] ??
    `nothing: ${done.stdout}${done.stderr}`;
  return {
    log: part('log'),
    addresses: JSON.parse(part('addresses')),
    routes: [...JSON.parse(part('routes')), ...JSON.parse(part('routes6'))],
    rules: JSON.parse(part('rules')),
  };
}

/** Lines of the log about a file that networkd did not take as it is. */
const complaints = (log: string): readonly string[] =>
  log
    .split('\n')
    .filter((line) => /\.(network|netdev):\d*|ignoring|[Ff]ailed to parse|Unknown (key|section)/.test(line));

describe('systemd-networkd', () => {
  test('a key that it does not know is noticed, so the test does check', () => {
    const { log } = networkd(new Map([['05-a.network', '[Match]\nName=eno1\n[Network]\nSpeed=9\n']]));
    expect(complaints(log).join()).toContain('Speed');
  });

  test('every key and value of any configuration is read', () => {
    const files = new Map<string, string>();
    for (const [n, interfaces] of fc.sample(anyNetwork, { numRuns: 60, seed: 20261126 }).entries())
      for (const [name, content] of filesOf(interfaces))
        if (!name.endsWith('.link'))
          files.set(
            `${n}-${name}`,
            // Devices with the same name would be a complaint of its own.
            content.replace(/^((?:Name|VLAN|Bond|Bridge)=)([a-z]+)/gm, `$1$2${n}`),
          );
    expect(files.size).toBeGreaterThan(200);
    expect(complaints(networkd(files).log)).toEqual([]);
  });

  test('a bridge takes the interface that booted, with routes that only it can have', () => {
    const final = filesOf([
      {
        name: 'br0',
        bridge: { interfaces: ['eno1', 'eno2'] },
        addresses: ['192.0.2.10/32', '10.88.0.9/24'],
        gateway: '198.51.100.1',
        gatewayOnLink: true,
        metric: 70,
        routes: [
          { to: '10.9.0.0/16', via: '10.88.0.1', table: 100 },
          { to: '203.0.113.0/24' },
          { to: '::/0', via: 'fe80::1', metric: 9 },
        ],
        rules: [{ from: '10.88.0.9/32', table: 100, priority: 500 }],
        mtu: 1400,
      },
    ]);
    const settled =
      'ip route show default | grep -q 198.51.100.1 && ip rule | grep -q 500 && ip -6 route | grep -q fe80::1 && ip link show eno2 | grep -q br0';
    const { log, addresses, routes, rules } = networkd(final, settled);
    expect(complaints(log)).toEqual([]);
    const masters = new Map(addresses.map((one) => [one.ifname, one.master]));
    expect([masters.get('eno1'), masters.get('eno2')]).toEqual(['br0', 'br0']);
    expect(addresses.find((one) => one.ifname === 'br0')!.addr_info.map((one) => one.local)).toEqual(
      expect.arrayContaining(['192.0.2.10', '10.88.0.9']),
    );
    expect(routes).toContainEqual(
      expect.objectContaining({ dst: 'default', gateway: '198.51.100.1', dev: 'br0', metric: 70 }),
    );
    expect(routes).toContainEqual(
      expect.objectContaining({ dst: '10.9.0.0/16', gateway: '10.88.0.1', table: '100' }),
    );
    expect(routes).toContainEqual(expect.objectContaining({ dst: '203.0.113.0/24', scope: 'link' }));
    expect(routes).toContainEqual(expect.objectContaining({ dst: 'default', gateway: 'fe80::1', metric: 9 }));
    expect(rules).toContainEqual(expect.objectContaining({ priority: 500, src: '10.88.0.9', table: '100' }));
  });

  test('a bond takes the interface that booted and carries a VLAN, if the kernel has bonds', () => {
    const final = filesOf([
      { name: 'bond0', bond: { mode: '802.3ad', interfaces: ['eno1', 'eno2'], lacpRate: 'fast' } },
      { name: 'bond0.20', vlan: { id: 20, link: 'bond0' }, addresses: ['10.88.20.9/24'] },
    ]);
    const settled = 'ip addr show bond0.20 | grep -q 10.88.20.9 || grep -q "not supported" /run/log';
    const { log, addresses } = networkd(final, settled);
    expect(complaints(log)).toEqual([]);
    const of = (name: string) => addresses.find((one) => one.ifname === name)!;
    // The kernel may lack the driver; networkd has tried to make the bond then.
    if (/bond0: netdev could not be created: Operation not supported/.test(log)) return;
    expect([of('eno1').master, of('eno2').master]).toEqual(['bond0', 'bond0']);
    expect(of('bond0').linkinfo).toMatchObject({ info_kind: 'bond', info_data: { mode: '802.3ad' } });
    expect(of('bond0.20').linkinfo).toMatchObject({ info_kind: 'vlan', info_data: { id: 20 } });
  });
});
