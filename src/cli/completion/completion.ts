/**
 * `muster completion SHELL`: prints a script that asks `muster __complete` which words may come
 * next, so that all shells offer the same words. Also implements `muster __complete`.
 */
import type { Command } from 'commander';
import type { Shown } from '../../api/shown.ts';
import { MusterError } from '../../base/errors.ts';
import { openClient } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { complete, type List } from './complete.ts';
import type { SHELLS } from './shells.ts';

/**
 * A list of names that takes longer than this is left out, because the operator waits after the Tab
 * key.
 */
const TIMEOUT = '2s';

const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  bash: `# bash completion for muster; source <(muster completion bash)
_muster() {
  local cur=\${COMP_WORDS[COMP_CWORD]} reply
  [ "$cur" = = ] && cur=''
  reply=$(muster __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" "$cur" 2>/dev/null)
  COMPREPLY=()
  if [ "$reply" = :file ]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  elif [ -n "$reply" ]; then
    mapfile -t COMPREPLY <<<"$reply"
  fi
}
complete -F _muster muster
`,
  zsh: `#compdef muster
# zsh completion for muster; source <(muster completion zsh)
_muster() {
  local -a reply
  reply=("\${(@f)$(muster __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  reply=("\${(@)reply:#}")
  if [[ "$reply[1]" = :file ]]; then
    _files
  elif (( $#reply )); then
    compadd -- "\${(@)reply}"
  fi
}
compdef _muster muster
`,
  fish: `# fish completion for muster; muster completion fish | source
function __muster_complete
    set -l words (commandline -opc)[2..-1]
    set -l current (commandline -ct)
    set -l reply (muster __complete -- $words "$current" 2>/dev/null)
    if test "$reply" = :file
        __fish_complete_path "$current"
    else
        printf '%s\\n' $reply
    end
end
complete -c muster -f -a '(__muster_complete)'
`,
};

/** `muster completion`: prints the script of a shell. */
export function completion(shell: (typeof SHELLS)[number], io: Io): number {
  io.out(SCRIPTS[shell]);
  return EXIT.ok;
}

/**
 * `muster __complete`: prints the candidates for the last word, one on each line; `:file` where the
 * shell completes names of files.
 */
export async function printCandidates(words: readonly string[], program: Command, io: Io): Promise<number> {
  const found = await complete(words, program, (list) => namesOf(list, io));
  io.out(found === 'file' ? ':file\n' : found.map((one) => `${one}\n`).join(''));
  return EXIT.ok;
}

/** The names in a list of the server; no names when the server does not answer. */
async function namesOf(list: List, io: Io): Promise<readonly string[]> {
  const client = openClient({ timeout: TIMEOUT }, io);
  try {
    if (list === 'artifacts') return (await client.ask('GET /v1/artifacts')).items.map(({ name }) => name);
    const { items } = await client.call<{ items: readonly Shown[] }>('GET', `/v1/${list}`);
    return items.map(({ metadata }) => metadata.name);
  } catch (error) {
    if (error instanceof MusterError) return [];
    throw error;
  }
}
