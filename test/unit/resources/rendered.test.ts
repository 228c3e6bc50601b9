/**
 * Every setting has an effect: it is changed in documents that have it, and then a machine gets
 * something else, or the boot host answers something else.
 */
import { readFileSync } from 'node:fs';
import { loadAll } from 'js-yaml';
import { beforeAll, expect, test } from 'vitest';
import { ManualClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { createMetrics } from '../../../src/base/metrics.ts';
import { checkAll } from '../../../src/cluster/resolve/check-documents.ts';
import { createEventLog } from '../../../src/events/log.ts';
import { openCatalog } from '../../../src/resources/catalog.files.ts';
import type { LiveCatalog } from '../../../src/resources/catalog.ts';
import { type Document, KINDS, type Kind } from '../../../src/resources/kinds.ts';
import { type Setting, settings } from '../../../src/resources/reference.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { MANIFEST, OTHER_MANIFEST, PARTS, type Part } from './rendered-kit.ts';

type Path = readonly (string | number)[];

const PEM = readFileSync('test/golden/settings/ca.pem', 'utf8');
const written = ['hosts', 'clusters'].flatMap(
  (file) =>
    loadAll(
      readFileSync(`test/golden/settings/${file}.yaml`, 'utf8')
        .replaceAll('@MANIFEST', MANIFEST)
        .replaceAll('@CA', JSON.stringify(PEM)),
    ) as Document[],
);
const parsed = (document: Document): Document => KINDS[document.kind].parse(document) as Document;
const base = written.map(parsed);

const HASH = '7'.repeat(64);

/** Other values for settings of which the values that are tried by themselves are refused. */
const OTHERWISE: Readonly<Record<string, unknown>> = {
  'Network: spec.subnet': '10.77.0.0/16',
  'Network: spec.address': '10.77.0.5',
  'Network: spec.dhcp.pools[].start': '10.77.0.99',
  'Network: spec.dhcp.pools[].end': '10.77.0.101',
  'Image: spec.kernel.sha256': HASH,
  'Image: spec.initrds[].sha256': HASH,
  'Image: spec.root.sha256': HASH,
  'Image: spec.cloudInitVersion': '25.1.4',
  'Cluster: spec.kubernetes.version': '1.34',
  'Cluster: spec.kubernetes.virtualAddress.addresses': ['10.77.0.211'],
  'Cluster: spec.kubernetes.networks.machines': ['10.77.0.0/16'],
  'Cluster: spec.kubernetes.addons[].manifests[].sha256': OTHER_MANIFEST,
  'Cluster: spec.kubernetes.apiServer.authorization.authorizers[].webhook.timeout': '4s',
  'Profile: spec.selector.network': 'remote',
  'Profile: spec.selector.labels': { role: 'other' },
  // The other end of each range leaves the machine of rendered-kit.ts out.
  ...Object.fromEntries(
    Object.entries({
      processors: [65, 63],
      memory: ['300GiB', '200GiB'],
      'disks.count': [3, 1],
      'disks.size': ['970GB', '950GB'],
      'cards.count': [3, 1],
      'cards.speed': ['40Gbit', '20Gbit'],
    }).flatMap(([field, [min, max]]) => [
      [`Profile: spec.selector.inventory.${field}.min`, min],
      [`Profile: spec.selector.inventory.${field}.max`, max],
    ]),
  ),
  'Machine: spec.macs': ['52:54:00:aa:00:99'],
  'Machine: spec.uuid': '4c4c4544-0042-3510-8051-b7c04f4d3532',
  'Cluster: spec.kubernetes.apiServer.authorization.authorizers[].webhook.connectionInfo': {
    type: 'InClusterConfig',
  },
  'config: files[].contentBase64': 'aGVsbG9v',
  'config: files[].source.sha256': HASH,
  'config: units[].name': 'changed.service',
  'config: units[].dropins[].name': '20-b.conf',
  'config: network.interfaces[].routes[].to': '10.91.0.0/16',
  'config: network.interfaces[].routes[].via': '10.80.7.2',
  'config: variables': { contact: 'others@lab.example' },
  ...Object.fromEntries(
    ['auditWebhook', 'tokenWebhook'].flatMap((hook) => [
      [`Cluster: spec.kubernetes.apiServer.${hook}.users[].user.client-certificate-data`, 'aGVsbG9v'],
      [`Cluster: spec.kubernetes.apiServer.${hook}.contexts[].context.cluster`, 'spare'],
      [`Cluster: spec.kubernetes.apiServer.${hook}.current-context`, 'other'],
    ]),
  ),
};

/** Settings that are changed together with others: the document, where, and the value. */
const TOGETHER: Readonly<Record<string, readonly [string, string, unknown]>> = {
  'Network: spec.dhcp.mode': ['rack', 'spec.dhcp', { mode: 'off' }],
  'Cluster: spec.kubernetes.etcd.topology': ['green', 'spec.kubernetes.etcd', { topology: 'stacked' }],
  'Cluster: spec.kubernetes.apiServer.authentication.anonymous.enabled': [
    'blue',
    'spec.kubernetes.apiServer.authentication.anonymous',
    { enabled: false },
  ],
  'Cluster: spec.kubernetes.addons[].patches[].remove': [
    'blue',
    'spec.kubernetes.addons.0.patches.2',
    { target: { name: 'two' }, merge: { data: { a: 'c' } } },
  ],
  'Cluster: spec.kubernetes.apiServer.authorization.authorizers[].type': [
    'blue',
    'spec.kubernetes.apiServer.authorization.authorizers',
    [
      { type: 'RBAC', name: 'node' },
      { type: 'Node', name: 'rbac' },
    ],
  ],
};

const CHECKS = 'test/unit/resources/check.test.ts';
const SNAPSHOTS = 'test/unit/cluster/backup/snapshots.test.ts';
const WINDOWS = 'test/unit/cluster/resolve/maintenance.test.ts';
const HEAL = 'test/unit/cluster/change/heal.test.ts';
const HOOKS = 'test/unit/cluster/change/hooks.test.ts';
const ASKED = 'test/unit/cluster/change/hooks-asked.test.ts';
const TPM = 'test/peers/agent-tpm.test.ts';
const ADD = 'test/unit/cli/image-add.test.ts';
const INSTALL = 'test/peers/install-rig.ts';
const ADDONS = 'test/unit/cli/addons.test.ts';

/**
 * Settings that are of the boot host alone, or that need a machine that runs, and the test that
 * shows what they do.
 */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'Network: spec.dhcp.probe': 'test/unit/pxe/decide/networks.test.ts',
  'Network: spec.tpm.vendorCAs': TPM,
  'Cluster: spec.tpm.vendorCAs': TPM,
  'Machine: spec.tpm.endorsementKey': 'test/peers/tpm-redeem.test.ts',
  ...Object.fromEntries(
    ['Network', 'Cluster'].flatMap((kind) =>
      ['zone', 'reverseZone', 'server', 'port', 'key.valueFrom.secret', 'key.valueFrom.key'].map((field) => [
        `${kind}: spec.names.${field}`,
        'test/unit/pxe/names/names.test.ts',
      ]),
    ),
  ),
  'Image: spec.kernel.url': ADD,
  'Image: spec.initrds[].url': ADD,
  'Image: spec.root.url': ADD,
  ...Object.fromEntries(
    ['disk', 'pieces'].flatMap((file) => [
      [`Image: spec.${file}.url`, ADD],
      [`Image: spec.${file}.name`, ADD],
      [`Image: spec.${file}.sha256`, INSTALL],
    ]),
  ),
  ...Object.fromEntries(
    ['Profile', 'Machine'].flatMap((kind) =>
      ['serial', 'wwn', 'size.min', 'size.max', 'rotational', 'transport', 'model', 'choose'].map((field) => [
        `${kind}: spec.installDisk.${field}`,
        'test/unit/machines/install-disk.test.ts',
      ]),
    ),
  ),
  'Image: spec.programs': 'test/unit/cluster/resolve/check-documents.test.ts',
  'Cluster: spec.kubernetes.nodes[].labelsFromFacts': 'test/unit/cluster/joining/node-keeper.test.ts',
  'Cluster: spec.kubernetes.nodes[].maxUnavailable': 'test/unit/cluster/change/groups.test.ts',
  'Cluster: spec.kubernetes.pki.leafLifetime': 'test/unit/cluster/plan/renewals.test.ts',
  'Cluster: spec.kubernetes.pki.rotateAfter': 'test/unit/cluster/change/rotation-by-age.test.ts',
  'Cluster: spec.kubernetes.pki.rehearsal': 'test/unit/cluster/change/rotation-kit.ts',
  'Cluster: spec.kubernetes.encryptSecrets': 'test/unit/cluster/plan/planner.test.ts',
  'Cluster: spec.kubernetes.acceptUntested': 'test/unit/cluster/resolve/by-documents.test.ts',
  'Cluster: spec.kubernetes.addons[].manifests[].url': ADDONS,
  'Cluster: spec.kubernetes.addons[].manifests[].file': ADDONS,
  ...Object.fromEntries(
    ['Cluster', 'Profile', 'Machine'].flatMap((kind) =>
      ['size.min', 'size.max', 'rotational', 'transport', 'model', 'choose'].map((field) => [
        `${kind}: spec.dataDisk.${field}`,
        'test/unit/machines/data-disk.test.ts',
      ]),
    ),
  ),
  'Cluster: spec.bootDisk.needsBootHost': CHECKS,
  'Profile: spec.bootDisk.needsBootHost': CHECKS,
  'Machine: spec.bootDisk.needsBootHost': CHECKS,
  'Cluster: spec.backup.every': SNAPSHOTS,
  'Cluster: spec.backup.keep': SNAPSHOTS,
  'Cluster: spec.backup.to': SNAPSHOTS,
  'Cluster: spec.maintenance.windows[].days': WINDOWS,
  'Cluster: spec.maintenance.windows[].time': WINDOWS,
  'Cluster: spec.maintenance.windows[].zone': WINDOWS,
  'Cluster: spec.maintenance.windows[].duration': WINDOWS,
  'Cluster: spec.maintenance.upgrades': WINDOWS,
  'Cluster: spec.maintenance.controlPlanes': WINDOWS,
  'Cluster: spec.spares.selector.labels': HEAL,
  'Cluster: spec.spares.max': HEAL,
  'Cluster: spec.spares.after': HEAL,
  'Cluster: spec.hooks[].name': HOOKS,
  'Cluster: spec.hooks[].when': HOOKS,
  'Cluster: spec.hooks[].within': HOOKS,
  'Cluster: spec.hooks[].operations': HOOKS,
  'Cluster: spec.hooks[].roles': HOOKS,
  'Cluster: spec.hooks[].url': ASKED,
  'Cluster: spec.hooks[].secret.valueFrom.secret': ASKED,
  'Cluster: spec.hooks[].secret.valueFrom.key': ASKED,
  'Cluster: spec.hooks[].ca': ASKED,
  ...Object.fromEntries(
    ['Network', 'Profile', 'Machine'].flatMap((kind) =>
      [
        ...['protocol', 'credentials.user', 'certificate.sha256', 'certificate.ca'],
        ...['credentials.password.valueFrom.secret', 'credentials.password.valueFrom.key'],
        ...(kind === 'Machine' ? ['address', 'mac', 'name', 'port', 'system'] : []),
      ].map((field) => [`${kind}: spec.bmc.${field}`, 'test/unit/bmc/connect.test.ts']),
    ),
  ),
  ...Object.fromEntries(
    ['Network', 'Profile', 'Machine'].flatMap((kind) => [
      [`${kind}: spec.bmc.credentials.managed`, 'test/unit/bmc/account.test.ts'],
      [`${kind}: spec.bmc.managedCertificate`, 'test/unit/bmc/certificate.test.ts'],
      [`${kind}: spec.bmc.console`, 'test/unit/api/bmc-console.test.ts'],
    ]),
  ),
  ...Object.fromEntries(
    ['after', 'perHour', 'silentAtMost'].map((field) => [
      `Profile: spec.power.recover.${field}`,
      'test/unit/bmc/recovery.test.ts',
    ]),
  ),
  'Machine: spec.pool': 'test/unit/api/pools.test.ts',
  'Machine: spec.delivery': 'test/unit/cluster/plan/inline.test.ts',
  'config: configTimeout': 'test/unit/pxe/boot/boot.test.ts',
};

