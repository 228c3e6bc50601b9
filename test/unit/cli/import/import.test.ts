/** Documents from tables and from inventories of Kubespray. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { csvRows, machinesFromCsv } from '../../../../src/cli/import/csv.ts';
import { importCsv, importKubespray } from '../../../../src/cli/import/import.files.ts';
import { expandRange, readInventory } from '../../../../src/cli/import/inventory.ts';
import { fromKubespray } from '../../../../src/cli/import/kubespray.ts';
import { parseDocuments } from '../../../../src/resources/document.ts';

let directory: string;
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-import-'));
});
afterEach(() => fs.rmSync(directory, { recursive: true }));

function write(name: string, text: string): string {
  const file = path.join(directory, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
  return file;
}

function io() {
  const [out, err]: [string[], string[]] = [[], []];
  const both = { out: (text: string) => out.push(text), err: (text: string) => err.push(text) };
  return { io: both as never, out: () => out.join(''), err: () => err.join('') };
}

test('a table becomes Machines that the schema takes', async () => {
  const file = write(
    'racks.csv',
    '\ufeffName,MAC,Address,Profile,Labels\r\nnode-1,52:54:00:00:00:01,10.77.0.11,worker,"rack=1 row=b"\r\n"node-2","52-54-00-00-00-02 52:54:00:00:00:03",,,\r\n',
  );
  const { io: to, out, err } = io();
  expect(await importCsv(file, {}, to)).toBe(0);
  expect(err()).toBe('');
  const { documents, faults } = parseDocuments(out(), 'out.yaml');
  expect(faults).toEqual([]);
  expect(documents.map(({ document }) => [document.metadata, document.spec])).toEqual([
    [
      { name: 'node-1', labels: { rack: '1', row: 'b' } },
      { macs: ['52:54:00:00:00:01'], addresses: ['10.77.0.11'], profile: 'worker' },
    ],
    [{ name: 'node-2' }, { macs: ['52:54:00:00:00:02', '52:54:00:00:00:03'] }],
  ]);
});

test('rows that make no Machine are named, and the exit code says so', async () => {
  const { io: to, err } = io();
  expect(await importCsv(write('a.csv', 'name,mac\nNode 1,52:54:00:00:00:01\n'), {}, to)).toBe(1);
  expect(err()).toContain('Machine Node 1: metadata.name: use lower-case letters');
});

test.each([
  ['', 'the table is empty'],
  ['name,macs\n', '"macs" is not a column; there are name, mac'],
  ['name\nnode-1\n', 'no column "mac"'],
  ['name,mac\na,b,c\n', 'row 2 has 3 fields'],
  ['name,mac\n"a,b\n', 'a quote does not end'],
  ['name,mac,labels\na,b,rack\n', 'label "rack" is not NAME=VALUE'],
])('a table %j is refused: %s', (text, message) => {
  expect(() => machinesFromCsv(text)).toThrow(message);
});

test('every table of fields is read as it was written', () => {
  const field = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', ' ', 'é') });
  fc.assert(
    fc.property(fc.array(fc.array(field, { minLength: 1, maxLength: 4 }), { maxLength: 5 }), (rows) => {
      const kept = rows.filter((row) => row.some((one) => one !== ''));
      const text = kept
        .map((row) => row.map((one) => `"${one.replaceAll('"', '""')}"`).join(','))
        .join('\r\n');
      expect(csvRows(text)).toEqual(kept);
    }),
  );
});

const INI = `# ## Configure 'ip' variable
[all]
node[1:3] ansible_user=root
node1 ansible_host=10.0.0.11 ip=10.0.0.11 etcd_member_name=etcd1
node2 ansible_host=10.0.0.12
node3 ansible_host=10.0.0.13
worker-a ansible_host=10.0.0.21  ; a comment

[kube_control_plane]
node[1:3]

[etcd:children]
kube_control_plane

[kube_node]
worker-a

[k8s_cluster:children]
kube_control_plane
kube_node

[k8s_cluster:vars]
kube_network_plugin=calico
`;

const YAML = `all:
  hosts:
    node1: {ansible_host: 10.0.0.11, ip: 10.0.0.11}
    node2: {ansible_host: 10.0.0.12}
    node3: {ansible_host: 10.0.0.13}
    worker-a: {ansible_host: 10.0.0.21}
  children:
    kube_control_plane: {hosts: {node1: , node2: , node3: }}
    etcd: {children: {kube_control_plane: {}}}
    kube_node: {hosts: {worker-a: }}
    k8s_cluster:
      vars: {kube_network_plugin: calico}
      children: {kube_control_plane: {}, kube_node: {}}
`;

test.each([
  ['inventory.ini', INI],
  ['hosts.yaml', YAML],
])('%s of Kubespray becomes the Machines and the Cluster', async (name, text) => {
  write(name, text);
  write(
    'group_vars/k8s_cluster/k8s-cluster.yml',
    'kube_version: v1.35.6\nkube_pods_subnet: 10.233.64.0/18\nkube_service_addresses: 10.233.0.0/18\ncluster_name: cluster.local\ncontainer_manager: containerd\nkube_proxy_mode: ipvs\n',
  );
  write(
    'group_vars/all/all.yml',
    'loadbalancer_apiserver:\n  address: 10.0.0.5\nupstream_dns_servers: [1.1.1.1]\n',
  );
  write('group_vars/all/vault.yml', 'secret: !vault |\n  $ANSIBLE_VAULT\n');
  const macs = write(
    'macs.csv',
    'name,mac\nnode1,52:54:00:00:00:01\nnode2,52:54:00:00:00:02\nnode3,52:54:00:00:00:03\nworker-a,52:54:00:00:00:04\n',
  );
  const { io: to, out, err } = io();
  expect(await importKubespray(directory, { cluster: 'blue', trust: 'segment', macs }, to)).toBe(0);
  const { documents, faults } = parseDocuments(out(), 'out.yaml');
  expect(faults).toEqual([]);
  expect(documents.map(({ document: { kind, metadata } }) => `${kind}/${metadata.name}`)).toEqual([
    'Machine/node1',
    'Machine/node2',
    'Machine/node3',
    'Machine/worker-a',
    'Cluster/blue',
  ]);
  expect(documents[0]!.document.spec).toMatchObject({ addresses: ['10.0.0.11'] });
  expect(documents.at(-1)!.document.spec).toEqual({
    trust: 'segment',
    kubernetes: {
      version: '1.35.6',
      endpoint: '10.0.0.5',
      controlPlanes: ['node1', 'node2', 'node3'],
      workers: ['worker-a'],
      networks: { pods: ['10.233.64.0/18'], services: ['10.233.0.0/18'] },
      dnsDomain: 'cluster.local',
      cni: 'none',
    },
  });
  for (const said of [
    'kube_network_plugin calico',
    'kube_proxy_mode is not translated',
    'upstream_dns_servers is not translated',
    'vault.yml',
  ])
    expect(err()).toContain(said);
});

test('documents go to files of their own, and no file is replaced', async () => {
  const inventory = write('hosts.yaml', YAML);
  const output = path.join(directory, 'documents');
  const first = io();
  // Without MACs the Machines are not complete, and the notes say so.
  expect(await importKubespray(inventory, { cluster: 'blue', trust: 'segment', output }, first.io)).toBe(1);
  expect(fs.readdirSync(output)).toContain('cluster-blue.yaml');
  expect(first.err()).toContain('node1: its MACs are not in the inventory');
  await expect(
    importKubespray(inventory, { cluster: 'blue', trust: 'segment', output }, io().io),
  ).rejects.toMatchObject({
    code: 'E_USAGE',
  });
});

test('external etcd, another port and CRI-O are translated', () => {
  const text = `[kube_control_plane]\ncp ip=10.0.0.1\n[etcd]\ne1 ip=10.0.0.2\ne2 ip=10.0.0.3\ne3 ip=10.0.0.4\n`;
  const { documents } = fromKubespray(readInventory(text, 'x.ini'), {
    cluster: 'red',
    trust: 'segment',
    variables: { container_manager: 'crio', kube_apiserver_port: '8443', kube_version: '1.36.3' },
  });
  expect(documents.at(-1)!.spec).toMatchObject({
    kubernetes: {
      endpoint: '10.0.0.1:8443',
      runtime: 'cri-o',
      etcd: { topology: 'external', machines: ['e1', 'e2', 'e3'] },
    },
  });
});

test('what is no inventory of Kubespray is refused', () => {
  const made = (text: string) =>
    fromKubespray(readInventory(text, 'hosts'), { cluster: 'blue', trust: 'segment' });
  expect(() => made('[web]\na\n')).toThrow('no host in kube_control_plane');
  expect(() => made('a: [')).toThrow('hosts:');
  expect(() => made('[kube_control_plane]\na.x\na.y\n')).toThrow('two hosts get the name "a"');
  expect(() => readInventory('[a]\nnode[1:99999999]\n', 'x.ini')).toThrow('more than 10000 hosts');
  expect(expandRange('n[08:11]-[a:b]')).toHaveLength(8);
});

test('names that change, addresses that are none, and an etcd on workers are said at the import', async () => {
  const file = write(
    'ks/hosts.yaml',
    `all:
  hosts:
    cp1: {ip: 10.0.0.1}
    cp2.lab.example: {ansible_host: "{{ lookup('x') }}"}
    w1: {ip: 10.0.0.3}
    w2: {ip: 10.0.0.4}
  children:
    kube_control_plane: {hosts: {cp1: {}}}
    kube_node: {hosts: {cp1: {}, w1: {}, w2: {}, cp2.lab.example: {}}}
    etcd: {hosts: {cp1: {}, w1: {}, w2: {}}}
`,
  );
  const macs = write(
    'macs.csv',
    'name,mac\ncp1,52:54:00:00:00:01\ncp2,52:54:00:00:00:02\nw1,52:54:00:00:00:03\nw2,52:54:00:00:00:04\n',
  );
  const { io: own, err: said } = io();
  expect(await importKubespray(file, { cluster: 'blue', trust: 'segment', macs }, own)).toBe(1);
  const err = said();
  expect(err).toContain('note: cp2.lab.example becomes cp2');
  expect(err).toContain('cp2: its ansible_host "{{ lookup(\'x\') }}" is a name or a template and no address');
  expect(err).toMatch(/to correct: .*w1 is a worker and a member of etcd/);
});
