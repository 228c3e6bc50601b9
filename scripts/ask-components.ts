/**
 * Asks the components of a minor version and reads their source for what
 * scripts/component-tables.ts makes tables of, and writes it into scripts/components:
 *
 *     make component-tables MINOR=1.38 BINARIES=DIR SOURCE=DIR
 *     make component-tables MINOR=1.38 DOCUMENTS=DIR SOURCE=DIR
 *     make component-tables MINOR=etcd-3.7 SOURCE=DIR
 *
 * BINARIES has the five components of Kubernetes; SOURCE is a checkout of kubernetes/kubernetes, or
 * of etcd-io/etcd. DOCUMENTS has what is published of a version instead (docs/new-minor.md), and
 * SOURCE then at least its modules. A component is given a flag and then one that no component has,
 * so that it ends while it still reads its flags, and says which of them it does not take.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { minorBefore } from '../src/cluster/model/versions.ts';
import { gatesOfList, helpOfPage, needsOfList } from './component-documents.ts';
import { allLines, COMPONENTS, flagsIn } from './component-tables.ts';

/** No component has it. */
const SENTINEL = 'muster-no-such-flag';

const run = (binary: string, ...words: readonly string[]): string => {
  const { stdout, stderr } = spawnSync(binary, words, { encoding: 'utf8', timeout: 30_000, env: {} });
  return `${stdout}\n${stderr}`;
};

/** What a component says of `--flag=value`. It never gets as far as to start. */
function verdict(binary: string, flag: string, value: string): 'taken' | 'refused' | 'unknown' {
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
  return takes('http://a.test:1') ? 'urls' : 'other';
}

/** The flags that another version shows or hides, and that this one takes without showing them. */
function hiddenFlags(component: string, binary: string, help: string): readonly string[] {
  const shown = new Set(flagsIn(help).map(([name]) => name));
  const names = [...allLines().values()].flat().flatMap((line) => {
    const [table, of, name = ''] = line.split(' ');
    return table === 'flag' && of === component && !shown.has(name) ? [name] : [];
  });
  return [...new Set(names)].flatMap((name) => {
    const type = askedType(binary, name);
    return type === undefined ? [] : [`${component} ${name} ${type}`];
  });
}

