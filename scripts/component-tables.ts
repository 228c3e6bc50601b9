/**
 * Writes src/cluster/components/component-tables.generated.ts: the flags of Kubernetes' components
 * and of etcd with the types of their values, and the feature gates with their state and what they
 * depend on, by version. A maintainer runs it when a version is added; it is not part of `make
 * docs`, because it asks the components themselves:
 *
 *     node scripts/component-tables.ts BINARIES SOURCES
 *
 * BINARIES has MINOR/COMPONENT (1.36/kubelet). SOURCES has Kubernetes' source as MINOR, and for
 * etcd the files in which a release defines its flags (3.5/config.go, …). A component is given a
 * flag and then one that no component has, so that it ends while it still reads its flags, and says
 * which of them it does not take. Binaries of a fork have flags and names that upstream lacks:
 * FORK_ONLY lists them, and they are left out. A version whose binaries are missing gets the flags
 * of the next one that its own source names as well, or HIDDEN_FLAGS for it. A version whose source
 * is missing keeps its part of the table; of gates that the next version still has, that one's
 * source tells.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const MINORS = ['1.34', '1.35', '1.36'];
const ETCD_MINORS = ['3.4', '3.5', '3.6'];
const COMPONENTS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy'];

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

/** No component has it. */
const SENTINEL = 'muster-no-such-flag';

interface Flag {
  readonly type: string;
  /** The names that the value, or each part of it, may have; empty: any. */
  readonly choices: readonly string[];
}

const run = (binary: string, ...words: readonly string[]): string => {
  const { stdout, stderr } = spawnSync(binary, words, { encoding: 'utf8', timeout: 30_000, env: {} });
  return `${stdout}\n${stderr}`;
};

type Verdict = 'taken' | 'refused' | 'unknown';

/** What a component says of `--flag=value`. It never gets as far as to start. */
function verdict(binary: string, flag: string, value: string): Verdict {
  const said = run(binary, `--${flag}=${value}`, `--${SENTINEL}`);
  if (said.includes(SENTINEL)) return 'taken';
  return new RegExp(`(unknown flag: |not defined: )--?${flag}\\b`).test(said) ? 'unknown' : 'refused';
}

