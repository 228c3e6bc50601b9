/**
 * A hundred simulated machines of one cluster boot from one boot host: DHCP, boot script,
 * configuration, reports, ticket, facts, plans, heartbeats. Their messages are real; kernel, etcd
 * and kubectl are simulated (src/lab/simulated/machine.socket.ts).
 */
import { createHash, X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FoundingStatus } from '../../src/cluster/etcd/status.ts';
import { type BootHost, importKubelet, openBootHost } from '../../src/lab/simulated/boot-host.files.ts';
import { CLUSTER } from '../../src/lab/simulated/documents.files.ts';
import type { FleetResult, MachineResult } from '../../src/lab/simulated/fleet.files.ts';

const MACHINES = 100;
const PER_SECOND = 20;

let host: BootHost;
let result: FleetResult;

beforeAll(async () => {
  host = await openBootHost(MACHINES);
  importKubelet(host, 'a program\n'.repeat(10_000));
  // The control planes arrive among the workers, the last one late; until then all others wait.
  const [one, two, three, ...workers] = host.machines;
  const machines = [
    ...workers.slice(0, 10),
    two!,
    ...workers.slice(10, 40),
    three!,
    ...workers.slice(40, 80),
    one!,
    ...workers.slice(80),
  ];
  result = await host.powerOn({ machines, perSecond: PER_SECOND, keep: true });
}, 300_000);
afterAll(() => host?.close());

const isMember = ({ name }: MachineResult): boolean => name.startsWith('cp');
const files = (machine: MachineResult): Readonly<Record<string, string>> => machine.kept!.files;
const addressOf = (name: string): string => host.machines.find((one) => one.name === name)!.address;
const json = <T>(...words: string[]): T => JSON.parse(host.muster(...words, '-o', 'json')) as T;

/** A machine's own certificates among its files, by the leaf whose key they are for. */
function certificates(machine: MachineResult): ReadonlyMap<string, X509Certificate> {
  const byPin = new Map(Object.entries(machine.kept!.pins).map(([leaf, pin]) => [pin, leaf]));
  const found = new Map<string, X509Certificate>();
  const texts = Object.entries(files(machine)).flatMap(([path, text]) => [
    text,
    // A kubeconfig has its certificate in base64.
    ...(path.endsWith('.conf')
      ? [...text.matchAll(/client-certificate-data: (\S+)/g)].map(([, data]) =>
          String(Buffer.from(data!, 'base64')),
        )
      : []),
  ]);
  for (const text of texts)
    for (const [pem] of text.matchAll(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/g)) {
      const certificate = new X509Certificate(pem);
      const leaf = byPin.get(pinOf(certificate));
      if (leaf !== undefined) found.set(leaf, certificate);
    }
  return found;
}

function pinOf(certificate: X509Certificate): string {
  return createHash('sha256')
    .update(certificate.publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}

test('all machines become ready at the addresses that are reserved for them', () => {
  expect(result.machines).toHaveLength(MACHINES);
  for (const { name, hostname, leased } of result.machines) {
    expect(hostname).toBe(name);
    // Firmware, iPXE and initrd all get that address.
    expect(leased).toEqual([addressOf(name), addressOf(name), addressOf(name)]);
  }
  const { items } = json<{ items: readonly { status: { phase: string } }[] }>('get', 'machines');
  expect(items.map(({ status }) => status.phase)).toEqual(Array.from({ length: MACHINES }, () => 'ready'));
});

test('each agent has its own certificate for its own key and name, which the ledger records', () => {
  const shown = result.machines.map(({ name, pin, certificate }) => {
    const read = new X509Certificate(certificate);
    expect(read.subject).toBe(`O=muster:agents\nCN=${name}`);
    expect(pinOf(read)).toBe(pin);
    return read.serialNumber.toLowerCase();
  });
  expect(new Set(shown).size).toBe(MACHINES);
  expect(new Set(result.machines.map(({ pin }) => pin)).size).toBe(MACHINES);
});

test('each machine has its own certificates of the cluster, which name it and no other', () => {
  const serials: string[] = [];
  for (const machine of result.machines) {
    const own = certificates(machine);
    // The applier's key is deleted once the objects exist.
    expect([...own.keys()].sort()).toEqual(Object.keys(machine.kept!.pins).sort());
    serials.push(...[...own.values()].map(({ serialNumber }) => serialNumber));
    expect(own.get('kubelet')!.subject).toBe(`O=system:nodes\nCN=system:node:${machine.name}`);
    expect(own.get('kubelet-serving')!.subjectAltName).toBe(
      `DNS:${machine.name}, IP Address:${addressOf(machine.name)}`,
    );
    const peer = own.get('etcd-peer');
    expect(peer !== undefined).toBe(isMember(machine));
    if (peer) expect(peer.subjectAltName).toContain(`IP Address:${addressOf(machine.name)}`);
  }
  expect(new Set(serials).size).toBe(serials.length);
  expect(serials.length).toBe(2 * (MACHINES - 3) + 12 * 3);
});

test('a worker’s plan names itself and the control planes, but no other worker, and has no CA’s key', () => {
  for (const machine of result.machines) {
    expect(files(machine)['/etc/hostname']).toBe(`${machine.name}\n`);
    if (isMember(machine)) continue;
    const text = JSON.stringify(files(machine));
    expect([...new Set(text.match(/worker-\d+/g))]).toEqual([machine.name]);
    const named = new Set(text.match(/10\.92\.16\.\d+/g));
    expect([...named].sort()).toEqual(
      [...['cp1', 'cp2', 'cp3'].map(addressOf), addressOf(machine.name)]
        .filter((one) => named.has(one))
        .sort(),
    );
    expect(Object.keys(files(machine)).filter((path) => /\/(ca|sa|front-proxy-ca)\.key$/.test(path))).toEqual(
      [],
    );
    expect(machine.kept!.units).toContain('kubelet.service');
  }
});

test('etcd is founded once, when all three members have asked; machines that came earlier waited for them', () => {
  const members = result.machines.filter(isMember);
  const markers = members.map(({ name, kept }) => {
    const [cluster, founding, member, machine] = kept!.marker.split(' ');
    expect([cluster, member, machine]).toEqual([CLUSTER, name, name]);
    return founding;
  });
  expect(new Set(markers).size).toBe(1);
  const status = json<FoundingStatus>('cluster', 'founding', CLUSTER);
  expect(status.record).toMatchObject({ id: markers[0], founded: {} });
  expect(status.members.map(({ decision }) => decision?.do)).toEqual(['start', 'start', 'start']);
  const early = result.machines.slice(0, 10).map(({ holds }) => holds);
  expect(new Set(early.flat())).toEqual(new Set(['waiting-for-members']));
  expect(early.every(({ length }) => length === 1)).toBe(true);
  const manifests = members.map((member) => files(member)['/etc/kubernetes/manifests/etcd.yaml']!);
  for (const manifest of manifests)
    for (const { name } of members) expect(manifest).toContain(addressOf(name));
  // The CAs' keys were made once.
  expect(new Set(members.map((member) => files(member)['/etc/kubernetes/pki/ca.key'])).size).toBe(1);
});

test('every machine fetched what its plan names from this boot host, and no request was refused', () => {
  expect(result.machines.map(({ fetched }) => fetched)).toEqual(Array.from({ length: MACHINES }, () => 1));
  const events = json<readonly { kind: string; subject: string }[]>('events');
  expect(new Set(events.map(({ kind }) => kind))).toContain('agent.certificate');
  const refusals = events.filter(({ kind }) => /refused|alarm|disbelieved|conflict|exhausted/.test(kind));
  expect(refusals).toEqual([]);
});
