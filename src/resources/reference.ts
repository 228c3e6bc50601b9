/**
 * Generates JSON Schemas for editors and the reference pages from the schemas. `make docs` writes
 * both.
 */
import { load } from 'js-yaml';
import { z } from 'zod';
import { KINDS, type Kind, PLURAL } from './kinds.ts';
import { nodeConfig } from './nodeconfig.ts';
import { defaultIn, placeOf } from './places.ts';
import { bare, describe, fieldsOf, isOptional, itemOf, typeText } from './walk.ts';

/**
 * JSON Schema (2020-12) of a kind, as text. Editors load it because of a line `#
 * yaml-language-server: $schema=…`.
 */
function jsonSchemaText(kind: Kind): string {
  const { $schema, ...rest } = z.toJSONSchema(KINDS[kind], { io: 'input', target: 'draft-2020-12' });
  place(kind, rest as Json, []);
  return `${JSON.stringify({ $schema, $id: `muster/v1/${kind}.json`, ...rest }, null, 2)}\n`;
}

interface Json {
  properties?: Record<string, Json>;
  items?: Json;
  description?: string;
  [key: string]: unknown;
}

/** Adds to each property of a JSON Schema where its setting lands, as editors show it. */
function place(kind: Kind, schema: Json, path: readonly string[]): void {
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const here = [...path, name];
    const found = placeOf(kind, here);
    const above = placeOf(kind, path);
    if (found !== undefined && found.lands !== above?.lands) field['x-muster-lands'] = found.lands;
    if (found?.since !== undefined) field['x-muster-since'] = found.since;
    if (found?.example !== undefined) field.examples = [load(found.example)];
    place(kind, field, here);
    if (field.items) place(kind, field.items, here);
  }
}

/** The smallest useful document of each kind. */
const EXAMPLES: Readonly<Record<Kind, string>> = {
  Network: `apiVersion: muster/v1
kind: Network
metadata:
  name: lab
spec:
  subnet: 10.77.0.0/24
  gateway: 10.77.0.1
  dhcp:
    mode: server
    pools:
      - start: 10.77.0.100
        end: 10.77.0.199
`,
  Image: `apiVersion: muster/v1
kind: Image
metadata:
  name: debian-13
spec:
  os: debian
  arch: x86_64
  configFormat: cloud-init
  cloudInitVersion: "25.1.4"
  kernel:
    sha256: ab00000000000000000000000000000000000000000000000000000000000001
  initrds:
    - sha256: ab00000000000000000000000000000000000000000000000000000000000002
  root:
    sha256: ab00000000000000000000000000000000000000000000000000000000000003
`,
  Cluster: `apiVersion: muster/v1
kind: Cluster
metadata:
  name: one
spec:
  config:
    timezone: Europe/Berlin
`,
  Profile: `apiVersion: muster/v1
kind: Profile
metadata:
  name: worker
spec:
  image: debian-13
  config:
    files:
      - path: /etc/motd
        mode: "0644"
        content: |
          This is \${machine.name}.
`,
  Machine: `apiVersion: muster/v1
kind: Machine
metadata:
  name: node-1
spec:
  macs: ["52:54:00:aa:00:01"]
  profile: worker
  addresses: [10.77.0.10]
`,
  Webhook: `apiVersion: muster/v1
kind: Webhook
metadata:
  name: alerts
spec:
  url: https://alerts.lab.example/muster
  secret:
    valueFrom: {secret: alerts, key: signature}
  events: [machine.held, "cluster.*"]
`,
};

/** Notes on a kind that belong to no single field. */
const NOTES: Readonly<Record<Kind, string>> = {
  Network:
    'Subnets must not overlap. Pools must lie inside the subnet, must not overlap, and must contain neither the gateway nor the address of the server. A machine whose document names an address gets that address, whether or not it lies inside a pool.',
  Image:
    'An Image names its files by their hashes, and they must be in the asset store (`muster image add`, `muster image build`); Muster serves only verified files. `muster image build debian` builds an image that cloud-init configures; `muster image build debian -- --ignition` one that Ignition configures.',
  Cluster:
    'A Cluster holds the configuration that its machines share and, in `spec.kubernetes`, the settings of the Kubernetes cluster that they form. Muster derives all values that are left out there; `muster get cluster NAME --full` prints every value and its origin.',
  Profile:
    'A Profile may name an Image that does not exist yet: `muster apply` warns, and its machines are held until the Image exists. Accepted machines whose document names no profile get the matching Profile with the most fields in its selector, and among equals the first by name. When documents are applied, Muster checks the configuration of every machine with its Profile. If the selector uses a property that a document does not contain (architecture, firmware, manufacturer, product), a fault is only a warning.',
  Machine:
    'A machine with a Machine document is accepted. No two machines may have the same MAC address, the same UUID together with the same serial number, or the same IP address. Each IPv4 address must lie inside a Network, at most one per Network.',
  Webhook:
    'Each event is one POST with a JSON object as `GET /v1/events` lists it. Its signature follows [Standard Webhooks](https://www.standardwebhooks.com): the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, for which there are libraries in most languages. An event counts as delivered with any answer 2xx. Otherwise Muster sends it again, after 1 second, then 2, 4 and so on up to 5 minutes, before it sends later ones; an event that the server refuses five times (4xx) is given up. Up to 1,000 events wait, in memory; beyond that the oldest are dropped. An event can come twice: `webhook-id` is the same then. The metrics `muster_webhook_*` count them.',
};

