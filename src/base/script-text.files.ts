/** Reads the shell scripts and units that Muster gives to machines; they lie beside the code. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { projectRoot } from './paths.ts';

/**
 * Removes the comments of a script, which would be a third of what every machine of a cluster
 * downloads at every boot. Lines within quotes or here-documents that look like comments would be
 * removed too; test/unit/agent/serve/layer.test.ts proves that no script has any.
 *
 * @param name path of the script in the tree; the second line of the result names it
 */
export function withoutComments(name: string, text: string): string {
  const [first, ...lines] = text.split('\n');
  const code = lines.filter((line) => !/^\s*#/.test(line));
  return [first, `# The same with comments: ${name} of Muster.`, ...code].join('\n');
}

/**
 * The text of a file of the tree, such as `src/agent/scripts/muster-agent.service`.
 *
 * @throws {Error} when the installation lacks it
 */
export const unitText = (file: string): string => readFileSync(path.join(projectRoot(), file), 'utf8');

/** The text of a script of the tree, as machines get it. Throws the same. */
export const scriptText = (file: string): string => withoutComments(file, unitText(file));
