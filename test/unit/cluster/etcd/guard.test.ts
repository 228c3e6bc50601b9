/**
 * The guard in etcd's unit, run by sh: without a grant of this boot etcd does not begin, and it
 * never begins twice.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { etcdGrant, etcdUnit } from '../../../../src/cluster/plan/etcd-service.ts';
import { FOUNDING, resolved } from '../kit.ts';

const cluster = resolved();
const [machine] = cluster.machines;
const unit = etcdUnit(cluster, machine!, '0123456789abcdef');

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'muster-guard-'));
  mkdirSync(join(root, 'var/lib/etcd'), { recursive: true });
  mkdirSync(join(root, 'var/lib/muster'), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true }));

/** Runs a command of the unit below `root`, with systemd's `$$` replaced; true when it succeeds. */
function succeeds(setting: string, grant = ''): boolean {
  const line = unit.split('\n').find((one) => one.startsWith(`${setting}=`))!;
  const script = /^\w+=\/bin\/sh -c '(.*)'$/
    .exec(line)![1]!
    .replaceAll('$$', '$')
    .replaceAll('/var/', `${root}/var/`);
  return (
    spawnSync('/bin/sh', ['-c', script], { env: { MUSTER_ETCD_FOUNDING: grant, PATH: process.env.PATH } })
      .status === 0
  );
}

const grantOf = (state: 'new' | 'existing'): string =>
  etcdGrant(cluster, machine!, { ...FOUNDING, state })
    .trim()
    .slice('MUSTER_ETCD_FOUNDING='.length);

const withData = (): void => void mkdirSync(join(root, 'var/lib/etcd/member/wal'), { recursive: true });

test('the unit has no flag of founding; the grant has all of them, without white space', () => {
  expect(unit).not.toContain('initial-cluster');
  expect(grantOf('new').split(' ')).toEqual([
    '--initial-cluster=cp1=https://10.0.0.11:2380,cp2=https://10.0.0.12:2380,cp3=https://10.0.0.13:2380',
    '--initial-cluster-state=new',
    '--initial-cluster-token=founding-1',
  ]);
});

test('without data and without a grant of this boot etcd does not start', () => {
  expect(succeeds('ExecStartPre')).toBe(false);
  expect(succeeds('ExecStartPre', grantOf('new'))).toBe(true);
  expect(succeeds('ExecStartPre', grantOf('existing'))).toBe(true);
});

test('where data were, etcd does not begin again, but it may join', () => {
  withData();
  expect(succeeds('ExecStartPre')).toBe(true);
  expect(succeeds('ExecStartPost')).toBe(true);
  expect(existsSync(join(root, 'var/lib/muster/etcd-started'))).toBe(true);
  rmSync(join(root, 'var/lib/etcd/member'), { recursive: true });
  expect(succeeds('ExecStartPre', grantOf('new'))).toBe(false);
  expect(succeeds('ExecStartPre', grantOf('existing'))).toBe(true);
});

test('the leftovers of an interrupted start do not count as data', () => {
  mkdirSync(join(root, 'var/lib/etcd/member/wal.tmp'), { recursive: true });
  writeFileSync(join(root, 'var/lib/etcd/member/wal.tmp/0.wal'), '');
  expect(succeeds('ExecStartPre')).toBe(false);
  expect(succeeds('ExecStartPre', grantOf('new'))).toBe(true);
});