const NODE_CONFIG_PAGE = 'nodeconfig.md';

/** `docs/reference/KIND.md`. */
function kindPage(kind: Kind): string {
  const schema = KINDS[kind];
  return [
    MADE,
    `# ${kind}\n`,
    `${describe(schema) ?? ''} (\`muster get ${PLURAL[kind]}\`; in the terminal: \`muster explain ${kind}\`.)\n`,
    `${NOTES[kind]}\n`,
    `\`\`\`yaml\n# yaml-language-server: $schema=../schemas/${kind}.json\n${EXAMPLES[kind]}\`\`\`\n`,
    fieldTable(rowsOf(schema, '')),
  ].join('\n');
}

/** `docs/reference/nodeconfig.md`: the `config` of Cluster, Profile and Machine. */
function nodeConfigPage(): string {
  return [
    MADE,
    '# Configuration (`spec.config`)\n',
    'The configuration of a machine at first boot, independent of any config format. Cluster, Profile and Machine may each contain a part. Muster merges them: Machine wins over Profile, and Profile over Cluster. Lists with a key (files by path, units and users by name, interfaces by mac or name, disks by device) are merged by that key; SSH keys and groups of a user are combined; other lists are replaced. `muster render MACHINE` shows the result.\n',
    'Any text may contain [templates](templates.md).\n',
    fieldTable(rowsOf(nodeConfig, '')),
  ].join('\n');
}

const MADE = '<!-- Written by `make docs` from src/resources; change it there. -->\n';

interface Row {
  readonly path: string;
  readonly type: string;
  readonly required: boolean;
  readonly about: string;
}

/**
 * Every field below a schema, depth first. The fields of `config` are replaced by a link to their
 * page.
 */
function rowsOf(schema: z.ZodType, prefix: string): readonly Row[] {
  const rows: Row[] = [];
  for (const [name, field] of Object.entries(fieldsOf(schema) ?? {})) {
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const shared = bare(field) === nodeConfig;
    rows.push({
      path,
      type: typeText(field),
      required: !isOptional(field),
      about: `${describe(field) ?? ''}${shared ? ` See [configuration](${NODE_CONFIG_PAGE}).` : ''}`.trim(),
    });
    if (shared) continue;
    rows.push(...rowsOf(field, path));
    const item = itemOf(field);
    if (item && fieldsOf(item)) rows.push(...rowsOf(item, `${path}[]`));
  }
  return rows;
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

function fieldTable(rows: readonly Row[]): string {
  const lines = rows.map(
    (row) =>
      `| \`${row.path}\` | ${cell(row.type)}${row.required ? ', required' : ''} | ${cell(row.about)} |`,
  );
  return `| field | type | meaning |\n| --- | --- | --- |\n${lines.join('\n')}\n`;
}

/** A setting: its kind and path, as {@link rowsOf} lists them. */
export interface Setting {
  readonly kind: Kind;
  readonly path: readonly string[];
  readonly row: Row;
}

/** Every setting of every kind. Those of `config` are listed once, with the kind Machine. */
export function settings(): readonly Setting[] {
  const of = (kind: Kind, prefix: readonly string[], rows: readonly Row[]): readonly Setting[] =>
    rows.map((row) => ({ kind, path: [...prefix, ...row.path.replaceAll('[]', '').split('.')], row }));
  return [
    ...(Object.keys(KINDS) as Kind[]).flatMap((kind) => of(kind, [], rowsOf(KINDS[kind], ''))),
    ...of('Machine', ['spec', 'config'], rowsOf(nodeConfig, '')),
  ];
}

/** `docs/reference/settings.md`: where every setting lands. */
function settingsPage(): string {
  const lines = settings()
    .filter(({ path }) => path[0] === 'spec' && path.length > 1)
    .map(({ kind, path, row }) => {
      const { lands = '', since } = placeOf(kind, path) ?? {};
      const name = path[1] === 'config' && path.length > 2 ? `config: ${row.path}` : `${kind}: ${row.path}`;
      const usual = row.required ? 'required' : (defaultIn(row.about) ?? '');
      return `| \`${name}\` | ${cell(row.type)} | ${cell(usual)} | ${cell(lands)} | ${since ?? ''} |`;
    });
  return [
    MADE,
    '# Every setting, and where it lands\n',
    'What has the value of a setting: a file or a flag on a machine, an object in the cluster, an answer of the boot host. `muster explain Cluster.spec.kubernetes.mirrors` shows the same for one setting, with what it means. The settings of `config` are those of Cluster, Profile and Machine.\n',
    `| setting | type | default | where it lands | since Kubernetes |\n| --- | --- | --- | --- | --- |\n${lines.join('\n')}\n`,
  ].join('\n');
}

/** Returns all pages and schemas as pairs of path (from the root of the tree) and text. */
export function resourcePages(): readonly (readonly [string, string])[] {
  const kinds = Object.keys(KINDS) as Kind[];
  return [
    ...kinds.map((kind) => [`docs/schemas/${kind}.json`, jsonSchemaText(kind)] as const),
    ...kinds.map((kind) => [`docs/reference/${kind}.md`, kindPage(kind)] as const),
    [`docs/reference/${NODE_CONFIG_PAGE}`, nodeConfigPage()],
    ['docs/reference/settings.md', settingsPage()],
  ];
}
