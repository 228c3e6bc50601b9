/** Constructors for plan lines, and digests over the files that lines write. */
import { createHash } from 'node:crypto';
import type { PlanContent, PlanLine } from '../../agent/wire/plan.ts';
import type { MachineFile } from '../../pki/handout.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { proxyVariables } from '../resolve/proxies.ts';

/** The line that writes a file; by default with mode 0644. */
export const put = (path: string, text: string, mode = 0o644): PlanLine => ({
  do: 'put',
  mode,
  path,
  content: { text },
});

/** The line that makes a directory; by default with mode 0755. */
export const directory = (path: string, mode = 0o755): PlanLine => ({ do: 'directory', mode, path });

/** The line after which the machine reports that it reached this step. */
export const step = (name: string): PlanLine => ({ do: 'step', step: name });

/** The line at which the machine stops and reports `code` with its text. */
export const hold = (code: string, text: string): PlanLine => ({ do: 'hold', code, text });

/** The line for a file of the PKI. The machine inserts keys that it made itself. */
export function lineOf({ path, mode, content }: MachineFile): PlanLine {
  switch (content.kind) {
    case 'text':
      return put(path, content.text, mode);
    case 'secret':
      return { do: 'put', mode, path, content: { text: content.secret.reveal(), secret: true } };
    case 'absent':
      return { do: 'remove', path };
    case 'link':
      return { do: 'link', to: content.to, path, onlyIfAbsent: content.onlyIfAbsent === true };
    case 'pair': {
      const { certificate, key } = content;
      const made = 'leaf' in key ? key : { content: { text: key.secret.reveal(), secret: true } as const };
      return { do: 'put-pair', mode, path, content: { text: certificate }, key: made };
    }
    case 'with-own-key':
      return {
        do: 'put-with-key',
        mode,
        path,
        content: { text: content.text },
        leaf: content.leaf,
        append: content.append,
      };
  }
}

const octetsOf = (content: PlanContent): string | Uint8Array =>
  'text' in content ? content.text : content.octets;

/**
 * SHA-256 over those files of `lines` whose path `chosen` accepts, including their paths and modes.
 * The order of lines does not matter. The path of an archive is the directory into which it is
 * unpacked.
 */
export function digestOf(lines: readonly PlanLine[], chosen: (path: string) => boolean): string {
  const parts = lines.flatMap((line) => {
    if (line.do === 'fetch') return chosen(line.path) ? [`${line.path} ${line.mode} ${line.sha256}\n`] : [];
    if (line.do === 'unpack') return chosen(line.directory) ? [`${line.directory} ${line.sha256}\n`] : [];
    if (line.do !== 'put' && line.do !== 'put-with-key' && line.do !== 'put-pair') return [];
    if (!chosen(line.path)) return [];
    return [
      `${line.path} ${line.mode} ${createHash('sha256').update(octetsOf(line.content)).digest('hex')}\n`,
    ];
  });
  const hash = createHash('sha256');
  for (const part of parts.sort()) hash.update(part);
  return hash.digest('hex');
}

/** The text of a systemd unit or another file of sections: `[Name]` and `Key=Value` lines. */
export const sections = (...all: readonly (readonly [string, readonly string[]])[]): string =>
  all.map(([name, lines]) => `[${name}]\n${lines.map((line) => `${line}\n`).join('')}`).join('\n');

/** The lines of a service that give it the variables of the cluster's proxies. */
export const proxyLines = (resolved: ResolvedCluster): readonly string[] =>
  Object.entries(proxyVariables(resolved) ?? {}).map(
    ([name, value]) => `Environment="${name}=${value.replaceAll('%', '%%')}"`,
  );
