/**
 * Reads what is published of a version of Kubernetes, for versions whose programs and whole source
 * are not at hand: reference pages of the components, the list of feature gates with their stages,
 * the modules of its API, and a list of changes after the release notes. What no document says is
 * taken over from the version before. Pure.
 */
import { load } from 'js-yaml';
import type { Inputs } from './component-tables.ts';

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', '#39': "'", amp: '&' };

const plain = (html: string): string =>
  html
    .replace(/<br\s*\/?>/g, '\n')
    .replace(/<[^>]+>/g, '')
    .replace(/&nbsp;/g, ' ')
    .replace(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => ENTITIES[name]!);

/**
 * The help of a component as its reference page prints it: a table with a row for a flag and its
 * type, and a row for its text. Pages leave out the flags that the component hides.
 */
export const helpOfPage = (page: string): string =>
  [
    ...page.matchAll(
      /<td colspan="2">((?:-\w, )?--[^\n]*?)<\/td>[\s\S]*?<td><\/td>\s*<td[^>]*>([\s\S]*?)<\/td>/g,
    ),
  ]
    .map(([, flag = '', text = '']) => {
      const head = plain(flag).replace(/\s+Default:.*$/, '');
      return `      ${head}   ${plain(text).trim().replace(/\n/g, '\n        ')}\n`;
    })
    .join('');

interface ListedGate {
  readonly name: string;
  readonly versionedSpecs: readonly {
    readonly default: boolean;
    readonly lockToDefault: boolean;
    readonly preRelease: string;
    readonly version: string;
  }[];
}

/** Kubernetes' list of feature gates (versioned_feature_list.yaml), as their sources write them. */
export const gatesOfList = (list: string): string =>
  (load(list) as readonly ListedGate[])
    .map(({ name, versionedSpecs }) => {
      const specs = versionedSpecs.map(
        (one) =>
          `\t\t{Version: version.MustParse("${one.version}"), Default: ${one.default}, PreRelease: featuregate.${one.preRelease}${one.lockToDefault ? ', LockToDefault: true' : ''}},\n`,
      );
      return `\t${name}: {\n${specs.join('')}\t},\n`;
    })
    .join('');

/** What each gate needs, by the table of Kubernetes' feature_list.md, as their sources write it. */
export function needsOfList(list: string): string {
  const rows = [...list.matchAll(/^\| (\w+) \|(?:[^|\n]*\|){6} ([^|\n]*)\|/gm)];
  const needs = rows
    .map(([, gate, needed]) => `\t${gate}: {${plain(needed!).match(/\w+/g)?.join(', ') ?? ''}},\n`)
    .join('');
  return `= map[featuregate.Feature][]featuregate.Feature{\n${needs}\n}`;
}

/**
 * The lines of a version that documents describe: each table that they have replaces the one of
 * `base`, and `changes` says what else differs:
 *
 *     - flag kubelet boot-id-file          # the lines that begin like this are gone
 *     + flag kube-proxy new-flag bool      # this line is new
 *     without PodGroupWorkloadExists       # no flag takes this name any more
 */
export function mergedLines(
  base: readonly string[],
  own: readonly string[],
  changes: string,
): readonly string[] {
  const table = (line: string): string => /^(flag|field) \S+|^\S+/.exec(line)![0];
  const replaced = new Set(own.map(table));
  const all = new Set([...base.filter((line) => !replaced.has(table(line))), ...own]);
  for (const change of changes.split('\n')) {
    const [, how, what = ''] = /^(-|\+|without) ([^#]*?)\s*(?:#.*)?$/.exec(change) ?? [];
    if (how === '+') all.add(what);
    for (const line of how === '+' || how === undefined ? [] : [...all]) {
      const words = line.split(' ');
      if (how === '-' && (line === what || line.startsWith(`${what} `))) all.delete(line);
      if (how === 'without' && line.startsWith('flag ') && words.includes(what)) {
        all.delete(line);
        all.add(words.filter((word) => word !== what).join(' '));
      }
    }
  }
  const gates = new Set([...all].flatMap((line) => (line.startsWith('gate ') ? [line.split(' ')[1]!] : [])));
  // A gate that is gone neither needs another one nor is needed.
  return [...all].flatMap((line) => {
    const [, gate, needed] = /^needs (\S+) (\S+)$/.exec(line) ?? [];
    if (gate === undefined) return [line];
    const left = needed!.split(',').filter((one) => gates.has(one));
    return gates.has(gate) && left.length > 0 ? [`needs ${gate} ${left.join(',')}`] : [];
  });
}

/** The version whose lines are taken over, if the inputs are documents. */
export const baseOf = (inputs: Inputs): string | undefined => inputs['documents/base'];