/** Settings that are only shown to people, as their descriptions say. */
const SHOWN_ONLY = ['version', 'kernel.size', 'initrds[].size', 'root.size', 'disk.size', 'pieces.size'].map(
  (name) => `Image: spec.${name}`,
);

/** Settings that a document has to have with their only value, so that nothing can change. */
const ONE_VALUE = [
  'auditPolicy.apiVersion',
  'auditPolicy.kind',
  'auditWebhook.apiVersion',
  'auditWebhook.kind',
  'authentication.kind',
  'tokenWebhook.apiVersion',
  'tokenWebhook.kind',
  'authorization.kind',
].map((name) => `Cluster: spec.kubernetes.apiServer.${name}`);

/** Settings whose only value is their default, or is needed where there are conditions. */
const ONE_WHERE_SET = [
  'Profile: spec.run',
  'Cluster: spec.kubernetes.apiServer.authorization.authorizers[].webhook.matchConditionSubjectAccessReviewVersion',
];

const LEFT_OUT: readonly string[] = [...SHOWN_ONLY, ...ONE_VALUE, ...ONE_WHERE_SET];

/** What a change of a kind of document can show, in the order in which it is looked at. */
const SHOWN: Readonly<Record<Exclude<Kind, 'Webhook'>, readonly Part[]>> = {
  Network: ['packets', 'configurations', 'scripts', 'explained'],
  Image: ['scripts', 'configurations', 'explained'],
  Cluster: ['plans', 'configurations', 'explained'],
  Profile: ['scripts', 'configurations', 'explained'],
  Machine: ['configurations', 'packets', 'scripts', 'explained'],
};