/** The first type that explains which values are taken. */
function askedType(binary: string, flag: string): string | undefined {
  const takes = (value: string): boolean => verdict(binary, flag, value) === 'taken';
  if (verdict(binary, flag, '7') === 'unknown') return undefined;
  if (takes('a word')) return 'string';
  if (takes('TRUE') && !takes('7')) return 'bool';
  if (takes('1m30s')) return 'duration';
  if (takes('1.5')) return takes('1Gi') ? 'quantity' : 'float64';
  if (takes('-7')) return takes('3000000000') ? 'int' : 'int32';
  if (takes('7')) return 'uint';
  if (takes('10.0.0.1')) return 'ip';
  if (takes('a=b')) return 'mapStringString';
  if (takes('http://a.test:1')) return 'urls';
  return 'other';
}

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
  for (const list of LISTS) {
    const found = list.exec(text);
    if (found)
      return found
        .slice(1)
        .join(',')
        .split(/,| or | and | |\(/)
        .map((word) => word.replace(/["'[\]]/g, '').replace(/\.$/, ''))
        .filter((word) => /^[A-Za-z][\w/.-]*$/.test(word) && !FORK_VALUES.test(word))
        .sort();
  }
  return [];
}

/** Flags whose names are listed in the help, but that take others as well. */
const OPEN = /^(controllers|runtime-config|feature-gates|emulated-version|cloud-provider|logging-format)$/;

/** Flags that take names without values, or "<" in place of "=", whatever their help says. */
const LOOSE = /^(runtime-config|eviction-hard|eviction-soft|node-labels)$/;

/** Flags whose value is one pair, with any commas, whatever their help says. */
const ONE_PAIR = /^oidc-required-claim$/;

/** The flags in pflag's help. */
function shownFlags(help: string): Map<string, Flag> {
  const flags = new Map<string, Flag>();
  const heads = [...help.matchAll(/^ +(?:-\w, )?--([a-z][a-z0-9-]*)( [^ \n]+)?(?: {2,}|\n)/gm)];
  for (const [n, head] of heads.entries()) {
    const text = help.slice(head.index + head[0].length, heads[n + 1]?.index).replace(/\s+/g, ' ');
    const word = (head[2] ?? '').trim();
    const choices = OPEN.test(head[1]!) ? [] : choicesIn(text);
    const type = LOOSE.test(head[1]!)
      ? 'string'
      : ONE_PAIR.test(head[1]!)
        ? 'onePair'
        : (TYPES[word] ?? word);
    flags.set(head[1]!, { type, choices });
  }
  return flags;
}

/** The flags of a component: those in its help, and of `names` those that it takes all the same. */
function flagsOf(binary: string, names: readonly string[], component: string): Map<string, Flag> {
  const flags = shownFlags(run(binary, '--help'));
  for (const name of names) {
    if (flags.has(name)) continue;
    const type = askedType(binary, name);
    if (type !== undefined) flags.set(name, { type, choices: [] });
  }
  for (const name of flags.keys()) if (FORK_ONLY.has(`${component} ${name}`)) flags.delete(name);
  flags.delete('help');
  return flags;
}

/** The words in quotes of a directory's Go source, its tests aside. */
const quotedWords = (directory: string): ReadonlySet<string> =>
  new Set(
    spawnSync(
      'sh',
      [
        '-c',
        'grep -rhoE --include="*.go" --exclude="*_test.go" \'"[a-z][a-z0-9_-]+"\' "$1" | sort -u',
        'sh',
        directory,
      ],
      { encoding: 'utf8', maxBuffer: 2 ** 28 },
    )
      .stdout.split('\n')
      .map((word) => word.slice(1, -1)),
  );
const words = new Map<string, ReadonlySet<string>>();
function hasName(directory: string, name: string): boolean {
  const found = words.get(directory) ?? quotedWords(directory);
  words.set(directory, found);
  // cAdvisor names its flags with underscores.
  return found.has(name) || found.has(name.replaceAll('-', '_'));
}

/** The flags of a version without binaries; `next` are those of the version after it. */
function flagsInSource(
  source: string,
  next: ReadonlyMap<string, Flag>,
  { component, known }: { readonly component: string; readonly known: readonly string[] },
): Map<string, Flag> {
  const flags = new Map([...next].filter(([name]) => known.includes(name) || hasName(source, name)));
  for (const name of known)
    if (!next.has(name) && name !== 'help' && hasName(path.join(source, 'cmd', component), name))
      flags.set(name, { type: 'string', choices: [] });
  for (const name of flags.keys()) if (FORK_ONLY.has(`${component} ${name}`)) flags.delete(name);
  return flags;
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

/** etcd's flags, from the files that define them: no release runs on every host. */
function etcdFlags(source: string): Map<string, Flag> {
  const flags = new Map<string, Flag>();
  for (const file of fs.readdirSync(source)) {
    const text = fs.readFileSync(path.join(source, file), 'utf8');
    for (const [, method, name] of text.matchAll(/\bfs\.(\w+?)(?:Var)?\([^"\n]*"([a-z][a-z0-9-]+)",/g))
      if (ETCD_TYPES[method!] !== undefined) flags.set(name!, { type: ETCD_TYPES[method!]!, choices: [] });
    for (const [, value, name] of text.matchAll(/\bfs\.Var\(([\s\S]*?)[\s(]"([a-z][a-z0-9-]{2,})",/g)) {
      // Names that etcd takes and ignores are in a list, and what follows is no flag.
      if (value!.includes('IgnoredFlag')) continue;
      const type = /URLs/.test(value!) ? 'urls' : /Uint32/.test(value!) ? 'uint' : 'string';
      flags.set(name!, { type, choices: [] });
    }
  }
  return flags;
}

/** One line for each flag, type and list of choices: `NAME TYPE MINORS [CHOICES]`. */
function flagLines(byMinor: ReadonlyMap<string, ReadonlyMap<string, Flag>>): readonly string[] {
  const minorsOf = new Map<string, string[]>();
  for (const [minor, flags] of byMinor)
    for (const [name, { type, choices }] of flags) {
      const key = `${name} ${type} % ${choices.join(',')}`.trimEnd();
      minorsOf.set(key, [minor, ...(minorsOf.get(key) ?? [])]);
    }
  return [...minorsOf].map(([key, minors]) => key.replace('%', minors.join(','))).sort();
}

const FEATURES = [
  'pkg/features/kube_features.go',
  'staging/src/k8s.io/apiserver/pkg/features/kube_features.go',
  'staging/src/k8s.io/apiextensions-apiserver/pkg/features/kube_features.go',
  'staging/src/k8s.io/controller-manager/pkg/features/kube_features.go',
  'staging/src/k8s.io/client-go/features/known_features.go',
  'staging/src/k8s.io/component-base/metrics/features/kube_features.go',
  'staging/src/k8s.io/component-base/logs/api/v1/kube_features.go',
  'staging/src/k8s.io/component-base/zpages/features/kube_features.go',
];

/** Stages whose gates AllAlpha and AllBeta set. */
const STAGES: Readonly<Record<string, string>> = { Alpha: 'a', Beta: 'b' };

/** \b: the text may have `LockToDefault: true` as well. */
const stateOf = (text: string): string =>
  [
    STAGES[/\bPreRelease: (?:\w+\.)?(\w+)/.exec(text)?.[1] ?? ''] ?? '',
    /\bDefault: true/.test(text) ? '+' : '-',
    /\bLockToDefault: true/.test(text) ? '!' : '',
  ].join('');

/** The names of gates in a file, by the Go identifier. */
const gateNames = (text: string): ReadonlyMap<string, string> =>
  new Map(
    [...text.matchAll(/^\s*(\w+)\s+(?:\w+\.)?Feature\s*=\s*"(\w+)"/gm)].map(([, id, name]) => [id!, name!]),
  );

const featureFiles = (source: string): readonly string[] =>
  FEATURES.map((file) => path.join(source, file))
    .filter((file) => fs.existsSync(file))
    .map((file) => fs.readFileSync(file, 'utf8'));

/**
 * State of the gates in one version: `a` or `b` for alpha and beta, `+` on or `-` off by default,
 * `!` when it cannot be changed.
 */
function gatesOf(source: string, minor: string): Map<string, string> {
  const gates = new Map<string, string>([
    ['AllAlpha', '-'],
    ['AllBeta', '-'],
  ]);
  for (const text of featureFiles(source)) {
    const names = gateNames(text);
    for (const [, id, specs] of text.matchAll(
      /^\t+(?:\w+\.)?(\w+): \{\n((?:\t+\{Version.*\n|\t+\/\/.*\n|\n)+?)\t+\},/gm,
    )) {
      const known = [...specs!.matchAll(/MustParse\("([0-9.]+)"\), (.*?)\}/g)]
        .map(([, version, rest]) => ({ version: Number(version!.split('.')[1]), rest: rest! }))
        .filter(({ version }) => version <= Number(minor.split('.')[1]));
      const last = known.at(-1)?.rest;
      if (last !== undefined) gates.set(names.get(id!) ?? id!, stateOf(last));
    }
    for (const [, id, rest] of text.matchAll(/^\t+(?:\w+\.)?(\w+): +\{(Default: .*)\},/gm))
      gates.set(names.get(id!) ?? id!, stateOf(rest!));
  }
  return gates;
}

/** What each gate of one version needs to be on (`AddDependencies` of a feature gate). */
function dependenciesOf(source: string): Map<string, readonly string[]> {
  const texts = featureFiles(source);
  const names = new Map(texts.flatMap((text) => [...gateNames(text)]));
  const nameOf = (expression: string): string => {
    const id = /(\w+)\)*$/.exec(expression.trim())![1]!;
    return names.get(id) ?? id;
  };
  const all = new Map<string, readonly string[]>();
  for (const text of texts)
    for (const [, map] of text.matchAll(
      /= map\[featuregate\.Feature\]\[\]featuregate\.Feature\{\n([\s\S]*?)\n\}/g,
    ))
      for (const [, gate, needed] of map!.matchAll(/^\t([\w.]+): +\{(.+?)\},/gm))
        all.set(nameOf(gate!), needed!.split(',').map(nameOf).sort());
  return all;
}

/** The words that the table so far has after a name for a version: `NAME 1.34+ 1.35+`. */
function formerly(target: string, table: string, minor: string): Map<string, string> {
  const text = fs.existsSync(target) ? fs.readFileSync(target, 'utf8') : '';
  const lines = new RegExp(`export const ${table} = \`\n([\\s\\S]*?)\``).exec(text)?.[1] ?? '';
  return new Map(
    lines.split('\n').flatMap((line): [string, string][] => {
      const [name = '', ...words] = line.trim().split(' ');
      const word = words.find((one) => one.startsWith(minor));
      return word === undefined ? [] : [[name, word.slice(minor.length)]];
    }),
  );
}

/** The flags that the table so far has for a version. */
function formerFlags(target: string, component: string, minor: string): Map<string, Flag> {
  const text = fs.existsSync(target) ? fs.readFileSync(target, 'utf8') : '';
  const lines = new RegExp(`^ {2}'?${component}'?: \`\n([\\s\\S]*?)\``, 'm').exec(text)?.[1] ?? '';
  return new Map(
    lines.split('\n').flatMap((line): [string, Flag][] => {
      const [name = '', type = '', minors = '', choices = ''] = line.trim().split(' ');
      const flag = { type, choices: choices === '' ? [] : choices.split(',') };
      return minors.split(',').includes(minor) ? [[name, flag]] : [];
    }),
  );
}

const [binaries, sources] = process.argv.slice(2);
if (sources === undefined) throw new Error('usage: component-tables.ts BINARIES SOURCES');
const target = path.join(import.meta.dirname, '../src/cluster/components/component-tables.generated.ts');
/** Names that a help may hide: `COMPONENT NAME` a line, of the table so far and of HIDDEN_FLAGS. */
const hidden = [target, process.env.HIDDEN_FLAGS ?? '']
  .filter((file) => file !== '' && fs.existsSync(file))
  .flatMap((file) => {
    let component = '';
    return fs
      .readFileSync(file, 'utf8')
      .split('\n')
      .map((line) => {
        component = /^ {2}'?([a-z-]+)'?: `$/.exec(line)?.[1] ?? component;
        const [first = '', second = ''] = line.trim().split(' ');
        return COMPONENTS.includes(first) ? `${first} ${second}` : `${component} ${first}`;
      });
  })
  .filter((line) => /^[a-z-]+ [a-z][a-z0-9-]*$/.test(line));

const tables: string[] = [];
for (const component of [...COMPONENTS, 'etcd']) {
  const known = hidden.filter((line) => line.startsWith(`${component} `)).map((line) => line.split(' ')[1]!);
  const byMinor = new Map<string, Map<string, Flag>>();
  let next = new Map<string, Flag>();
  for (const minor of (component === 'etcd' ? ETCD_MINORS : MINORS).toReversed()) {
    const source = path.join(sources, minor);
    const binary = path.join(binaries!, minor, component);
    if (!fs.existsSync(source)) next = formerFlags(target, component, minor);
    else if (component === 'etcd') next = etcdFlags(source);
    else if (fs.existsSync(binary)) next = flagsOf(binary, known, component);
    else next = flagsInSource(source, next, { component, known });
    byMinor.set(minor, next);
    console.error(`${component} ${minor}: ${next.size} flags`);
  }
  const lines = flagLines(byMinor).map((line) => `  ${line}`);
  const key = component.includes('-') ? `'${component}'` : component;
  tables.push(`  ${key}: \`\n${lines.join('\n')}\n\`,`);
}
const states = new Map<string, string[]>();
const needs = new Map<string, string[]>();
for (const minor of MINORS) {
  const source = path.join(sources, minor);
  const has = fs.existsSync(source);
  const before = formerly(target, 'GATE_LINES', minor);
  const next = gatesOf(
    path.join(sources, MINORS.find((one) => fs.existsSync(path.join(sources, one)))!),
    minor,
  );
  const gates = has
    ? gatesOf(source, minor)
    : new Map([...before].map(([name, was]) => [name, next.get(name) ?? was]));
  for (const [name, state] of gates) states.set(name, [...(states.get(name) ?? []), `${minor}${state}`]);
  const needed = has
    ? new Map([...dependenciesOf(source)].map(([name, list]) => [name, `:${list.join(',')}`]))
    : formerly(target, 'DEPENDENCY_LINES', minor);
  for (const [name, list] of needed) needs.set(name, [...(needs.get(name) ?? []), `${minor}${list}`]);
}
const linesOf = (table: ReadonlyMap<string, readonly string[]>): string =>
  [...table]
    .map(([name, list]) => `  ${name} ${list.join(' ')}`)
    .sort()
    .join('\n');

fs.writeFileSync(
  target,
  `/** Flags and feature gates by version. Generated by scripts/component-tables.ts; do not edit. */

/** Each line: flag, type of its value, versions, and the names that it takes if these are known. */
export const FLAG_LINES = {
${tables.join('\n')}
} as const;

/**
 * Each line: gate, and per version a (alpha) or b (beta), + (on) or - (off) by default, and ! if
 * that cannot be changed.
 */
export const GATE_LINES = \`
${linesOf(states)}
\`;

/** Each line: gate, and per version the gates without which it cannot be on. */
export const DEPENDENCY_LINES = \`
${linesOf(needs)}
\`;
`,
);
