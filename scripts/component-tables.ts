/**
 * Makes src/cluster/components/component-tables.generated.ts: what each minor version of Kubernetes
 * and of etcd knows, from flags with their types to fields of configurations. `make docs` writes it
 * from scripts/components, which has one file for each version. Pure: the same files give the same
 * tables, and CI compares them.
 */
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { baseOf, mergedLines } from './component-documents.ts';

/** What was found of one version: the name of a file or an answer → its text. */
export type Inputs = Readonly<Record<string, string>>;

export const COMPONENTS = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kube-proxy',
] as const;

/**
 * Flags and values of OpenShift's Kubernetes; github.com/openshift/kubernetes, "UPSTREAM: <carry>".
 */
const FORK_ONLY: ReadonlySet<string> = new Set([
  'kube-apiserver openshift-config',
  'kube-apiserver send-retry-after-while-not-ready-once',
  'kube-controller-manager openshift-config',
  'kube-controller-manager unsupported-kube-api-over-localhost',
  'kube-scheduler unsupported-kube-api-over-localhost',
]);
const FORK_VALUES = /openshift|^(Scope|SystemMasters|MinimumKubeletVersion)$/;

/** pflag's names for types, where they are not ours. */
const TYPES: Readonly<Record<string, string>> = {
  '': 'bool',
  'version[=true]': 'version',
  Level: 'level',
  'pattern=N,...': 'vmodule',
  float: 'float64',
  float32: 'float64',
  colonSeparatedMultimapStringString: 'gates',
  mapStringBool: 'gates',
  '[]v1.Taint': 'taints',
  RuntimeDefault: 'bool',
};

