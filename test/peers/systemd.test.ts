/**
 * The installed server and its units: systemd accepts and rates the units, sockets are passed on,
 * sd_notify(3) is used, and no privilege is left. Needs root and scripts/in-namespace.sh.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-systemd-'));
const dest = path.join(dir, 'dest');
const lib = path.join(dest, 'usr/lib/muster');
const muster = path.join(dest, 'usr/bin/muster');

beforeAll(() => {
  // The service runs as another user, who must be able to reach these files.
  fs.chmodSync(dir, 0o755);
  // The umask of a host on which new files are only for their owner.
  const umask = process.umask(0o077);
  execFileSync('make', ['install', `DESTDIR=${dest}`], { stdio: ['ignore', 'ignore', 'inherit'] });
  process.umask(umask);
}, 120_000);

const children: ChildProcess[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  fs.rmSync(dir, { recursive: true, force: true });
});

/** Units as the generator writes them for these settings. */
function generate(settings: string): { readonly units: string; readonly complaints: string } {
  const units = fs.mkdtempSync(path.join(dir, 'units-'));
  const defaults = path.join(units, 'defaults');
  fs.writeFileSync(defaults, settings);
  const generator = path.join(dest, 'usr/lib/systemd/system-generators/muster-generator');
  const done = spawnSync(generator, [units], {
    env: { PATH: process.env.PATH, MUSTER_DEFAULTS: defaults },
    encoding: 'utf8',
  });
  expect(done.status).toBe(0);
  return { units, complaints: done.stderr };
}

