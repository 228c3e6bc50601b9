import { expect, test } from 'vitest';
import {
  droppingChains,
  judgeHost,
  judgeSegment,
  type Observed,
  type Offer,
} from '../../../src/cli/doctor/judge.ts';

const segment = { network: 'rack', subnet: '10.77.0.0/24', interface: 'eth1', address: '10.77.0.1' };
const fine: Observed = {
  ...{ operstate: 'up', mtu: 1500, offers: [] },
  ...{ tftp: { ok: true, text: 'ipxe.efi is sent' }, http: { ok: true, text: 'it answers' } },
};
const own: Offer = { server: '10.77.0.1', address: '10.77.0.100', file: '' };
const other: Offer = { server: '10.77.0.254', address: '10.77.0.180', file: '' };
const snippet: Offer = { ...other, file: 'ipxe.efi', from: '10.77.0.1' };
const states = (mode: string, observed: Partial<Observed>, mtu?: number) =>
  judgeSegment({ ...segment, mode, ...(mtu !== undefined && { mtu }) }, { ...fine, ...observed })
    .filter(({ state }) => state !== 'ok')
    .map(({ check, state }) => `${check} ${state}`);

test.each<[string, string, Partial<Observed>, number | undefined, readonly string[]]>([
  ['a healthy segment', 'server', { offers: [own] }, undefined, []],
  ['another server beside ours', 'server', { offers: [own, other] }, undefined, ['dhcp servers fail']],
  ['another server in proxy mode', 'proxy', { offers: [other] }, undefined, []],
  ['no server in proxy mode', 'proxy', { offers: [] }, undefined, ['dhcp servers fail']],
  ['another server beside reservations', 'reservations', { offers: [other] }, undefined, []],
  [
    'another server with a boot file',
    'proxy',
    { offers: [{ ...other, file: 'pxelinux.0' }] },
    undefined,
    ['dhcp servers fail'],
  ],
  [
    'a server that gives addresses, and a proxy with a boot menu',
    'server',
    { offers: [other, { server: '10.77.0.7', address: '0.0.0.0', file: 'a boot menu' }] },
    undefined,
    ['dhcp servers fail', 'dhcp servers fail'],
  ],
  ['another server that boots from here', 'off', { offers: [snippet] }, undefined, []],
  ['the same beside a proxy', 'proxy', { offers: [snippet] }, undefined, []],
  ['another server that boots nothing', 'off', { offers: [other] }, undefined, ['dhcp servers warn']],
  ['nobody may ask', 'server', { offers: 'root only may ask' }, undefined, ['dhcp servers unknown']],
  ['a cable that is out', 'server', { operstate: 'down' }, undefined, ['link fail']],
  ['an MTU below that of the Network', 'server', { mtu: 1500 }, 9000, ['mtu fail']],
  ['a blocked TFTP', 'server', { tftp: { ok: false, text: 'nothing came' } }, undefined, ['tftp fail']],
  ['a blocked HTTP', 'server', { http: { ok: false, text: 'refused' } }, undefined, ['http fail']],
])('%s', (_what, mode, observed, mtu, expected) => {
  expect(states(mode, observed, mtu)).toEqual(expected);
});

test('whatever fails or warns says what to change', () => {
  const bad = judgeSegment(
    { ...segment, mode: 'server', mtu: 9000 },
    {
      ...fine,
      ...{ operstate: 'down', offers: [other], tftp: { ok: false, text: '' }, http: { ok: false, text: '' } },
    },
  );
  const away = judgeSegment({ network: 'far', mode: 'server', subnet: '10.9.0.0/24' }, undefined);
  const host = judgeHost({
    synchronized: false,
    dropping: ['inet filter input'],
    unready: ['dhcp (no socket)'],
    machines: 1000,
    neighbours: 1024,
  });
  const found = [...bad, ...away, ...host].filter(({ state }) => state === 'fail' || state === 'warn');
  expect(found).toHaveLength(10);
  expect(found.at(-1)!.remedy).toContain('gc_thresh3 = 4096');
  for (const { remedy } of found) expect(remedy).toMatch(/\.$/);
});

test('without a server every answer is another one, and a port on which nothing listens is no firewall', () => {
  const asked = { ok: false, text: 'nothing came', listens: false };
  const found = judgeSegment(segment, { ...fine, offers: [own], tftp: asked });
  const [servers, tftp] = found.filter(({ state }) => state !== 'ok');
  expect(servers).toMatchObject({
    state: 'warn',
    text: expect.stringMatching(/10\.77\.0\.1 .*asked for 8 s/),
  });
  expect(tftp).toMatchObject({ state: 'fail', text: 'nothing listens on UDP port 69' });
  expect(tftp!.remedy).not.toContain('firewall');
  const host = { synchronized: true, dropping: [], machines: undefined, neighbours: 1024 };
  expect(judgeHost({ ...host, unready: 'nothing answers' })[0]).toMatchObject({ state: 'fail' });
});

test('chains that drop what comes in are found in the words of nft', () => {
  const ruleset = `table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established accept
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
	}
}
table ip nat {
	chain in {
		type nat hook input priority 100; policy accept;
	}
}
`;
  expect(droppingChains(ruleset)).toEqual(['inet filter input']);
  expect(droppingChains('')).toEqual([]);
});
