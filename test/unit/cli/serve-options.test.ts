import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { hostPort, misspeltVariables, SERVE_SETTINGS, serveOptions } from '../../../src/cli/serve/options.ts';
import { makeStateDirectory } from '../../../src/cli/serve/state-directory.files.ts';

describe('settings of the server', () => {
  it('have defaults for everything', () => {
    expect(serveOptions({}, {})).toEqual({
      backupCommands: '/etc/muster/backup-commands',
      standby: [],
      config: undefined,
      state: '/var/lib/muster',
      socket: '/run/muster/muster.sock',
      interfaces: [],
      httpPort: 8080,
      agentPort: 8443,
      siblingPort: 8445,
      copyRate: 50 * 1024 * 1024,
      vaultKey: undefined,
      signer: undefined,
      metricsListen: undefined,
      operatorsListen: undefined,
      operatorsName: undefined,
      oidc: undefined,
      operatorsClientCa: undefined,
      operatorsPair: undefined,
      etcd: undefined,
      hostName: undefined,
      bootAddresses: [],
      requireSecondPerson: false,
      localWebhooks: false,
      loaders: ['/usr/lib/ipxe'],
      logLevel: 'info',
      auditBytes: 256 * 1024 * 1024,
    });
  });

  it('come from the environment, lists separated by commas', () => {
    const env = {
      MUSTER_CONFIG: '/etc/muster',
      MUSTER_INTERFACE: 'eth1, eth2,',
      MUSTER_LOADERS: '/a,/b',
      MUSTER_METRICS_LISTEN: '9090',
      MUSTER_LOG_LEVEL: 'debug',
    };
    const options = serveOptions({}, env);
    expect(options).toMatchObject({
      config: '/etc/muster',
      interfaces: ['eth1', 'eth2'],
      loaders: ['/a', '/b'],
    });
    expect(options).toMatchObject({ metricsListen: { host: '127.0.0.1', port: 9090 }, logLevel: 'debug' });
  });

  it('prefer the flag to the environment', () => {
    const env = { MUSTER_HTTP_PORT: '81', MUSTER_INTERFACE: 'eth9' };
    expect(serveOptions({ httpPort: '82', interface: ['eth1'] }, env)).toMatchObject({
      httpPort: 82,
      interfaces: ['eth1'],
    });
  });

  it('take an empty variable for none', () => {
    expect(serveOptions({}, { MUSTER_HTTP_PORT: '', MUSTER_CONFIG: '' })).toMatchObject({
      httpPort: 8080,
      config: undefined,
    });
  });

  it('name the flag or the variable that is wrong', () => {
    expect(() => serveOptions({ httpPort: 'x' }, {})).toThrow('--http-port: "x" is not a TCP port');
    expect(() => serveOptions({}, { MUSTER_HTTP_PORT: '70000' })).toThrow('MUSTER_HTTP_PORT: "70000"');
    expect(() => serveOptions({ logLevel: 'loud' }, {})).toThrow(
      '--log-level: "loud" is not a log level; use one of debug',
    );
  });

  it.for([
    ['127.0.0.1:9090', '127.0.0.1', 9090],
    ['[::1]:9090', '::1', 9090],
    ['localhost:1', 'localhost', 1],
    ['9090', '127.0.0.1', 9090],
  ] as const)('read %s as host and port', ([text, host, port]) => {
    expect(hostPort(text, 'x')).toEqual({ host, port });
  });

  it.for(['', ':1', '::1:9090', 'a:b', '1.2.3.4:', '1.2.3.4:0', '1.2.3.4:65536'])('refuse %s', (text) => {
    expect(() => hostPort(text, '--metrics-listen')).toThrow('--metrics-listen');
  });

  it('all have a variable named after their flag', () => {
    for (const { flag, env } of Object.values(SERVE_SETTINGS))
      expect(env).toBe(`MUSTER_${flag.split(' ')[0]!.slice(2).replaceAll('-', '_').toUpperCase()}`);
  });
});

describe('the environment', () => {
  it('is searched for misspelt settings', () => {
    const env = {
      MUSTER_INTERFACES: 'eth1',
      MUSTER_STATE: '/x',
      MUSTER_NATIVE: '0',
      MUSTER_NODE: '/n',
      PATH: '/',
    };
    expect(misspeltVariables(env)).toEqual([
      'MUSTER_INTERFACES in the environment is not a setting of Muster; did you mean MUSTER_INTERFACE?',
    ]);
  });
});

describe('the state directory', () => {
  it('is made with the directories above it', () => {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-state-'));
    makeStateDirectory(path.join(root, 'a', 'b'));
    makeStateDirectory(path.join(root, 'a', 'b'));
    expect(fs.statSync(path.join(root, 'a', 'b')).mode & 0o777).toBe(0o700);
    fs.rmSync(root, { recursive: true });
  });

  it('is refused at once where nothing can be made', () => {
    expect(() => makeStateDirectory('/proc/x/y')).toThrow(/^--state \/proc\/x\/y: ENOENT/);
  });
});

it('whether a second person confirms is yes or no, and nothing else', () => {
  expect(serveOptions({ requireSecondPerson: 'yes' }, {}).requireSecondPerson).toBe(true);
  expect(() => serveOptions({}, { MUSTER_REQUIRE_SECOND_PERSON: 'true' })).toThrow('neither yes nor no');
});
