/** What is put down on a machine with its first configuration. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { type AgentSettings, agentLayer, selectorText, settingsText } from '../../../src/agent/layer.ts';
import { AGENT_HOLDS, CHECKS } from '../../../src/agent/plan.ts';
import { expand } from '../../../src/ignition/template.ts';
import { nodeConfig } from '../../../src/resources/nodeconfig.ts';

const SOURCE = path.join(import.meta.dirname, '../../../src/agent');

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

test('scripts, CA and unit are written as the files say, the settings for root alone', () => {
  const { config } = agentLayer(SETTINGS);
  expect(nodeConfig.safeParse(config).success).toBe(true);
  const files = new Map(config.files!.map((file) => [file.path, file]));
  expect(files.has('/etc/muster/muster-boot.sh')).toBe(false);
  const scripts = fs.readdirSync(SOURCE).filter((file) => file.endsWith('.sh') && file !== 'muster-boot.sh');
  for (const name of scripts) {
    const file = files.get(`/etc/muster/${name}`);
    const text = expand(file!.content!, {});
    expect(text).toEqual({ ok: true, text: fs.readFileSync(path.join(SOURCE, name), 'utf8') });
  }
  expect(files.get('/etc/muster/ca.crt')).toMatchObject({ mode: '0644', content: 'PEM\n' });
  expect(files.get('/etc/muster/agent.conf')).toMatchObject({ mode: '0600' });
  expect(files.get('/etc/muster/agent.conf')!.content).toBe(
    'server=https://10.0.0.1:8443\nmachine=cp1\nsession=S-1\nticket=T-1\ndata=serial=WD-1 size=10000-\nclock=set\ntime=1700000000\n',
  );
  expect(config.units).toEqual([
    {
      name: 'muster-agent.service',
      enabled: true,
      contents: fs.readFileSync(path.join(SOURCE, 'muster-agent.service'), 'utf8'),
    },
  ]);
});

test('a machine with a boot disk also has the script that writes it, and is told what it booted from', () => {
  const file = (name: string) => ({ url: `http://10.0.0.1:8080/assets/${name}`, sha256: name.repeat(64) });
  const boot = { disk: { serial: 'B-1' }, kernel: file('a'), initrds: [file('b'), file('c')] };
  const files = new Map(agentLayer({ ...SETTINGS, boot }).config.files!.map((one) => [one.path, one]));
  expect(expand(files.get('/etc/muster/muster-boot.sh')!.content!, {})).toEqual({
    ok: true,
    text: fs.readFileSync(path.join(SOURCE, 'muster-boot.sh'), 'utf8'),
  });
  const conf = files.get('/etc/muster/agent.conf')!.content!.split('\n');
  const said = ({ url, sha256 }: ReturnType<typeof file>) => `${url} ${sha256}`;
  expect(conf).toContain('boot=serial=B-1');
  expect(conf).toContain(`kernel=${said(file('a'))}`);
  expect(conf).toContain(`initrds=${said(file('b'))} ${said(file('c'))}`);
});

test('settings that would be read as something else are refused', () => {
  expect(() => settingsText({ ...SETTINGS, ticket: 'x\nserver=https://evil' })).toThrow(RangeError);
  for (const data of [{}, { serial: 'a b' }, { path: '/dev/$(x)' }, { path: '/dev/a\nb' }])
    expect(() => selectorText(data)).toThrow(RangeError);
  expect(selectorText({ path: '/dev/disk/by-id/x', maxMiB: 5 })).toBe('path=/dev/disk/by-id/x size=-5');
});

test('every reason and check of the scripts stands in its table, and the other way round', () => {
  const read = (name: string) => fs.readFileSync(path.join(SOURCE, name), 'utf8');
  const scripts = ['muster-agent.sh', 'muster-plan.sh', 'muster-kept.sh']
    .map(read)
    .join('')
    .replaceAll(/^ *#.*$/gm, '');
  const codes = [...scripts.matchAll(/\b(?:try|hold) ([a-z][a-z-]+) /g)].map((found) => found[1]!);
  expect([...new Set(codes)].sort()).toEqual(Object.keys(AGENT_HOLDS).sort());
  const checks = [...read('muster-check.sh').matchAll(/^ {2}([a-z0-9-]+)\)/gm)].map((found) => found[1]!);
  expect(checks.sort()).toEqual(Object.keys(CHECKS).sort());
});

test('a script is at most 430 lines long, and no shell refuses it', () => {
  for (const name of fs.readdirSync(SOURCE).filter((file) => file.endsWith('.sh'))) {
    const file = path.join(SOURCE, name);
    expect(fs.readFileSync(file, 'utf8').split('\n').length).toBeLessThanOrEqual(430);
    for (const [command, ...args] of [['dash'], ['busybox', 'sh'], ['bash', '--posix']])
      execFileSync(command!, [...args, '-n', file]);
  }
});
