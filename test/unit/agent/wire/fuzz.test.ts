/** Damaged input of agents is read or refused within its limits. */
import { expect, test } from 'vitest';
import { readShownTpm } from '../../../../src/agent/identity/tpm-shown.ts';
import { decodeFacts } from '../../../../src/agent/wire/decode-facts.ts';
import { readForm } from '../../../../src/agent/wire/form.ts';
import { damagedTexts, INPUTS, unless } from '../../fuzzing.ts';
import { shownBy, softwareTpm } from '../../pki/tpm/software-tpm.ts';

const POLLS = [
  {
    ...{
      agent: '1',
      bootid: 'b0070000-0000',
      machineid: 'm',
      clock: '1700000000',
      disk: 'ours',
      device: '/dev/sda2',
    },
    ...{
      filesystem: '5EED0000-1111',
      mounted: 'yes',
      marker: 'c f m n',
      wal: 'present',
      etcd: 'serving',
      etcdrev: '-',
    },
    ...{ api: 'ready', apirev: '0123abcd', applied: 'a'.repeat(64), step: 'units', revision: '12' },
    objects: 'Error from server\t(Forbidden)',
    ...{
      bootdisk: 'kept',
      boottext: 'it holds\nwhat',
      'pin.kubelet': 'b'.repeat(64),
      'csr.kubelet': '-----BEGIN\n',
    },
  },
  {
    ...{
      agent: '1',
      bootid: 'b',
      clock: '-1',
      disk: 'foreign',
      device: '/dev/sdb',
      detail: 'holds \u202e ext4',
    },
    ...{ etcddisk: 'ours', etcddevice: '/dev/sdc', etcdfilesystem: 'abc', etcdmarker: 'c f m n' },
    ...{ etcdmounted: 'yes', etcdencrypt: 'tpm', etcdencrypted: 'boot-host' },
    secrets: `db:password ${'0'.repeat(32)}\napp:tls.key ${'f'.repeat(32)}\n`,
    ...{ wal: 'absent', etcd: 'down', hold: 'guard', holdtext: 'etcd does not begin\tanew' },
    runs: 'kubelet 1.36.3\nkube-apiserver 1.35.6\n',
    image: 'd'.repeat(64),
    inventory:
      'cpu threads 8\nmemory 65536\ndmi bios_version 2.1\nnic eno1 52:54:00:aa:00:01 1 10000 ixgbe\n' +
      'disk NAME="sda" SIZE="480103981056" ROTA="0" SERIAL="S4"\nbmc 10.0.0.9\n' +
      'lldp {"Neighbors":[{"InterfaceName":"eno1","Neighbors":[{"PortID":"1"}]}]}\n',
    prefetched: `${'0'.repeat(16)} failed registry.k8s.io/pause:3.10 is not found`,
  },
  {
    ...{ agent: '3', bootid: 'b', clock: '1', disk: 'unused', wal: 'absent', etcd: 'down' },
    listeners:
      'kube-apiserver 0f3c ca.0123456789abcdef=accepted front-proxy-ca.fedcba9876543210=refused\nkubelet -\n',
    programs: 'kubelet ready 0f\nhaproxy alive -\n',
    tokens: `${'k'.repeat(43)} 12\n- 3\n`,
    tokenpods: `k ${'a'.repeat(32)}\n`,
    build: 'b'.repeat(64),
    refused: `${'c'.repeat(64)}.3 silent It did not report.`,
    ...{ kubeletissuer: '0f3c', encryption: 'e'.repeat(64) },
  },
].map((fields) => new URLSearchParams(fields).toString());

test('damaged forms are read or refused with E_USAGE, and none has more fields than it may', async () => {
  let taken = 0;
  await damagedTexts('forms of agents', POLLS, (body) => {
    const form = unless(['E_USAGE'], () => readForm(body));
    if (form === undefined) return;
    taken++;
    if (form.size > 128) throw new Error('too many fields');
    for (const [name, value] of form)
      if (name.length > 64 || value.includes('\0')) throw new Error('out of bounds');
  });
  expect(taken).toBeGreaterThan(INPUTS / 200);
});

test('damaged polls: facts or a reason, never an exception, and no value with a line break', async () => {
  let taken = 0;
  await damagedTexts('facts of agents', POLLS, (body) => {
    const read = decodeFacts(body);
    if (!read.ok) {
      if (read.text === '' || read.text.length > 200) throw new Error('no reason, or a long one');
      return;
    }
    taken++;
    const { disk, hold, bootDisk, clock } = read.facts;
    const said = `${'detail' in disk ? disk.detail : ''}${hold?.text ?? ''}${bootDisk?.text ?? ''}`;
    if (/[\p{Cc}\p{Cf}]/u.test(said) || said.length > 1500 || !Number.isSafeInteger(clock))
      throw new Error('out of bounds');
    const { listeners, programs, tokens } = read.facts.evidence ?? {};
    if ((listeners?.size ?? 0) > 6 || (programs?.size ?? 0) > 4 || (tokens?.size ?? 0) > 17)
      throw new Error('too much evidence');
    for (const { answers } of listeners?.values() ?? []) if (answers.size > 12) throw new Error('too much');
    const versions = Object.values(read.facts.runs ?? {});
    if (versions.length > 7 || versions.some((version) => !/^[0-9.]{5,12}$/.test(version)))
      throw new Error('no versions');
    if ('device' in disk && !disk.device.startsWith('/')) throw new Error('no path');
  });
  expect(taken).toBeGreaterThan(INPUTS / 200);
});

test('damaged texts of TPMs: keys or a reason, never an exception', async () => {
  const seeds = [shownBy(softwareTpm('ecc'), Buffer.alloc(600, 1)), shownBy(softwareTpm('rsa'))];
  let taken = 0;
  await damagedTexts('what TPMs show', seeds, (text) => {
    const read = readShownTpm(text);
    if (!read.ok) {
      if (read.text === '') throw new Error('no reason');
      return;
    }
    taken++;
    if (read.tpm.ak.name.length !== 34 || read.tpm.ek.publicKey.pin().length !== 64)
      throw new Error('no key');
  });
  expect(taken).toBeGreaterThan(INPUTS / 200);
});
