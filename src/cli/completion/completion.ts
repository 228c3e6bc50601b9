/** `muster completion bash`: a completion script made from the command tree. */
import type { Command } from 'commander';
import { MusterError } from '../../base/errors.ts';
import { PLURAL } from '../../resources/kinds.ts';
import { EXIT, type Io } from '../io.ts';
import { OTHER_LISTS } from '../names.ts';

export function completion(shell: string, program: Command, io: Io): number {
  if (shell !== 'bash') throw new MusterError('E_USAGE', `completion is there for bash, not for "${shell}"`);
  io.out(bashScript(program));
  return EXIT.ok;
}

interface Node {
  /** Words from the root, e.g. `machine add`; empty for the root. */
  readonly path: string;
  readonly words: readonly string[];
  /** Option → what may follow it; empty when it takes no value, `:file`, `:any`, or words. */
  readonly values: ReadonlyMap<string, string>;
}

function nodesOf(command: Command, path: string): Node[] {
  const options = command.options.filter((option) => !option.hidden);
  const flags = options.flatMap((option) => [option.short, option.long].filter((flag) => flag !== undefined));
  const values = new Map(
    options.flatMap((option) => {
      const what = valueAfter(option);
      return [option.short, option.long].flatMap((flag): [string, string][] => (flag ? [[flag, what]] : []));
    }),
  );
  const children = command.commands.filter((child) => child.name() !== 'help');
  const node = { path, words: [...children.map((child) => child.name()), ...flags, '--help'], values };
  return [
    node,
    ...children.flatMap((child) => nodesOf(child, path ? `${path} ${child.name()}` : child.name())),
  ];
}

function valueAfter(option: Command['options'][number]): string {
  if (!option.required && !option.optional) return '';
  if (option.argChoices) return option.argChoices.join(' ');
  return /<(path|dir|file)>/.test(option.flags) ? ':file' : ':any';
}

/** What the argument of a verb may be, beyond options: shell that sets `words`. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  get: 'kinds_and_names',
  delete: 'kinds_and_names',
  explain: 'machines',
  render: 'machines',
  events: 'machines',
  'machine accept': 'machines',
};

function bashScript(program: Command): string {
  const nodes = nodesOf(program, '');
  const kinds = [...Object.values(PLURAL), ...Object.keys(OTHER_LISTS)].join(' ');
  const cases = nodes.map(({ path, words }) => `    '${path}') words='${words.join(' ')}' ;;`);
  const values = nodes.flatMap(({ path, values: options }) =>
    [...options]
      .filter(([, what]) => what !== '')
      .map(([flag, what]) => `    '${path} ${flag}') value='${what}' ;;`),
  );
  const commands = nodes.filter(({ path }) => path !== '').map(({ path }) => `'${path}'`);
  const dynamic = Object.entries(ARGUMENTS).map(([path, name]) => `    '${path}') _muster_${name} ;;`);
  return `# bash completion for muster; source <(muster completion bash)
_muster_names() {
  muster get "$1" -o name 2>/dev/null | sed 's#.*/##'
}
_muster_machines() {
  words="$words $(_muster_names machines)"
}
_muster_kinds_and_names() {
  if [ -z "$kind" ]; then words="$words ${kinds}"; else words="$words $(_muster_names "$kind")"; fi
}
_muster() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path='' kind='' words='' value='' word n
  for ((n = 1; n < COMP_CWORD; n++)); do
    word=\${COMP_WORDS[n]}
    case $word in -*) continue ;; esac
    case "$path\${path:+ }$word" in
    ${commands.join(' | ')}) path="$path\${path:+ }$word" ;;
    *) [ -n "$path" ] && [ -z "$kind" ] && kind=$word ;;
    esac
  done
  case "$path $prev" in
${values.join('\n')}
  esac
  case $value in
    '') ;;
    ':file') mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    ':any') COMPREPLY=(); return ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$value" -- "$cur"); return ;;
  esac
  case $path in
${cases.join('\n')}
  esac
  case $path in
${dynamic.join('\n')}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _muster muster
`;
}