/** Where a help text lists the names that a flag takes. */
const LISTS: readonly RegExp[] = [
  /Comma-delimited list of(?: admission plugins)?: ([A-Za-z, ]+)\./,
  /Preferred values: ([A-Z0-9_, ]+)\.\s+Insecure values: ([A-Z0-9_, ]+)\./,
  /(?:Known (?:formats|modes) are|Supported media types:|Possible values:|Valid options are|Valid values are|Supported options are|Acceptable options are|Permitted formats:) ([A-Za-z0-9,'"[\]/.\- ]+?)(?:\. |\.$|\(|$)/,
  /Use an endpoint reconciler \(([a-z, -]+)\)/,
];

function choicesIn(text: string): readonly string[] {
  const found = LISTS.map((list) => list.exec(text)).find((one) => one !== null);
  return (found?.slice(1) ?? [])
    .join(',')
    .split(/,| or | and | |\(/)
    .map((word) => word.replace(/["'[\]]/g, '').replace(/\.$/, ''))
    .filter((word) => /^[A-Za-z][\w/.-]*$/.test(word) && !FORK_VALUES.test(word))
    .sort();
}

/** Flags whose names are listed in the help, but that take others as well. */
const OPEN = /^(controllers|runtime-config|feature-gates|emulated-version|cloud-provider|logging-format)$/;
/** Flags that take names without values, or "<" in place of "=", whatever their help says. */
const LOOSE = /^(runtime-config|eviction-hard|eviction-soft|node-labels)$/;
/** Flags whose value is one pair, with any commas, whatever their help says. */
const ONE_PAIR = /^oidc-required-claim$/;

/** The flags in pflag's help: name, type, and the names that the value may have. */
export function flagsIn(help: string): readonly (readonly [name: string, rest: string])[] {
  const heads = [...help.matchAll(/^ +(?:-\w, )?--([a-z][a-z0-9-]*)( [^ \n]+)?(?: {2,}|\n)/gm)];
  return heads.map((head, n) => {
    const [whole, name = '', word = ''] = head;
    const text = help.slice(head.index + whole.length, heads[n + 1]?.index).replace(/\s+/g, ' ');
    const own = LOOSE.test(name) ? 'string' : ONE_PAIR.test(name) ? 'onePair' : undefined;
    const choices = OPEN.test(name) ? [] : choicesIn(text);
    return [name, [own ?? TYPES[word.trim()] ?? word.trim(), ...choices].join(' ')];
  });
}

function flagLines(inputs: Inputs): readonly string[] {
  const asked = (inputs['hidden-flags'] ?? '').split('\n').filter((line) => line !== '');
  const shown = COMPONENTS.flatMap((component) =>
    flagsIn(inputs[`help/${component}`] ?? '').map(([name, rest]) => `${component} ${name} ${rest}`),
  );
  return [...new Set([...shown, ...asked])]
    .filter((line) => {
      const [component, name] = line.split(' ');
      return name !== 'help' && !FORK_ONLY.has(`${component} ${name}`);
    })
    .map((line) => `flag ${line}`);
}

/** Stages whose gates AllAlpha and AllBeta set. */
const STAGES: Readonly<Record<string, string>> = { Alpha: 'a', Beta: 'b' };

/** \b: the text may have `LockToDefault: true` as well. */
const stateOf = (text: string): string =>
  [
    STAGES[/\bPreRelease: (?:\w+\.)?(\w+)/.exec(text)?.[1] ?? ''] ?? '',
    /\bDefault: true/.test(text) ? '+' : '-',
    /\bLockToDefault: true/.test(text) ? '!' : '',
  ].join('');

/**
 * State of the gates of a version: `a` or `b` for alpha and beta, `+` on or `-` off by default, `!`
 * when it cannot be changed; and what each needs to be on (`AddDependencies` of a feature gate).
 */
function gateLines(texts: readonly string[], minor: string): readonly string[] {
  const names = new Map(
    texts.flatMap((text) =>
      [...text.matchAll(/^\s*(\w+)\s+(?:\w+\.)?Feature\s*=\s*"(\w+)"/gm)].map(
        ([, id, name]) => [id!, name!] as const,
      ),
    ),
  );
  const nameOf = (expression: string): string => {
    const id = /(\w+)\)*$/.exec(expression.trim())![1]!;
    return names.get(id) ?? id;
  };
  const gates = new Map([
    ['AllAlpha', '-'],
    ['AllBeta', '-'],
  ]);
  const needs = new Map<string, string>();
  for (const text of texts) {
    for (const [, id, specs] of text.matchAll(
      /^\t+(?:\w+\.)?(\w+): \{\n((?:\t+\{Version.*\n|\n)+?)\t+\},/gm,
    )) {
      const last = [...specs!.matchAll(/MustParse\("1\.([0-9]+)"\), (.*?)\}/g)]
        .filter(([, number]) => Number(number) <= Number(minor.split('.')[1]))
        .at(-1);
      if (last !== undefined) gates.set(nameOf(id!), stateOf(last[2]!));
    }
    for (const [, id, rest] of text.matchAll(/^\t+(?:\w+\.)?(\w+): +\{(Default: .*)\},/gm))
      gates.set(nameOf(id!), stateOf(rest!));
    for (const [, map] of text.matchAll(
      /= map\[featuregate\.Feature\]\[\]featuregate\.Feature\{\n([\s\S]*?)\n\}/g,
    ))
      for (const [, gate, needed] of map!.matchAll(/^\t([\w.]+): +\{(.+?)\},/gm))
        needs.set(nameOf(gate!), needed!.split(',').map(nameOf).sort().join(','));
  }
  return [
    ...[...gates].map(([name, state]) => `gate ${name} ${state}`),
    ...[...needs].map(([name, needed]) => `needs ${name} ${needed}`),
  ];
}

/** The controllers, each with its former name if it takes that as well. */
function controllerLines(text: string): readonly string[] {
  const names = new Map(
    [...text.matchAll(/^\s*(\w+)\s*=\s*"([a-z-]+)"/gm)].map(([, id, name]) => [id!, name!]),
  );
  const described = /^\s*name:\s+(?:\w+\.)?(\w+),(?:\s+aliases:\s+\[\]string\{"([a-z-]+)"\})?/gm;
  return [...text.matchAll(described)].flatMap(([, id = '', before = '']) => {
    const name = names.get(id);
    return name === undefined ? [] : [`controller ${name} ${before}`.trimEnd()];
  });
}

/** Groups that an API server registers, and of which it serves nothing. */
const NOT_SERVED = ['', 'admission.k8s.io', 'apidiscovery.k8s.io', 'extensions', 'imagepolicy.k8s.io'];

/** The API groups with the versions that their `install` packages register. */
const apiLines = (inputs: Inputs): readonly string[] =>
  Object.entries(inputs).flatMap(([file, text]) => {
    const [, group] = /GroupName = "(.*)"/.exec(text) ?? [];
    if (!file.startsWith('api/') || group === undefined || NOT_SERVED.includes(group)) return [];
    const versions = [...text.matchAll(/(v\d+(?:(?:alpha|beta)\d+)?)\.AddToScheme/g)].map(
      ([, version]) => version!,
    );
    return [`api ${group} ${versions.sort().join(' ')}`];
  });

/** Go's types of single fields → ours (src/cluster/components/config-shapes.ts). */
const FIELD_TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  'metav1.Duration': 'duration',
  TimeOrMetaDuration: 'flushTime',
  bool: 'truth',
  int32: 'whole',
  uint32: 'whole',
  int64: 'long',
  float64: 'number',
  float32: 'number',
  'resource.QuantityValue': 'quantity',
  '[]string': 'texts',
  'map[string]string': 'textMapping',
  'map[string]bool': 'gates',
};

interface Field {
  readonly goName: string;
  readonly name: string;
  readonly type: string;
}

/** The types of Go sources: the fields of a structure, or what another one is. */
function typesIn(text: string): ReadonlyMap<string, string | readonly Field[]> {
  const structures = [...text.matchAll(/^type (\w+) struct \{\n([\s\S]*?)^\}/gm)].map(
    ([, name, body]) =>
      [
        name!,
        [...body!.matchAll(/^\s+(?:(\w+)\s+)?([\w.*[\]]+)\s+`json:"(\w*)(?:,\w+)*"/gm)].map(
          ([, goName = '', type = '', field = '']): Field => ({
            goName,
            name: field,
            type: type.replace(/^\*/, ''),
          }),
        ),
      ] as const,
  );
  const others = [...text.matchAll(/^type (\w+) ([\w.[\]]+)$/gm)].map(
    ([, name, type]) => [name!, type!] as const,
  );
  return new Map<string, string | readonly Field[]>([...structures, ...others]);
}

/** `PATH TYPE` for every field below a type; `[]` for the items of a list, `*` for any name. */
function fieldsBelow(types: ReturnType<typeof typesIn>, type: string, at: string): readonly string[] {
  const known = FIELD_TYPES[type];
  if (known !== undefined) return [`${at} ${known}`];
  if (type.startsWith('[]')) return fieldsBelow(types, type.slice(2), `${at}[]`);
  if (type.startsWith('map[string]')) return fieldsBelow(types, type.slice(11), `${at}.*`);
  if (type === 'v1.ResourceList') return [`${at}.* quantity`];
  const of = types.get(type.replace(/^\w+\./, ''));
  if (of === undefined) return [];
  if (typeof of === 'string') return fieldsBelow(types, of, at);
  return of.flatMap((field) =>
    fieldsBelow(types, field.type, field.name === '' ? at : at === '' ? field.name : `${at}.${field.name}`),
  );
}

/** Methods and values of pflag → how the text of a flag is read (kubelet-flags.ts). */
const READERS: readonly (readonly [RegExp, string])[] = [
  [/^StringVar|IPVar/, 'text'],
  [/^BoolVar/, 'truth'],
  [/^(Int|Uint|Float)\w*Var/, 'whole'],
  [/^DurationVar/, 'duration'],
  [/^StringSliceVar/, 'texts'],
  [/NewMapStringString/, 'pairs'],
  [/NewLangleSeparated/, 'thresholds'],
  [/RegisterWithTaintsVar/, 'taints'],
];

/** Flags that have no effect in a cluster, where the field is refused for that. */
const WITHOUT_EFFECT = /^pod-cidr$/;

/** kubelet's flags that set a field of its configuration: flag, field, and how the text is read. */
function setsLines(options: string, types: ReturnType<typeof typesIn>): readonly string[] {
  const fields = new Map(
    ((types.get('KubeletConfiguration') ?? []) as readonly Field[]).map((one) => [one.goName, one.name]),
  );
  return [
    ...options.matchAll(
      /fs\.(\w+\((?:\w+\.New\w+\(|&\w+\.\w+\{\w+: )?)(?:\(\*string\)\()?&c\.(\w+)(?:\.Duration)?[\s})]*, "([a-z-]+)"/g,
    ),
  ].flatMap(([, method = '', goName = '', flag = '']) => {
    const [, reader] = READERS.find(([pattern]) => pattern.test(method)) ?? [];
    const field = fields.get(goName);
    return reader === undefined || field === undefined || WITHOUT_EFFECT.test(flag)
      ? []
      : [`sets ${flag} ${field} ${reader}`];
  });
}

/** The methods of Go's flag package, and the types of etcd's own values. */
const ETCD_TYPES: Readonly<Record<string, string>> = {
  Bool: 'bool',
  Duration: 'duration',
  Float64: 'float64',
  Int: 'int',
  Int64: 'int',
  String: 'string',
  Uint: 'uint',
  Uint64: 'uint',
};

/** etcd's flags and gates, from the files that define them: its help does not tell their types. */
function etcdLines(texts: readonly string[]): readonly string[] {
  const flags = new Map<string, string>();
  for (const text of texts) {
    for (const [, method, name] of text.matchAll(/\bfs\.(\w+?)(?:Var)?\([^"\n]*"([a-z][a-z0-9-]+)",/g))
      if (ETCD_TYPES[method!] !== undefined) flags.set(name!, ETCD_TYPES[method!]!);
    for (const [, value, name] of text.matchAll(/\bfs\.Var\(([\s\S]*?)[\s(]"([a-z][a-z0-9-]{2,})",/g)) {
      // Names that etcd takes and ignores are in a list, and what follows is no flag.
      if (value!.includes('IgnoredFlag')) continue;
      flags.set(name!, /URLs/.test(value!) ? 'urls' : /Uint32/.test(value!) ? 'uint' : 'string');
    }
    if (/FeatureGate\)\.AddFlag\(/.test(text)) flags.set('feature-gates', 'string');
  }
  const all = texts.join('\n');
  const former = new Map(
    [...all.matchAll(/^\s*"(experimental-[a-z-]+)":\s+(\w+),/gm)].map(([, flag, gate]) => [gate!, flag!]),
  );
  const gates = [...all.matchAll(/^\s*\w+\s+featuregate\.Feature = "(\w+)"/gm)].map(([, name]) => name!);
  return [
    ...[...flags].map(([name, type]) => `flag etcd ${name} ${type}`),
    ...(gates.length === 0 ? [] : ['AllAlpha', 'AllBeta', ...gates]).map((name) =>
      `gate-etcd ${name} ${former.get(name) ?? ''}`.trimEnd(),
    ),
  ];
}

/**
 * The lines of one version: a table, a name, and what is known of it.
 *
 * @param others The lines of the versions before, for one that is known by documents.
 */
export function linesOf(
  name: string,
  inputs: Inputs,
  others: ReadonlyMap<string, readonly string[]> = new Map(),
): readonly string[] {
  const below = (folder: string): readonly string[] =>
    Object.entries(inputs).flatMap(([file, text]) => (file.startsWith(`${folder}/`) ? [text] : []));
  if (name.startsWith('etcd-')) return etcdLines(below('etcd')).toSorted();
  const types = typesIn(below('types').join('\n'));
  const fields = ([component, type]: readonly [string, string]): readonly string[] =>
    fieldsBelow(types, type, '').map((line) => `field ${component} ${line}`);
  const own = [
    ...flagLines(inputs),
    ...gateLines(below('gates'), name),
    ...controllerLines(below('controllers').join('\n')),
    ...apiLines(inputs),
    ...fields(['kubelet', 'KubeletConfiguration']),
    ...fields(['kube-proxy', 'KubeProxyConfiguration']),
    ...setsLines(inputs['kubelet-options'] ?? '', types),
  ];
  const base = baseOf(inputs);
  if (base === undefined) return own.toSorted();
  return mergedLines(others.get(base) ?? [], own, inputs['documents/changes'] ?? '').toSorted();
}

const DIRECTORY = path.join(import.meta.dirname, 'components');

/** The lines of every version that has a file. */
export function allLines(): ReadonlyMap<string, readonly string[]> {
  const all = new Map<string, readonly string[]>();
  for (const file of fs.readdirSync(DIRECTORY).toSorted()) {
    const [, name, kind] = /^([\w.-]*?\d)\.(txt|json\.gz)$/.exec(file) ?? [];
    if (name === undefined) continue;
    const lines =
      kind === 'txt'
        ? fs.readFileSync(path.join(DIRECTORY, file), 'utf8').trim().split('\n')
        : linesOf(name, inputsIn(file), all);
    all.set(name, lines);
  }
  return all;
}

/** What a file of scripts/components has. */
export const inputsIn = (file: string): Inputs =>
  JSON.parse(gunzipSync(fs.readFileSync(path.join(DIRECTORY, file))).toString()) as Inputs;

/** The generated file: one line for what several versions say alike, with these versions. */
export function tablesFile(): readonly [file: string, text: string] {
  const minorsOf = new Map<string, string[]>();
  for (const [name, lines] of allLines())
    for (const line of lines) minorsOf.set(line, [...(minorsOf.get(line) ?? []), name.replace('etcd-', '')]);
  const tables = new Map<string, string[]>();
  for (const [line, minors] of minorsOf) {
    const [, table = '', words = ''] = /^((?:flag|field) \S+|\S+) (.*)$/.exec(line) ?? [];
    tables.set(table, [...(tables.get(table) ?? []), `${words} | ${minors.join(' ')}`]);
  }
  const entries = [...tables.keys()].toSorted().map(
    (table) =>
      `  ${/^\w+$/.test(table) ? table : `'${table}'`}: \`\n${tables
        .get(table)!
        .toSorted()
        .map((line) => `    ${line}\n`)
        .join('')}  \`,\n`,
  );
  return [
    'src/cluster/components/component-tables.generated.ts',
    `/** What each version knows, from scripts/components. Generated by \`make docs\`; do not edit. */\n\n/** Each line: a name, what is known of it, and after the bar the versions that say so. */\nexport const TABLES = {\n${entries.join('')}} as const;\n`,
  ];
}
