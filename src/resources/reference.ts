/**
 * What is made from the schemas: JSON Schema for editors, and the reference pages. `make docs`
 * writes both.
 */
import { z } from 'zod';
import { KINDS, type Kind, PLURAL } from './kinds.ts';
import { nodeConfig } from './nodeconfig.ts';
import { bare, describe, fieldsOf, isOptional, itemOf, typeText } from './walk.ts';

/**
 * JSON Schema (2020-12) of a kind, as text. Editors take it by a line `# yaml-language-server:
 * $schema=…`.
 */
function jsonSchemaText(kind: Kind): string {
  const { $schema, ...rest } = z.toJSONSchema(KINDS[kind], { io: 'input', target: 'draft-2020-12' });
  return `${JSON.stringify({ $schema, $id: `muster/v1/${kind}.json`, ...rest }, null, 2)}\n`;
}

/** The smallest document of each kind that makes sense. */
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
};

/** What there is to say of a kind that no single field says. */
const NOTES: Readonly<Record<Kind, string>> = {
  Network:
    'Subnets may not overlap. Pools lie inside the subnet, do not overlap, and hold neither the gateway nor the server. A machine with an address of its own keeps it, inside a pool or not.',
  Image:
    'Files are named by their hash and must be in the asset store (`muster image add`, `muster image build`); nothing unverified is served. `muster image build debian` makes one that cloud-init configures, with `-- --ignition` one that Ignition does.',
  Cluster:
    'The configuration that its machines share and, with `spec.kubernetes`, the Kubernetes cluster that they become: what is left out there is derived, and `muster get cluster NAME --full` shows all of it with where each value came from.',
  Profile:
    'An image that is not there is a warning: the machines are held until it is. Accepted machines without a profile of their own get the one with most matching selectors, ties by name. Their configurations are checked with it when documents are applied; with one that selects by what a document cannot know (architecture, firmware, manufacturer, product) as a warning.',
  Machine:
    'A Machine document means: accepted. No two machines may have the same hardware address, the same UUID together with the same serial number, or the same address; each address lies inside a network, at most one a network.',
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
    'What a machine is on first boot, independent of any config format. Cluster, Profile and Machine may each carry a part; they are merged, cluster first, and the narrower wins. Lists with a key (files by path, units and users by name, interfaces by mac or name, disks by device) are merged by that key; SSH keys and groups of a user are united; other lists are replaced. `muster render MACHINE` shows the result.\n',
    'Any text may hold [templates](templates.md).\n',
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
 * Every field below a schema, depth first. The shared configuration is a link, not a repetition.
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

function fieldTable(rows: readonly Row[]): string {
  const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
  const lines = rows.map(
    (row) =>
      `| \`${row.path}\` | ${cell(row.type)}${row.required ? ', required' : ''} | ${cell(row.about)} |`,
  );
  return `| field | type | meaning |\n| --- | --- | --- |\n${lines.join('\n')}\n`;
}

/** All pages and schemas by their path from the root of the tree. */
export function resourcePages(): readonly (readonly [string, string])[] {
  const kinds = Object.keys(KINDS) as Kind[];
  return [
    ...kinds.map((kind) => [`docs/schemas/${kind}.json`, jsonSchemaText(kind)] as const),
    ...kinds.map((kind) => [`docs/reference/${kind}.md`, kindPage(kind)] as const),
    [`docs/reference/${NODE_CONFIG_PAGE}`, nodeConfigPage()],
  ];
}