const keyOf = ({ kind, path, row }: Setting): string =>
  path[1] === 'config' && path.length > 2 ? `config: ${row.path}` : `${kind}: ${row.path}`;

/** The settings that are no mapping of other settings. */
const leaves = settings().filter(
  ({ kind, path }, _, all) =>
    path[0] === 'spec' &&
    kind !== 'Webhook' &&
    !all.some(
      (other) =>
        other.kind === kind &&
        other.path.length > path.length &&
        (other.path[1] === 'config') === (path[1] === 'config') &&
        path.every((step, n) => other.path[n] === step),
    ),
);

/** The leaves whose effect machines see. */
const shown = leaves.filter((setting) => {
  const key = keyOf(setting);
  if (TOGETHER[key] !== undefined) return true;
  return ELSEWHERE[key] === undefined && !LEFT_OUT.includes(key);
});

/** The places in a document that have this setting. */
function places(value: unknown, path: readonly string[], before: Path = []): readonly Path[] {
  if (Array.isArray(value)) return value.flatMap((item, n) => places(item, path, [...before, n]));
  const [first, ...rest] = path;
  if (first === undefined) return value === undefined ? [] : [before];
  if (value === null || typeof value !== 'object' || !Object.hasOwn(value, first)) return [];
  const inner = (value as Record<string, unknown>)[first];
  return rest.length === 0 ? [[...before, first]] : places(inner, rest, [...before, first]);
}

