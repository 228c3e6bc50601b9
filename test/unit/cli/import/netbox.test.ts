/**
 * `muster import netbox` from a server that answers as NetBox's serializers do: 4.2 and newer list
 * several hardware addresses, older ones have one.
 */
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { loadAll } from 'js-yaml';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openWorld, type World } from '../../api/world.ts';
import { type Ran, run } from '../run.ts';

const slug = (name: string) => ({ id: 1, url: 'u', display: name, name, slug: name.toLowerCase() });
const device = (id: number, name: string | null, more: object = {}) => ({
  id,
  url: `https://netbox.example/api/dcim/devices/${id}/`,
  display: name ?? 'x',
  name,
  device_type: { id: 1, model: 'R640', manufacturer: slug('Dell') },
  role: slug('Server'),
  serial: `S-${id}`,
  site: slug('AMS1'),
  location: slug('Hall-2'),
  rack: { id: 3, url: 'u', display: 'B07', name: 'B07' },
  position: 12.0,
  face: { value: 'front', label: 'Front' },
  status: { value: 'active', label: 'Active' },
  primary_ip4: { id: 7, address: `10.77.0.${id}/24`, family: { value: 4, label: 'IPv4' } },
  oob_ip: { id: 8, address: `10.99.0.${id}/24` },
  custom_fields: {},
  ...more,
});
const card = (id: number, of: number, name: string, mac: string | null, more: object = {}) => ({
  id,
  device: { id: of, display: 'x', name: 'x' },
  name,
  type: { value: '25gbase-x-sfp28', label: 'SFP28 (25GE)' },
  mgmt_only: false,
  mac_address: mac,
  ...more,
});

let lists: Record<string, readonly { readonly id: number; readonly device?: { readonly id: number } }[]>;
let asked: http.IncomingMessage[];
let answer: ((request: http.IncomingMessage, response: http.ServerResponse) => boolean) | undefined;
let world: World;
let server: http.Server;
let url: string;

