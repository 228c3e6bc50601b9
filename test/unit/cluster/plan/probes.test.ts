/** What machines ask their own listeners while keys are rotated. */
import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { duration } from '../../../../src/base/duration.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

const probing = (lines: readonly PlanLine[]) =>
  lines.flatMap((line) =>
    line.do === 'probe'
      ? [
          `${line.listener} ${line.address}:${line.port} ${line.probes.map((one) => one.split('.')[0]).join(' ')}`,
        ]
      : [],
  );

const certificates = (lines: readonly PlanLine[]) =>
  new Map(
    lines.flatMap((line) =>
      line.do === 'put-with-key' && line.path.startsWith('/run/muster/probes/') && 'text' in line.content
        ? [
            [
              line.path.slice('/run/muster/probes/'.length, -'.pem'.length),
              new X509Certificate(line.content.text),
            ],
          ]
        : [],
    ),
  );

async function cluster() {
  const of = await rig();
  const polled = async (name: string) => (await settle(of.planner, new TestMachine(name))).lines;
  await polled('cp1');
  const make = async (name: 'ca' | 'etcd-ca' | 'front-proxy-ca' | 'encryption') => {
    const { generation } = await of.pki.transition('golden', name, { do: 'make' });
    of.clock.advance(duration('6s'));
    return generation;
  };
  return { ...of, polled, make };
}

test('no machine probes while every keyset has one generation', async () => {
  const { polled } = await cluster();
  for (const name of ['cp1', 'w1']) expect(probing(await polled(name))).toEqual([]);
});

test('a second generation of a CA is probed by every machine that has a listener of it', async () => {
  const { polled, make, pki } = await cluster();
  const next = await make('ca');
  const lines = await polled('cp1');
  expect(probing(lines)).toEqual([
    'kube-apiserver 10.0.0.11:6443 ca ca',
    'kubelet 10.0.0.11:10250 ca ca',
    'kube-controller-manager 127.0.0.1:10257 ca ca',
    'kube-scheduler 127.0.0.1:10259 ca ca',
  ]);
  expect(probing(await polled('w1'))).toEqual(['kubelet 10.0.0.21:10250 ca ca']);
  const { primary } = (await pki.keysets('golden')).get('ca')!;
  expect([...certificates(lines).keys()].sort()).toEqual([`ca.${next}`, `ca.${primary}`].sort());
  for (const certificate of certificates(lines).values()) expect(certificate.subject).toBe('CN=muster-probe');
});

test('the same probes are put down with every poll, until they near their end', async () => {
  const { polled, make, clock, planner } = await cluster();
  await make('ca');
  const machine = new TestMachine('w1');
  const serials = async () =>
    [...certificates((await settle(planner, machine)).lines).values()].map(
      ({ serialNumber }) => serialNumber,
    );
  const first = await serials();
  expect(await serials()).toEqual(first);
  clock.advance(duration('3h'));
  const later = await serials();
  expect(later).toHaveLength(2);
  expect(later.filter((one) => first.includes(one))).toEqual([]);
  expect(await polled('w1')).not.toEqual([]);
});

test('members of etcd probe etcd, and API servers are asked for the encryption that they loaded', async () => {
  const { polled, make } = await cluster();
  await make('etcd-ca');
  await make('encryption');
  const lines = await polled('cp1');
  expect(probing(lines)).toEqual([
    'kube-apiserver 10.0.0.11:6443 front-proxy-ca',
    'kube-controller-manager 127.0.0.1:10257 front-proxy-ca',
    'kube-scheduler 127.0.0.1:10259 front-proxy-ca',
    'etcd-client 10.0.0.11:2379 etcd-ca etcd-ca',
    'etcd-peer 10.0.0.11:2380 etcd-ca etcd-ca',
  ]);
  expect(lines.filter((line) => line.do === 'read-encryption')).toEqual([
    {
      do: 'read-encryption',
      address: '10.0.0.11',
      port: 6443,
      probe: expect.stringMatching(/^front-proxy-ca\./),
    },
  ]);
  expect(probing(await polled('w1'))).toEqual([]);
});

test('API servers are asked for their encryption by a client whose CA they trust, not by one that only a bridge makes good', async () => {
  const { polled, make, pki, clock } = await cluster();
  const before = (await pki.keysets('golden')).get('front-proxy-ca')!.primary;
  const next = await make('front-proxy-ca');
  await make('encryption');
  await pki.transition('golden', 'front-proxy-ca', { do: 'promote', generation: next });
  const asks = async () => {
    clock.advance(duration('6s'));
    return (await polled('cp1')).flatMap((line) => (line.do === 'read-encryption' ? [line.probe] : []));
  };
  expect(await asks()).toEqual([`front-proxy-ca.${before}`]);
  await pki.transition('golden', 'front-proxy-ca', { do: 'distrust', generation: before });
  expect(await asks()).toEqual([`front-proxy-ca.${next}`]);
});