const at = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>((inner, step) => (inner as Record<string | number, unknown>)[step], value);

/** The document with another value at a place; `undefined` leaves the setting out. */
function changed(document: Document, path: Path, value: unknown): Document {
  const copy = structuredClone(document);
  const parent = at(copy, path.slice(0, -1)) as Record<string | number, unknown>;
  const last = path.at(-1)!;
  if (value === undefined) delete parent[last];
  else parent[last] = value;
  return copy;
}

/** Other values that a setting may have, in the order in which they are tried. */
function* otherValues(setting: Setting, value: unknown): Generator<unknown> {
  const key = keyOf(setting);
  if (Object.hasOwn(OTHERWISE, key)) yield OTHERWISE[key];
  const choices = /^one of: (.*)$/.exec(setting.row.type)?.[1]?.split(', ') ?? [];
  yield* choices.filter((choice) => choice !== value);
  if (!setting.row.required) yield undefined;
  if (typeof value === 'boolean') yield !value;
  if (typeof value === 'number') yield value + 1;
  if (typeof value === 'string') yield `${value}x`;
  if (Array.isArray(value)) yield value.slice(1);
  if (Array.isArray(value) && typeof value[0] === 'string') yield [`${value[0]}x`, ...value.slice(1)];
}

let catalog: LiveCatalog;
const normal = new Map<string, string>();

