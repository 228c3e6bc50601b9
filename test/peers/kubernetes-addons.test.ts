/**
 * Add-ons, kube-router and both address families at a real API server: the script of the plan
 * applies the objects that control planes are given. Needs MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { CATALOGUE } from '../../src/cluster/objects/addons/catalogue.ts';
import { openAddons } from '../../src/cluster/objects/addons/library.ts';
import { bundleOf, manifestText } from '../../src/cluster/objects/bundle.ts';
import { kubeVipManifest } from '../../src/cluster/plan/kube-vip.ts';
import type { KubernetesSpec } from '../../src/resources/kinds.ts';
import { ARTIFACTS } from '../artifacts.ts';
import { resolved } from '../unit/cluster/kit.ts';
import { clusterDocument, rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import { PlacedPlan } from './placed-plan.ts';

/** Where a pod finds its account. The test has its own /run (scripts/in-namespace.sh). */
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
const ADDRESSES = ['10.0.0.13', 'fd00:13::13'] as const;
const MACHINES = [{ name: 'cp1', addresses: ADDRESSES }];
const FOUNDING = { state: 'new', token: 'one', members: [{ name: 'cp1', address: ADDRESSES[0] }] } as const;

/**
 * A manifest with a kind and an object of that kind, and with a file mode that YAML 1.2 reads
 * differently.
 */
const THINGS = `apiVersion: things.example.org/v1
kind: Thing
metadata: {name: first, namespace: things}
spec: {size: 3}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: things}
spec:
  selector: {matchLabels: {app: things}}
  template:
    metadata: {labels: {app: things}}
    spec:
      containers: [{name: controller, image: "example.org/things:1", args: [--a]}]
      volumes: [{name: files, configMap: {name: files, defaultMode: 0644}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: things}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.things.example.org}
spec:
  group: things.example.org
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
`;
const SHA256 = createHash('sha256').update(THINGS).digest('hex');

const LATER = {
  apiVersion: 'later.example.org/v1',
  kind: 'Later',
  metadata: { name: 'one', namespace: 'default' },
};
const DEFINITION = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'laters.later.example.org' },
  spec: {
    group: 'later.example.org',
    names: { kind: 'Later', plural: 'laters' },
    scope: 'Namespaced',
    versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
  },
};

const ADDONS: KubernetesSpec['addons'] = [
  {
    name: 'things',
    manifests: [{ sha256: SHA256 }],
    patches: [
      { target: { kind: 'Deployment' }, merge: { spec: { replicas: 2 } } },
      {
        target: { kind: 'Deployment' },
        json: [{ op: 'add', path: '/spec/template/spec/containers/0/args/-', value: '--b' }],
      },
    ],
  },
  { name: 'later', objects: [LATER] },
];