describe('the installed form', () => {
  it('installed files can be read by all users and written only by their owner, whatever the umask', () => {
    const found = (...tests: string[]) =>
      execFileSync('find', [dest, '!', '-type', 'l', ...tests], { encoding: 'utf8' });
    // Documents hold password hashes.
    const documents = path.join(dest, 'etc/muster');
    expect(fs.statSync(documents).mode & 0o777).toBe(0o750);
    expect(found('!', '-path', documents, '!', '-perm', '-444')).toBe('');
    expect(found('-type', 'd', '!', '-path', documents, '!', '-perm', '-111')).toBe('');
    expect(found('-perm', '/022')).toBe('');
  });

  it('the installed form builds images in a cache directory, not below its own files', () => {
    for (const recipe of ['debian', 'discovery', 'probe']) {
      const words = [path.join(lib, 'images', recipe, 'build.sh'), '--print-directory'];
      const directory = execFileSync('sh', words, { encoding: 'utf8' });
      expect(directory).toMatch(/^\/var\/cache\/muster-images\//);
    }
  });
});

describe('the units', () => {
  it.each(['muster.service', 'muster-judge@.service', 'muster-signer.service', 'muster-address@.service'])(
    'systemd-analyze rates the exposure of %s at 2.0 or less',
    (name) => {
      const unit = path.join(dest, 'usr/lib/systemd/system', name);
      const rated = spawnSync(
        'systemd-analyze',
        ['security', '--offline=true', '--threshold=20', '--no-pager', unit],
        { encoding: 'utf8' },
      );
      expect(rated.stdout).toMatch(/exposure level for muster\S*.service: [01]\.[0-9]/);
      expect(rated.status).toBe(0);
    },
  );

  it('the service can neither take all memory of the host nor leave its keys in a core dump', () => {
    const service = fs.readFileSync(path.join(dest, 'usr/lib/systemd/system/muster.service'), 'utf8');
    const section = service.split('[Service]')[1]!.split('[Install]')[0]!;
    const limits = section.split('\n').filter((line) => /^(MemoryMax|MemorySwapMax|LimitCORE)=/.test(line));
    expect(limits).toEqual(['MemoryMax=2G', 'MemorySwapMax=0', 'LimitCORE=0']);
  });

  it('systemd-analyze accepts the units without a message', () => {
    const { units } = generate('MUSTER_INTERFACE=lo\n');
    const installed = path.join(dest, 'usr/lib/systemd/system');
    for (const name of fs.readdirSync(installed)) {
      const text = fs.readFileSync(path.join(installed, name), 'utf8');
      // systemd-analyze verify looks for commands at their installed paths.
      const here = text.replaceAll('/usr/bin/muster', muster).replaceAll('/usr/lib/muster', lib);
      fs.writeFileSync(path.join(units, name), here);
    }
    const files = fs.readdirSync(units).filter((name) => /\.(service|socket)$/.test(name));
    expect(files.sort()).toEqual([
      'muster-address.socket',
      'muster-address@.service',
      'muster-dhcp@lo.socket',
      'muster-http.socket',
      'muster-judge.socket',
      'muster-judge@.service',
      'muster-pxe@lo.socket',
      'muster-signer-operator.socket',
      'muster-signer.service',
      'muster-signer.socket',
      'muster-tftp@lo.socket',
      'muster.service',
    ]);
    const verified = spawnSync(
      'systemd-analyze',
      ['verify', '--man=no', '--recursive-errors=no', ...files.map((name) => path.join(units, name))],
      { encoding: 'utf8' },
    );
    expect(verified.stderr + verified.stdout).toBe('');
    expect(verified.status).toBe(0);
  });

  it('the units have one socket for each port and interface, with the names that the server expects', () => {
    const { units } = generate('# x\nMUSTER_INTERFACE="br-lan, eth0.10"\nMUSTER_HTTP_PORT=81\n');
    const read = (name: string): string => fs.readFileSync(path.join(units, name), 'utf8');
    expect(read('muster-dhcp@br-lan.socket')).toMatch(
      /ListenDatagram=0\.0\.0\.0:67\nBindToDevice=br-lan\nBroadcast=yes[\s\S]*FileDescriptorName=dhcp-br-lan/,
    );
    expect(read('muster-pxe@eth0.10.socket')).toMatch(/:4011\nBindToDevice=eth0\.10\n/);
    expect(read('muster-tftp@eth0.10.socket')).toMatch(/:69\nBindToDevice=eth0\.10\n/);
    expect(read('muster-http.socket')).toMatch(/ListenStream=0\.0\.0\.0:81\n/);
    expect(fs.readlinkSync(path.join(units, 'sockets.target.wants/muster-dhcp@br-lan.socket'))).toBe(
      '../muster-dhcp@br-lan.socket',
    );
  });

  it('the generator leaves out an invalid interface with a message, and never listens on all interfaces instead', () => {
    const { units, complaints } = generate(
      'MUSTER_INTERFACE=a/b,$(id),averylonginterfacename,eth1\nMUSTER_HTTP_PORT=x\n',
    );
    const sockets = fs.readdirSync(units).filter((name) => name.endsWith('.socket'));
    expect(sockets.sort()).toEqual([
      'muster-dhcp@eth1.socket',
      'muster-http.socket',
      'muster-pxe@eth1.socket',
      'muster-tftp@eth1.socket',
    ]);
    expect(complaints.match(/is not the name of an interface/g)).toHaveLength(3);
    expect(complaints).toContain('MUSTER_HTTP_PORT=x is not a port');
  });
});

/** Reads the lines of a stream one by one; waits at most `seconds` for each. */
function linesOf(child: ChildProcess): (fits: RegExp, seconds?: number) => Promise<string> {
  const lines: string[] = [];
  let wake = (): void => {};
  readline.createInterface({ input: child.stdout! }).on('line', (line) => {
    lines.push(line);
    wake();
  });
  return async (fits, seconds = 20) => {
    const late = AbortSignal.timeout(seconds * 1000);
    for (;;) {
      const at = lines.findIndex((line) => fits.test(line));
      if (at >= 0) return lines.splice(0, at + 1).at(-1)!;
      if (late.aborted) throw new Error(`no line ${fits} in ${seconds} s; there were:\n${lines.join('\n')}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
        late.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  };
}

/** A fake service manager, which prints each message that comes to its socket. */
const MANAGER = `use IO::Socket::UNIX; use Socket; $| = 1;
my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die $!; chmod 0777, $ARGV[0];
print "listening\\n"; while (1) { recv($s, my $text, 4096, 0); $text =~ s/\\n/ /g; print "$text\\n" }`;

const exit = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve) => child.once('exit', (code) => resolve(code)));

describe('the service', () => {
  const state = path.join(dir, 'state');
  const run = path.join(dir, 'run');
  const socket = path.join(run, 'muster.sock');
  const config = path.join(dir, 'config');
  const NOBODY = '65534';
  let service: ChildProcess;
  let heard: ReturnType<typeof linesOf>;

  const cli = (...words: string[]) => spawnSync(muster, [...words, '--socket', socket], { encoding: 'utf8' });

  beforeAll(async () => {
    execFileSync('ip', ['link', 'add', 'rack0', 'type', 'bridge']);
    execFileSync('ip', ['addr', 'add', '10.88.0.1/24', 'dev', 'rack0']);
    execFileSync('ip', ['link', 'set', 'rack0', 'up']);
    for (const place of [state, run, config]) fs.mkdirSync(place);
    fs.writeFileSync(
      path.join(config, 'net.yaml'),
      'apiVersion: muster/v1\nkind: Network\nmetadata: {name: rack}\nspec: {subnet: 10.88.0.0/24, dhcp: {mode: server}}\n',
    );
    for (const place of [state, run]) fs.chownSync(place, Number(NOBODY), Number(NOBODY));
    const manager = spawn('perl', ['-e', MANAGER, path.join(dir, 'notify')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(manager);
    heard = linesOf(manager);
    await heard(/^listening$/);
    // Like systemd: binds the sockets first, then starts the service as another user without
    // privileges.
    const unprivileged = path.join(dir, 'unprivileged');
    const drop = `setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all`;
    fs.writeFileSync(unprivileged, `#!/bin/sh\nexec ${drop} ${lib}/node/bin/node "$@"\n`, { mode: 0o755 });
    service = spawn(
      'perl',
      [
        `${lib}/systemd/bind-sockets.pl`,
        unprivileged,
        `${lib}/dist/server/main.js`,
        'serve',
        '--interface',
        'rack0',
      ],
      {
        env: {
          PATH: process.env.PATH,
          NOTIFY_SOCKET: path.join(dir, 'notify'),
          WATCHDOG_USEC: '900000',
          MUSTER_CONFIG: config,
          MUSTER_STATE: state,
          MUSTER_SOCKET: socket,
          NODE_COMPILE_CACHE: path.join(dir, 'cache'),
        },
        stdio: ['ignore', fs.openSync(path.join(dir, 'log'), 'w'), 'inherit'],
      },
    );
    children.push(service);
  });

  it('the service reports readiness and status to the service manager', async () => {
    expect(await heard(/READY=1/)).toContain('STATUS=1 network,');
  });

  it('the service runs as another user without capabilities, with its ports bound to the interface', () => {
    const status = fs.readFileSync(`/proc/${service.pid}/status`, 'utf8');
    expect(status).toMatch(/^Uid:\t65534\t65534\t65534\t65534$/m);
    for (const set of ['CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
      expect(status).toMatch(new RegExp(`^${set}:\\t0{16}$`, 'm'));
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    const bound = execFileSync('ss', ['-Hlun'], { encoding: 'utf8' });
    for (const port of [67, 69, 4011]) expect(bound).toContain(`%rack0:${port} `);
  });

  it('the service’s socket admits its operators and nobody else', () => {
    expect(fs.statSync(socket).mode & 0o777).toBe(0o660);
    expect(cli('status')).toMatchObject({ status: 0, stdout: expect.stringContaining('ready') });
    const stranger = spawnSync(
      'setpriv',
      [
        '--reuid',
        '12345',
        '--regid',
        '12345',
        '--clear-groups',
        muster,
        'get',
        'machines',
        '--socket',
        socket,
      ],
      { encoding: 'utf8', env: { PATH: process.env.PATH } },
    );
    expect(stranger.status).toBe(1);
    expect(stranger.stderr).toMatch(/neither root nor in group muster \(E_PERMISSION\)\n.*adduser/);
  });

  it('the service answers machines on the inherited socket', async () => {
    expect((await fetch('http://10.88.0.1:8080/boot.ipxe')).status).toBe(200);
  });

  it('the service sends the watchdog’s keep-alives in time', async () => {
    expect(await heard(/WATCHDOG=1/)).toBe('WATCHDOG=1');
  });

  it('the service reloads on SIGHUP and on `muster reload`, and reports it', async () => {
    fs.writeFileSync(
      path.join(config, 'profile.yaml'),
      'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: waits}\nspec: {boot: hold}\n',
    );
    service.kill('SIGHUP');
    await heard(/RELOADING=1/);
    await heard(/READY=1/);
    expect(cli('get', 'profiles', '-o', 'name').stdout).toBe('profile/waits\n');
    fs.writeFileSync(path.join(config, 'profile.yaml'), 'kind: Profile\n');
    const failed = cli('reload');
    expect(failed.status).toBe(1);
    expect(failed.stderr).toMatch(/profile\.yaml:1:1: .*apiVersion/);
    expect(cli('get', 'profiles', '-o', 'name').stdout).toBe('profile/waits\n');
  });

  it('a second server on the same socket is refused, and the first continues', () => {
    const second = spawnSync(muster, ['serve', '--state', path.join(dir, 'other'), '--socket', socket], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, LISTEN_FDS: '0', MUSTER_HTTP_PORT: '8099' },
      timeout: 90_000,
    });
    expect(second.status).toBe(1);
    expect(second.stderr).toContain('E_SOCKET_IN_USE');
    expect(cli('status').status).toBe(0);
  });

  it('on SIGTERM the service reports that it stops, ends with success and removes its socket', async () => {
    const ended = exit(service);
    service.kill('SIGTERM');
    await heard(/STOPPING=1/);
    expect(await ended).toBe(0);
    expect(fs.existsSync(socket)).toBe(false);
    expect(cli('status')).toMatchObject({ status: 1, stderr: expect.stringContaining('E_UNREACHABLE') });
  });
});

describe('activation', () => {
  it('under systemd-socket-activate a machine’s first request starts the server and is answered', async () => {
    const state = path.join(dir, 'activated');
    const activator = spawn(
      'systemd-socket-activate',
      [
        '--listen=127.0.0.1:8097',
        '--fdname=http',
        `--setenv=MUSTER_STATE=${state}`,
        `--setenv=MUSTER_SOCKET=${path.join(dir, 'activated.sock')}`,
        '--setenv=PATH',
        muster,
        'serve',
      ],
      { stdio: ['ignore', fs.openSync(path.join(dir, 'activated.log'), 'w'), 'pipe'] },
    );
    children.push(activator);
    await new Promise((resolve) => activator.stderr!.once('data', resolve));
    activator.stderr!.pipe(process.stderr);
    const answer = await fetch('http://127.0.0.1:8097/boot.ipxe');
    expect(answer.status).toBe(200);
    expect(await answer.text()).toMatch(/^#!ipxe/);
    const ended = exit(activator);
    activator.kill('SIGTERM');
    expect(await ended).toBe(0);
  });
});