const show = async (part: Part, documents: readonly Document[], name: string): Promise<string> =>
  PARTS[part](documents, name);

async function normally(part: Part, name: string): Promise<string> {
  const key = `${part} ${name}`;
  const known = normal.get(key) ?? (await show(part, base, name));
  normal.set(key, known);
  return known;
}

/** Whether the document with another value is taken, and a machine then gets something else. */
async function effect(document: Document): Promise<'refused' | 'none' | Part> {
  const { kind, metadata } = document;
  try {
    await catalog.apply([document], { dryRun: true });
  } catch {
    return 'refused';
  }
  const now = base.map((one) =>
    one.kind === kind && one.metadata.name === metadata.name ? parsed(document) : one,
  );
  for (const part of SHOWN[kind as keyof typeof SHOWN])
    if ((await show(part, now, metadata.name)) !== (await normally(part, metadata.name))) return part;
  return 'none';
}

/** What is wrong with a setting; undefined when a change of it has an effect. */
async function fault(setting: Setting): Promise<string | undefined> {
  const tried: string[] = [];
  const together = TOGETHER[keyOf(setting)];
  if (together !== undefined) {
    const [name, path, value] = together;
    const document = written.find(({ kind, metadata }) => kind === setting.kind && metadata.name === name)!;
    const result = await effect(changed(document, path.split('.'), value));
    return result === 'refused' || result === 'none' ? `${keyOf(setting)}: ${result}` : undefined;
  }
  for (const document of written.filter(({ kind }) => kind === setting.kind))
    for (const path of places(document, setting.path))
      for (const value of otherValues(setting, at(document, path))) {
        const result = await effect(changed(document, path, value));
        if (result !== 'refused' && result !== 'none') return undefined;
        tried.push(`${JSON.stringify(value)} of ${document.metadata.name} ${result}`);
      }
  return `${keyOf(setting)}: ${tried.join('; ') || 'give it a value in test/golden/settings'}`;
}

beforeAll(async () => {
  const clock = new ManualClock();
  const events = createEventLog({
    metrics: createMetrics(),
    clock,
    log: silentLog,
    perSubject: 100,
    subjects: 100,
  });
  const store = openMemoryStore();
  catalog = await openCatalog({
    metrics: createMetrics(),
    store,
    events,
    log: silentLog,
    clock,
    checkConfig: checkAll,
  });
  await catalog.apply(written);
});

test.for(Object.entries(PARTS))('%s of the same documents are the same', async ([, part]) => {
  for (const name of ['blue', 'n1', 'rack']) expect(await part(base, name)).toBe(await part(base, name));
});

test.for(Object.keys(SHOWN))(
  'each setting of a %s changes what machines get',
  { timeout: 300_000 },
  async (kind) => {
    const without: string[] = [];
    for (const setting of shown.filter((one) => one.kind === kind)) {
      const found = await fault(setting);
      if (found !== undefined) without.push(found);
    }
    expect(without).toEqual([]);
  },
);

test('the settings that are left out exist, and have one value where that is the reason', () => {
  const types = new Map(leaves.map((setting) => [keyOf(setting), setting.row] as const));
  for (const key of LEFT_OUT) expect(types.has(key), key).toBe(true);
  for (const key of [...ONE_VALUE, ...ONE_WHERE_SET])
    expect(types.get(key)!.type).toMatch(/^(always|one of: [^,]*$)/);
  for (const key of ONE_VALUE) expect(types.get(key)!.required, key).toBe(true);
});

test('each setting that no machine sees has a test that names it', () => {
  const known = new Set(leaves.map(keyOf));
  for (const [key, file] of Object.entries(ELSEWHERE)) {
    expect(known).toContain(key);
    const named = new RegExp(`\\b${key.split(/[. ]/).at(-1)}\\b`).test(readFileSync(file, 'utf8'));
    expect(named, `${file} has ${key}`).toBe(true);
  }
});
