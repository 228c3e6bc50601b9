/**
 * The shipped unit under a real systemd: sandbox, sockets by the generator, reload, restart,
 * activation. It runs in its own namespaces with the host's file system read-only
 * (systemd-guest.sh). Needs root and scripts/in-namespace.sh.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { underSystemd } from './under-systemd.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-manager-'));
const facts = new Map<string, string>();
let everything = '';

beforeAll(async () => {
  fs.chmodSync(dir, 0o755);
  execFileSync('make', ['install', `DESTDIR=${dir}`], { stdio: ['ignore', 'ignore', 'inherit'] });
  everything = await underSystemd('systemd-guest.sh', [dir], 200);
  const probe = /=== probe\n([\s\S]*?)\nEND/.exec(everything)?.[1] ?? '';
  for (const line of probe.split('\n')) {
    const at = line.indexOf(': ');
    if (at > 0) facts.set(line.slice(0, at), line.slice(at + 2).trim());
  }
}, 240_000);

afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const fact = (name: string): string => {
  const value = facts.get(name);
  if (value === undefined) throw new Error(`the probe did not get to "${name}"; all it said:\n${everything}`);
  return value;
};

describe('the service under systemd', () => {
  it('under systemd the service starts in its sandbox without capabilities and reports what it serves', () => {
    expect(fact('state')).toBe('active');
    expect(fact('status')).toMatch(/^1 network,/);
    expect(fact('uid')).toBe('muster');
    expect(fact('capabilities')).toBe('0000000000000000 0000000000000000');
    expect(fact('seccomp')).toBe('2');
  });

  it('under systemd the service gets its sockets from the manager, bound to the interface', () => {
    expect(fact('bound')).toBe('rack0:4011 rack0:67 rack0:69');
    expect(fact('http')).toBe('200');
  });

  it('under systemd the service is ready for operators of its group', () => {
    expect(fact('socket')).toBe('660 muster muster');
    expect(fact('muster')).toMatch(/^muster [0-9.]+: ready/);
  });

  it('systemctl reload reloads the service, and reports an invalid document', () => {
    expect(fact('reload')).toBe('0');
    expect(fact('reload of nonsense')).not.toBe('0');
  });

  it('a unit without network and rights runs programs of clusters for the service, and for nobody else', () => {
    expect(fact('judged')).toMatch(/^end given \/dev \/etc( \/lib(64)?)+ \/program \/tmp$/);
    expect(fact('judged by strangers')).toMatch(/^not-start .*EACCES/);
  });

  it('a unit that may change interfaces holds the boot address of the settings for the service, and no other', () => {
    expect(fact('boot addresses')).toBe('10.88.0.2/24');
    expect(Number(fact('served by it'))).toBeGreaterThan(0);
    expect(fact('address check')).toBe('1');
    expect(fact('addresses afterwards')).toBe('none');
  });

  it('the stopped service ends cleanly and is started again by the next machine’s request', () => {
    expect(fact('stopped')).toBe('inactive success');
    expect(fact('http starts it')).toBe('200 active');
  });

  it('the signer has a user of its own, no network and no rights, and the server starts with its key there', () => {
    expect(fact('with the signer')).toBe('0 active active');
    expect(fact('signer runs as')).toBe('muster-signer 0000000000000000 2');
    expect(fact('signer has')).toBe("not the host's network");
    expect(fact('signer says')).toMatch(/^keys of the vault: [0-9a-f]{16}; .*log: [1-9]/);
    expect(fact('key in the server')).toBe('0');
  });

  it('A server that was taken over reaches nothing of the signer’s directory', () => {
    expect(fact('server looks')).toMatch(/muster-signer'?: Permission denied/);
  });

  it('A server that was taken over reaches no order of the signer: its socket is for root alone', () => {
    expect(fact('sockets of the signer')).toBe('600 root root 660 root muster');
    expect(fact('server orders')).toMatch(/cannot be reached: EACCES/);
  });

  it('the service listens on another interface after daemon-reload and restart', () => {
    expect(fact('with another interface')).toBe('0 3');
  });
});