beforeEach(async () => {
  world = await openWorld();
  answer = undefined;
  asked = [];
  lists = {
    'dcim/devices': [
      device(11, 'Node-11'),
      device(12, 'node-12', { position: 3.5, primary_ip4: null, location: null, serial: '' }),
      device(13, null),
      device(14, 'old', { status: { value: 'decommissioning', label: 'x' } }),
      device(15, 'bare'),
    ],
    'dcim/interfaces': [
      card(1, 11, 'eno1', '52:54:00:AA:11:01', {
        mac_addresses: [{ mac_address: '52:54:00:AA:11:01' }, { mac_address: '52:54:00:AA:11:02' }],
      }),
      card(2, 11, 'idrac', '52:54:00:AA:11:99', { mgmt_only: true }),
      card(3, 11, 'bond0', '52:54:00:AA:11:98', { type: { value: 'lag', label: 'LAG' } }),
      card(4, 12, 'eno1', '52:54:00:AA:12:01'),
      card(5, 15, 'eno1', null),
    ],
  };
  server = http.createServer((request, response) => {
    asked.push(request);
    if (answer?.(request, response)) return;
    const { pathname, searchParams } = new URL(request.url!, 'http://x');
    const all = lists[pathname.replace(/^\/netbox\/api\/|\/$/g, '')];
    if (request.headers.authorization !== 'Token abc' || all === undefined) {
      response.writeHead(403).end('{"detail":"Invalid token"}');
      return;
    }
    const of = searchParams.getAll('device_id').map(Number);
    const found = of.length === 0 ? all : all.filter(({ device: { id } = { id: 0 } }) => of.includes(id));
    // This server gives two at a time, whatever is asked for.
    const offset = Number(searchParams.get('offset'));
    const results = found.slice(offset, offset + 2);
    response.end(JSON.stringify({ count: found.length, next: 'http://elsewhere/', previous: null, results }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/netbox`;
});
afterEach(async () => {
  server.close();
  await world.close();
});

const muster = (words: readonly string[], token = 'abc'): Promise<Ran> =>
  run(words, { socket: world.socket, env: { NETBOX_TOKEN: token } });
const imported = (...words: string[]) => muster(['import', 'netbox', url, ...words]);

test('devices become Machines with the labels of their place; what makes none is a note', async () => {
  const { out, err } = await imported('--profile', 'worker', '--bmc', '--filter', 'site=ams1&role=server');
  expect(loadAll(out)).toEqual([
    {
      apiVersion: 'muster/v1',
      kind: 'Machine',
      metadata: {
        name: 'node-11',
        labels: { netbox: '11', site: 'ams1', room: 'hall-2', rack: 'B07', unit: '12' },
      },
      spec: {
        macs: ['52:54:00:aa:11:01', '52:54:00:aa:11:02'],
        serial: 'S-11',
        profile: 'worker',
        addresses: ['10.77.0.11'],
        bmc: { address: '10.99.0.11' },
      },
    },
    {
      apiVersion: 'muster/v1',
      kind: 'Machine',
      metadata: { name: 'node-12', labels: { netbox: '12', site: 'ams1', rack: 'B07', unit: '3.5' } },
      spec: { macs: ['52:54:00:aa:12:01'], profile: 'worker', bmc: { address: '10.99.0.12' } },
    },
  ]);
  expect(err.split('\n')).toEqual([
    'note: device 13 makes no Machine: it has no name',
    'note: old makes no Machine: it is being decommissioned',
    'note: bare makes no Machine: no interface of it has a hardware address',
    '',
  ]);
  expect(asked[0]!.url).toBe('/netbox/api/dcim/devices/?site=ams1&role=server&limit=500&offset=0');
});

test('what only the server knows stays, and a machine that was renamed there is found', async () => {
  const file = path.join(world.directory, 'before.txt');
  fs.writeFileSync(
    file,
    `apiVersion: muster/v1
kind: Machine
metadata: {name: web-1, labels: {netbox: "11", team: red, rack: A01}}
spec: {macs: ["52:54:00:aa:11:01"], profile: worker, boot: disk}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: gone, labels: {netbox: "99"}}
spec: {macs: ["52:54:00:aa:99:01"]}
`.replace(', boot: disk', ''),
  );
  expect((await muster(['apply', '-f', file])).code).toBe(0);
  const { out, err } = await imported('--update');
  const [first] = loadAll(out) as { metadata: object; spec: object }[];
  expect(first).toMatchObject({
    metadata: { name: 'web-1', labels: { netbox: '11', team: 'red', rack: 'B07' } },
    spec: { macs: ['52:54:00:aa:11:01', '52:54:00:aa:11:02'], profile: 'worker', addresses: ['10.77.0.11'] },
  });
  expect(err).toContain('note: node-11 is Machine web-1 here, and keeps this name\n');
  expect(err).toContain('note: Machine gone is device 99, which is not among those that NetBox listed\n');
  fs.writeFileSync(file, out);
  const { out: diff } = await muster(['diff', '-f', file]);
  expect(diff).toMatch(/^-.*rack: A01$[\s\S]*^\+.*rack: B07$/m);
  expect(diff).not.toMatch(/^-.*team/m);
});

test('a token is sent in the form of its version, and to nobody else', async () => {
  await muster(['import', 'netbox', url], 'nbt_k.t');
  expect(asked.at(-1)!.headers.authorization).toBe('Bearer nbt_k.t');
  answer = (_request, response) => {
    response.writeHead(302, { location: `${url}/elsewhere` }).end();
    return true;
  };
  const { code, err } = await imported();
  expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('name that address') });
  expect(asked.filter((request) => request.url?.includes('elsewhere'))).toEqual([]);
});

test('answers that are none of NetBox, a wrong token and a missing one are named', async () => {
  const says = async (text: string, status = 200) => {
    answer = (_request, response) => {
      response.writeHead(status).end(text);
      return true;
    };
    return (await imported()).err;
  };
  expect(await says('<html>')).toContain('is this NetBox?');
  expect(await says('{"count":1,"results":[{"id":"x"}]}')).toContain('results.0.id');
  expect(await says('busy', 503)).toContain('status 503: busy');
  // A count that no item follows ends.
  expect(await says('{"count":5,"results":[]}')).toBe('');
  answer = undefined;
  expect((await muster(['import', 'netbox', url], 'wrong')).err).toContain('refuses the token (403)');
  expect((await muster(['import', 'netbox', url], '')).err).toContain('--token-file');
  expect((await muster(['import', 'netbox', 'netbox.example'])).code).toBe(2);
});