const SPEC: Partial<KubernetesSpec> = {
  endpoint: ADDRESSES[0],
  controlPlanes: ['cp1'],
  workers: [],
  sans: [],
  networks: {
    pods: ['10.244.0.0/16', 'fd00:10:244::/56'],
    services: ['10.96.0.0/16', 'fd00:10:96::/112'],
  },
  addons: ADDONS,
};

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  const placed = new PlacedPlan();
  const machine = new TestMachine('cp1');
  const scripts: ChildProcess[] = [];
  let world: Awaited<ReturnType<typeof rig>>;

  const applier = () => placed.inside('/run/muster/applier.conf');
  const own = () => placed.inside('/own.conf');
  const kubectl = (...args: readonly string[]): string =>
    placed.run('kubectl', '--kubeconfig', own(), ...args);
  const get = (...args: readonly string[]) => JSON.parse(kubectl('get', ...args, '-o', 'json'));

  /**
   * Runs the plan's script with its own credential, as one of several control planes. It is
   * restarted as by its unit: when several make a Service at the same time, only one gets its
   * address.
   */
  function applyAs(n: number): Promise<number | null> {
    const credential = placed.inside(`/run/muster/applier-${n}.conf`);
    fs.copyFileSync(own(), credential);
    const script = fs
      .readFileSync(placed.inside('/etc/muster/objects/apply.sh'), 'utf8')
      .replaceAll(applier(), credential);
    const unit = 'until sh -c "$1"; do sleep 1; done';
    const child = spawn('sh', ['-c', unit, 'unit', script], { env: placed.env, stdio: 'ignore' });
    scripts.push(child);
    return new Promise((resolve) => child.on('close', resolve));
  }

  beforeAll(async () => {
    execFileSync('ip', ['address', 'replace', `${ADDRESSES[0]}/24`, 'dev', 'lo']);
    execFileSync('ip', ['address', 'replace', `${ADDRESSES[1]}/64`, 'dev', 'lo', 'nodad']);
    world = await rig({
      spec: SPEC,
      machines: MACHINES,
      etcd: async () => ({ lines: [], founding: FOUNDING }),
      addons: openAddons(async (sha256) =>
        sha256 === SHA256 ? new TextEncoder().encode(THINGS) : undefined,
      ),
    });
    placed.put(await settle(world.planner, machine), machine);
    fs.copyFileSync(applier(), own());
    fs.mkdirSync(placed.inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    placed.start('etcd');
    placed.start('kube-apiserver');
    const node = placed.inside('/node.json');
    fs.writeFileSync(node, JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'cp1' } }));
    await vi.waitFor(() => kubectl('apply', '-f', node), { timeout: 100_000, interval: 500 });
  });
  afterAll(async () => {
    for (const script of scripts) script.kill('SIGKILL');
    await placed.close();
  });

  test('three control planes concurrently apply the add-ons after the built-in objects, in order, and wait for a missing kind', {
    timeout: 240_000,
  }, async () => {
    const all = [1, 2, 3].map(applyAs);
    // On a busy host a minute was too little: an address that several wanted may become free only
    // at the API server's next repair loop.
    await expect
      .poll(() => kubectl('get', '-n', 'things', 'things.things.example.org', '-o', 'name'), {
        timeout: 150_000,
        interval: 500,
      })
      .toBe('thing.things.example.org/first\n');
    expect(kubectl('get', '-n', 'kube-system', 'deploy', '-o', 'name')).toBe('deployment.apps/coredns\n');
    // The last add-on holds the scripts until its kind is defined, and agents report that.
    expect(scripts.map(({ exitCode }) => exitCode)).toEqual([null, null, null]);
    const complaint = placed.inside('/run/muster/objects');
    const says = () => (fs.existsSync(complaint) ? fs.readFileSync(complaint, 'utf8') : '');
    await expect.poll(says, { timeout: 60_000, interval: 500 }).toContain('no matches for kind "Later"');
    const file = placed.inside('/definition.json');
    fs.writeFileSync(file, JSON.stringify(DEFINITION));
    kubectl('apply', '-f', file);
    expect(await Promise.all(all)).toEqual([0, 0, 0]);
    expect(kubectl('get', 'laters.later.example.org', '-o', 'name')).toBe('later.later.example.org/one\n');
    expect(fs.existsSync(placed.inside('/run/muster/applier-1.conf'))).toBe(false);
    expect(says()).toBe('');
  });

  test('add-ons’ objects are patched, have the mode that kubectl reads, and carry the name of their add-on', () => {
    const { spec, metadata } = get('-n', 'things', 'deploy/controller');
    expect(spec.replicas).toBe(2);
    expect(spec.template.spec.containers[0].args).toEqual(['--a', '--b']);
    expect(spec.template.spec.volumes[0].configMap.defaultMode).toBe(0o644);
    expect(metadata.labels['muster/addon']).toBe('things');
    expect(get('crd', '-l', 'muster/addon=things').items).toHaveLength(1);
  });

  test('applying add-ons again changes nothing, and the objects of an add-on that left the Cluster stay', async () => {
    const versions = () =>
      get('deploy,cm,ds,svc,crd', '-A').items.map(
        ({ metadata }: { metadata: { name: string; resourceVersion: string } }) =>
          `${metadata.name} ${metadata.resourceVersion}`,
      );
    const before = versions();
    expect(await applyAs(1)).toBe(0);
    expect(versions()).toEqual(before);
    world.known.put(clusterDocument({ ...SPEC, addons: [] }));
    placed.put(await settle(world.planner, machine), machine);
    expect(await applyAs(1)).toBe(0);
    expect(versions()).toEqual(before);
  });

  test('in-cluster names have an address of each family, in the Cluster’s order', () => {
    expect(get('-n', 'kube-system', 'svc/kube-dns').spec).toMatchObject({
      clusterIPs: ['10.96.0.10', 'fd00:10:96::a'],
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
    });
    const ca = placed.inside('/etc/kubernetes/pki/ca-bundle.crt');
    const answer = execFileSync('curl', ['-s', '--cacert', ca, `https://[${ADDRESSES[1]}]:6443/readyz`], {
      encoding: 'utf8',
    });
    expect(answer).toBe('ok');
  });

  test('kube-router’s firewall next to flannel is accepted, and so are policies of a namespace that does not exist yet', () => {
    const cluster = resolved(
      { ...SPEC, networkPolicy: { enforce: 'kube-router', isolate: ['shop', 'default'] } },
      MACHINES,
    );
    const file = placed.inside('/policies.yaml');
    fs.writeFileSync(file, manifestText(bundleOf(cluster, 'CA\n').applied));
    const apply = () =>
      kubectl('apply', '--server-side', '--force-conflicts', '--field-manager=muster', '-f', file);
    expect(apply()).toContain('daemonset.apps/kube-router serverside-applied');
    kubectl('label', 'namespace', 'shop', 'team=a');
    apply();
    expect(get('namespace', 'shop').metadata.labels.team).toBe('a');
    const policies = get('-n', 'shop', 'networkpolicies').items.map(
      ({ metadata, spec }: { metadata: { name: string }; spec: object }) => [metadata.name, spec],
    );
    const everyPod = { podSelector: {}, policyTypes: ['Ingress'] };
    expect(policies).toEqual([
      ['muster-allow-same-namespace', { ...everyPod, ingress: [{ from: [{ podSelector: {} }] }] }],
      ['muster-default-deny', everyPod],
    ]);
  });

  test.for(['flannel', 'kube-router'] as const)('the objects of %s for both families are accepted', (cni) => {
    const cluster = resolved({ ...SPEC, cni }, MACHINES);
    const file = placed.inside(`/${cni}.yaml`);
    fs.writeFileSync(file, manifestText(bundleOf(cluster, 'CA\n').applied));
    const said = kubectl('apply', '--server-side', '--force-conflicts', '--field-manager=muster', '-f', file);
    expect(said).toMatch(new RegExp(`daemonset.apps/(kube-)?${cni}(-ds)? serverside-applied`));
  });

  test('the static pod of kube-vip is accepted', () => {
    const { virtualAddress, ...cluster } = resolved(
      {
        ...SPEC,
        virtualAddress: { by: 'kube-vip', addresses: ['10.0.0.9', 'fd00:13::9'], interface: 'eth0' },
      },
      MACHINES,
    );
    const pod = load(kubeVipManifest(cluster, virtualAddress!, [])) as {
      metadata: { annotations: Record<string, string> };
      spec: { nodeName?: string };
    };
    // A mirror pod, as kubelet makes it for a static pod.
    pod.metadata.annotations['kubernetes.io/config.mirror'] = 'x';
    pod.spec.nodeName = 'cp1';
    const file = placed.inside('/kube-vip.json');
    fs.writeFileSync(file, JSON.stringify(pod));
    expect(kubectl('create', '-f', file)).toBe('pod/kube-vip created\n');
  });

  test('the API accepts the objects that the add-on catalogue generates itself', () => {
    for (const [name, { objects, version }] of Object.entries(CATALOGUE)) {
      if (objects === undefined) continue;
      const file = placed.inside(`/${name}.yaml`);
      fs.writeFileSync(file, manifestText(objects(version)));
      kubectl('apply', '--server-side', '--field-manager=muster', '-f', file);
    }
    expect(get('-n', 'registry', 'deploy/registry').spec.replicas).toBe(1);
  });

  const autoscaler = path.join(placed.bin, 'cluster-proportional-autoscaler');
  test.skipIf(!fs.existsSync(autoscaler))(
    'dns-autoscaler sets how many CoreDNS there are, with the rights that the catalogue gives it, and applying again leaves it so',
    async () => {
      const coredns = () => get('-n', 'kube-system', 'deploy/coredns').spec.replicas;
      // Earlier tests applied objects of other clusters.
      expect(await applyAs(1)).toBe(0);
      expect(coredns()).toBe(2);
      const [container] = get('-n', 'kube-system', 'deploy/dns-autoscaler').spec.template.spec.containers;
      fs.mkdirSync(ACCOUNT, { recursive: true });
      fs.copyFileSync(placed.inside('/etc/kubernetes/pki/ca-bundle.crt'), `${ACCOUNT}/ca.crt`);
      fs.writeFileSync(`${ACCOUNT}/token`, kubectl('-n', 'kube-system', 'create', 'token', 'dns-autoscaler'));
      const env = { ...placed.env, KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: '6443' };
      scripts.push(spawn(autoscaler, container.command.slice(1), { env, stdio: 'ignore' }));
      await expect.poll(coredns, { timeout: 60_000, interval: 500 }).toBe(1);
      const { linear } = get('-n', 'kube-system', 'configmap/dns-autoscaler').data;
      expect(JSON.parse(linear)).toMatchObject({ nodesPerReplica: 16, preventSinglePointFailure: true });
      const { generation } = get('-n', 'kube-system', 'deploy/coredns').metadata;
      expect(await applyAs(1)).toBe(0);
      expect(get('-n', 'kube-system', 'deploy/coredns').metadata.generation).toBe(generation);
    },
  );
});