/** Without comments, which say nothing of use here. */
const bare = (text: string): string => text.replace(/^\s*\/\/.*\n/gm, '').replace(/^\/\*[\s\S]*?\*\//, '');

/** Only the types, of files that have much else. */
const typesOf = (text: string, names: RegExp): string =>
  [...text.matchAll(/^type (\w+) (struct \{\n[\s\S]*?^\}|.*$)/gm)]
    .filter(([, name]) => names.test(name!))
    .map(([all]) => all)
    .join('\n');

/** Input → the file of the source, and what of it is kept. */
const FILES: Readonly<Record<string, readonly [file: string, keep?: (text: string) => string]>> = {
  'gates/kubernetes': ['pkg/features/kube_features.go'],
  'gates/apiserver': ['staging/src/k8s.io/apiserver/pkg/features/kube_features.go'],
  'gates/apiextensions': ['staging/src/k8s.io/apiextensions-apiserver/pkg/features/kube_features.go'],
  'gates/controller-manager': ['staging/src/k8s.io/controller-manager/pkg/features/kube_features.go'],
  'gates/client-go': ['staging/src/k8s.io/client-go/features/known_features.go'],
  'gates/metrics': ['staging/src/k8s.io/component-base/metrics/features/kube_features.go'],
  'gates/logs': ['staging/src/k8s.io/component-base/logs/api/v1/kube_features.go'],
  'gates/zpages': ['staging/src/k8s.io/component-base/zpages/features/kube_features.go'],
  'controllers/names': ['cmd/kube-controller-manager/names/controller_names.go'],
  'controllers/cloud-names': ['staging/src/k8s.io/cloud-provider/names/controller_names.go'],
  'kubelet-options': [
    'cmd/kubelet/app/options/options.go',
    (text) => (text.match(/^\s*fs\.\w+\(.*?&c\..*?, "[a-z-]+"/gm) ?? []).join('\n'),
  ],
  'types/kubelet': [
    'staging/src/k8s.io/kubelet/config/v1beta1/types.go',
    (text) => typesOf(text, /^(?!Credential|Serialized|Image(?!Pull.*Policy))/),
  ],
  'types/kube-proxy': [
    'staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go',
    (text) => typesOf(text, /./),
  ],
  'types/logs': ['staging/src/k8s.io/component-base/logs/api/v1/types.go', (text) => typesOf(text, /./)],
  'types/client': [
    'staging/src/k8s.io/component-base/config/v1alpha1/types.go',
    (text) => typesOf(text, /^Client/),
  ],
  'types/tracing': [
    'staging/src/k8s.io/component-base/tracing/api/v1/types.go',
    (text) => typesOf(text, /./),
  ],
  'types/core': ['staging/src/k8s.io/api/core/v1/types.go', (text) => typesOf(text, /^Taint(Effect)?$/)],
};

/** Where API groups are: each with `register.go`, which names it, and `install/install.go`. */
const GROUPS = [
  'pkg/apis/*',
  'staging/src/k8s.io/apiextensions-apiserver/pkg/apis/*',
  'staging/src/k8s.io/kube-aggregator/pkg/apis/*',
];

/** The API groups of the published modules, which have a package for each version. */
function moduleApis(source: string, read: (file: string) => string, inputs: Map<string, string>): void {
  for (const register of fs.globSync('staging/src/k8s.io/api/*/v*/register.go', { cwd: source })) {
    const version = path.dirname(register);
    const name = `api/${path.basename(path.dirname(version))}`;
    const [group = ''] = /const GroupName = .*/.exec(read(register)) ?? [];
    inputs.set(name, [inputs.get(name) ?? group, `${path.basename(version)}.AddToScheme`].join('\n'));
  }
}

function inputsOfBinaries(binaries: string): ReadonlyMap<string, string> {
  const inputs = new Map<string, string>();
  const hidden: string[] = [];
  for (const component of COMPONENTS) {
    const binary = path.join(binaries, component);
    const help = run(binary, '--help');
    inputs.set(`help/${component}`, help);
    hidden.push(...hiddenFlags(component, binary, help));
  }
  return inputs.set('hidden-flags', hidden.join('\n'));
}

/** What is published of a version; `base` is the version before. */
function inputsOfDocuments(documents: string, base: string): ReadonlyMap<string, string> {
  const text = (file: string): string | undefined => {
    const at = path.join(documents, file);
    return fs.existsSync(at) ? fs.readFileSync(at, 'utf8') : undefined;
  };
  const inputs = new Map([['documents/base', base]]);
  for (const component of COMPONENTS) {
    const page = text(`${component}.md`);
    if (page !== undefined) inputs.set(`help/${component}`, helpOfPage(page));
  }
  const [list, needs] = [text('versioned_feature_list.yaml'), text('feature_list.md')];
  if (list !== undefined) inputs.set('gates/list', gatesOfList(list));
  if (needs !== undefined) inputs.set('gates/needs', needsOfList(needs));
  const changes = text('changes.txt');
  if (changes !== undefined) inputs.set('documents/changes', changes);
  return inputs;
}

function inputsOfSource(source: string): ReadonlyMap<string, string> {
  const read = (file: string): string => bare(fs.readFileSync(path.join(source, file), 'utf8'));
  const inputs = new Map<string, string>();
  for (const [name, [file, keep = (text: string) => text]] of Object.entries(FILES))
    if (fs.existsSync(path.join(source, file))) inputs.set(name, keep(read(file)));
  for (const install of fs.globSync(
    GROUPS.map((one) => `${one}/install/install.go`),
    { cwd: source },
  )) {
    const group = path.dirname(path.dirname(install));
    const [name = ''] = /const GroupName = .*/.exec(read(`${group}/register.go`)) ?? [];
    const versions = read(install).match(/\w+\.AddToScheme/g) ?? [];
    inputs.set(`api/${path.basename(group)}`, [name, ...versions].join('\n'));
  }
  if (!fs.existsSync(path.join(source, 'pkg/apis'))) moduleApis(source, read, inputs);
  const described = fs
    .globSync('cmd/kube-controller-manager/app/*.go', { cwd: source })
    .flatMap((file) => read(file).match(/^\s*(name|aliases):.*$/gm) ?? []);
  if (described.length > 0) inputs.set('controllers/described', described.join('\n'));
  return inputs;
}

/** The files with which etcd defines its flags and gates; before 3.6 it had no gates. */
const inputsOfEtcd = (source: string): ReadonlyMap<string, string> =>
  new Map(
    ['server/etcdmain/config.go', 'server/embed/config.go', 'server/features/etcd_features.go']
      .filter((file) => fs.existsSync(path.join(source, file)))
      .map((file) => [`etcd/${path.dirname(file)}`, bare(fs.readFileSync(path.join(source, file), 'utf8'))]),
  );

const { MINOR = '', BINARIES = '', SOURCE = '', DOCUMENTS = '' } = process.env;
const isEtcd = MINOR.startsWith('etcd-');
if (!/^(etcd-)?\d+\.\d+$/.test(MINOR) || SOURCE === '' || (BINARIES === '' && DOCUMENTS === '' && !isEtcd))
  throw new Error(
    'usage: make component-tables MINOR=1.38 BINARIES=DIR SOURCE=DIR, or DOCUMENTS=DIR SOURCE=DIR',
  );
const known = DOCUMENTS === '' ? inputsOfBinaries : (of: string) => inputsOfDocuments(of, minorBefore(MINOR));
const inputs = isEtcd
  ? inputsOfEtcd(SOURCE)
  : new Map([...known(DOCUMENTS === '' ? BINARIES : DOCUMENTS), ...inputsOfSource(SOURCE)]);
const name = process.env.AS ?? MINOR;
const target = path.join(import.meta.dirname, 'components', `${name}.json.gz`);
fs.writeFileSync(target, gzipSync(JSON.stringify(Object.fromEntries(inputs), undefined, 1), { level: 9 }));
console.error(`${target}: ${inputs.size} inputs`);
