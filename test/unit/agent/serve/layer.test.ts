/** The files of the agent in the first configuration of a machine. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { AGENT_BUNDLE } from '../../../../src/agent/scripts/bundle.ts';
import {
  type AgentSettings,
  agentLayer,
  selectorText,
  settingsText,
} from '../../../../src/agent/serve/layer.ts';
import { layerRequest, settingsFor } from '../../../../src/agent/serve/machine-layer.ts';
import { CHECKS } from '../../../../src/agent/wire/plan.ts';
import { withoutComments } from '../../../../src/base/script-text.files.ts';
import { expand } from '../../../../src/ignition/template.ts';
import { nodeConfig } from '../../../../src/resources/nodeconfig.ts';

const SOURCE = path.join(import.meta.dirname, '../../../../src/agent/scripts');

const SETTINGS: AgentSettings = {
  server: 'https://10.0.0.1:8443',
  machine: 'cp1',
  session: 'S-1',
  ticket: 'T-1',
  authority: 'PEM\n',
  data: { serial: 'WD-1', minMiB: 10_000 },
  setsClock: true,
  now: 1_700_000_000_999,
};

const scriptNames = fs.readdirSync(SOURCE).filter((file) => file.endsWith('.sh'));
const source = (name: string) => fs.readFileSync(path.join(SOURCE, name), 'utf8');
const shipped = (name: string) => withoutComments(`src/agent/scripts/${name}`, source(name));

test('scripts (without comments), CA and unit are those of the files; only root can read the settings', () => {
  const { config } = agentLayer(SETTINGS);
  expect(nodeConfig.safeParse(config).success).toBe(true);
  const files = new Map(config.files!.map((file) => [file.path, file]));
  expect(files.has('/etc/muster/muster-boot.sh')).toBe(false);
  for (const name of scriptNames.filter((file) => file !== 'muster-boot.sh')) {
    const file = files.get(`/etc/muster/${name}`);
    const text = expand(file!.content as string, {});
    expect(text).toEqual({ ok: true, text: shipped(name) });
  }
  expect(files.get('/etc/muster/ca.crt')).toMatchObject({ mode: '0644', content: 'PEM\n' });
  expect(files.get('/etc/muster/agent.conf')).toMatchObject({ mode: '0600' });
  expect(files.get('/etc/muster/agent.conf')!.content).toBe(
    `server=https://10.0.0.1:8443\nmachine=cp1\nsession=S-1\nagent=${AGENT_BUNDLE.digest}\nticket=T-1\ndata=serial=WD-1 size=10000-\nclock=set\ntime=1700000000\n`,
  );
  expect(config.units).toEqual([
    {
      name: 'muster-agent.service',
      enabled: true,
      contents: fs.readFileSync(path.join(SOURCE, 'muster-agent.service'), 'utf8'),
    },
  ]);
});

test('only a member of etcd learns of the etcd disk, of the narrowest document that names one', () => {
  const document = (kind: string, name: string, spec: object) =>
    ({ apiVersion: 'muster/v1', kind, metadata: { name }, spec }) as never;
  const confOf = (name: string, machine: object, profile: object, more: object = {}) => {
    const cluster = document('Cluster', 'blue', {
      dataDisk: { serial: 'D' },
      etcdDisk: { serial: 'E', encrypt: 'tpm' },
      kubernetes: { version: '1.36', controlPlanes: ['cp1'], workers: ['w1'], ...more },
    });
    const request = layerRequest(
      {
        machine: document('Machine', name, machine),
        profile: document('Profile', 'p', profile),
        cluster,
        agentCluster: cluster,
        image: undefined,
        network: undefined,
      },
      { name, session: 'S-1', baseUrl: 'http://10.0.0.1:8080' },
      () => '',
    );
    const settings = settingsFor(request, { port: 8443, authority: 'PEM\n', ticket: 'T', now: 0 });
    return settingsText(settings)
      .split('\n')
      .filter((line) => /^(data|etcd)/.test(line));
  };
  expect(confOf('cp1', {}, {})).toEqual(['data=serial=D', 'etcddisk=serial=E', 'etcdencrypt=tpm']);
  expect(confOf('cp1', { etcdDisk: { path: '/dev/vdz' } }, { etcdDisk: { serial: 'P' } })).toEqual([
    'data=serial=D',
    'etcddisk=path=/dev/vdz',
  ]);
  expect(confOf('w1', {}, {})).toEqual(['data=serial=D']);
  const external = { etcd: { topology: 'external', machines: ['e1'] } };
  expect(confOf('cp1', {}, {}, external)).toEqual(['data=serial=D']);
  expect(confOf('e1', {}, {}, external)).toContain('etcddisk=serial=E');
});

test('a machine with a boot disk also has the script that writes it, and learns what it booted from', () => {
  const file = (name: string) => ({
    url: `http://10.0.0.1:8080/assets/${name}`,
    sha256: name.repeat(64),
    size: 7,
  });
  const boot = { disk: { serial: 'B-1' }, kernel: file('a'), initrds: [file('b'), file('c')] };
  const files = new Map(agentLayer({ ...SETTINGS, boot }).config.files!.map((one) => [one.path, one]));
  expect(expand(files.get('/etc/muster/muster-boot.sh')!.content as string, {})).toEqual({
    ok: true,
    text: shipped('muster-boot.sh'),
  });
  const conf = files.get('/etc/muster/agent.conf')!.content!.toString().split('\n');
  const said = ({ url, sha256 }: ReturnType<typeof file>) => `${url} ${sha256} 7`;
  expect(conf).toContain('boot=serial=B-1');
  expect(conf).toContain(`kernel=${said(file('a'))}`);
  expect(conf).toContain(`initrds=${said(file('b'))} ${said(file('c'))}`);
});

test('settings that the agent would misread are refused', () => {
  expect(() => settingsText({ ...SETTINGS, ticket: 'x\nserver=https://evil' })).toThrow(RangeError);
  for (const data of [{}, { path: '/dev/a b' }, { path: '/dev/$(x)' }, { path: '/dev/a\nb' }])
    expect(() => selectorText(data)).toThrow(expect.objectContaining({ code: 'E_CONFIG' }));
  expect(selectorText({ serial: ' WD  WX/11 ' })).toBe('serial=WD_WX_11');
  expect(selectorText({ path: '/dev/disk/by-id/x', maxMiB: 5 })).toBe('path=/dev/disk/by-id/x size=-5');
});

test('the tables have exactly the hold codes and checks of the scripts', () => {
  const [, table] = fs
    .readFileSync(path.join(SOURCE, '../README.md'), 'utf8')
    .split('| code | why the agent stopped');
  const described = [...table!.split('\n\n')[0]!.matchAll(/^\| `([a-z-]+)` \|/gm)].map((row) => row[1]!);
  const commands = ['muster-boot.sh', 'muster-check.sh', 'muster-disk.sh'];
  const scripts = scriptNames
    .filter((name) => !commands.includes(name))
    .map(shipped)
    .join('');
  const codes = [...scripts.matchAll(/\b(?:try|hold) ([a-z][a-z-]+) /g)].map((found) => found[1]!);
  expect([...new Set(codes)].sort()).toEqual(described.sort());
  const checks = [...source('muster-check.sh').matchAll(/^ {2}([a-z0-9-]+)\)/gm)].map((found) => found[1]!);
  expect(checks.sort()).toEqual(Object.keys(CHECKS).sort());
});

test('every shell accepts the scripts', () => {
  for (const name of scriptNames)
    for (const [command, ...args] of [['dash'], ['busybox', 'sh'], ['bash', '--posix']])
      execFileSync(command!, [...args, '-n', path.join(SOURCE, name)]);
});

test('the agent sources every script that is not a command, and those are installed with it', () => {
  const parts = /^parts='([^']*)'$/m.exec(source('muster-agent.sh'))![1]!.split(/\s+/);
  const commands = ['agent', 'boot', 'check', 'disk', 'format', 'luks', 'start'];
  expect([...parts, ...commands].map((part) => `muster-${part}.sh`).sort()).toEqual(scriptNames.sort());
});

test('a script without its comments is the same program', () => {
  // bash prints the script as it parsed it: comments are gone or empty lines, and everything else
  // stays.
  const program = (text: string) =>
    execFileSync('bash', ['--posix', '--pretty-print'], { input: text, encoding: 'utf8' }).replaceAll(
      /\n+/g,
      '\n',
    );
  for (const name of scriptNames) {
    expect(shipped(name).match(/^\s*#.*$/gm)).toHaveLength(2);
    expect(program(shipped(name))).toBe(program(source(name)));
  }
  expect(program('a="\n# text\n"\n')).not.toBe(program(withoutComments('', '#!/bin/sh\na="\n# text\n"\n')));
});
