/** A document as YAML: its faults in place, the difference, the consequences, and its change. */
import { structuredPatch } from 'diff';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Consequences } from '../../api/consequences.ts';
import type { ProfileChange } from '../../api/profile-changes.ts';
import type { Shown } from '../../api/shown.ts';
import type { Fault } from '../../base/errors.ts';
import { ask, Problem, part, request } from '../base/http.ts';
import { may } from '../base/session.ts';
import { commands, ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';

interface EditorProps {
  readonly plural: string;
  readonly document: Pick<Shown, 'apiVersion' | 'kind' | 'metadata' | 'spec'>;
  /** The tag of the version that was read; undefined: a new document. */
  readonly etag: string | undefined;
  /** Where it is kept; a document of a file is changed there. */
  readonly file: string | undefined;
  readonly done: (name: string) => void;
}

interface Checked {
  readonly text: string;
  readonly warnings: readonly Fault[];
  readonly consequences: readonly Consequences[];
  readonly profiles: readonly ProfileChange[];
}

/** YAML is written by a module of its own, which only this view needs. */
const yamlOf = async (value: unknown): Promise<string> => {
  const { dump } = await import('js-yaml');
  return dump(value, { lineWidth: 110, noRefs: true });
};

export function Editor({ plural, document, etag, file, done }: EditorProps) {
  const [before, setBefore] = useState<string | undefined>(undefined);
  const [text, setText] = useState('');
  const [checked, setChecked] = useState<Checked | undefined>(undefined);
  const { busy, error, run, clear } = useOrder();
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    void yamlOf(document).then((yaml) => {
      setBefore(etag === undefined ? '' : yaml);
      setText(yaml);
    });
  }, []);
  if (before === undefined) return null;
  const changes = may('administer') && file === undefined;
  const send = async (dryRun: boolean): Promise<Checked> => {
    const sources = [{ file: 'document', text }];
    const answer = await ask('POST /v1/apply', { query: { dryRun }, body: { sources } });
    const { warnings, consequences = [], profiles = [] } = answer;
    return { text, warnings, consequences, profiles };
  };
  const check = (event: Event): void => {
    event.preventDefault();
    void run(async () => setChecked(await send(true)));
  };
  const apply = (): void =>
    void run(async () => {
      const { name } = document.metadata;
      const type = { type: 'application/yaml', body: text };
      const renamed = nameIn(text) !== name;
      if (etag === undefined || renamed) await send(false);
      else await request('PUT', `/v1/${plural}/${part(name)}`, { text: type, headers: { 'if-match': etag } });
      done(nameIn(text) ?? name);
    });
  return (
    <form onSubmit={check} class="editor" aria-label="Document">
      {file !== undefined && (
        <p class="note warn">
          This document is kept in {file}. Change it there; the server reads the file again by itself.
        </p>
      )}
      <label for="document-text" class="hidden">
        Document (YAML)
      </label>
      <textarea
        id="document-text"
        ref={area}
        rows={Math.min(32, Math.max(12, text.split('\n').length + 1))}
        value={text}
        readOnly={!changes}
        spellcheck={false}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChecked(undefined);
          clear();
        }}
      />
      <Faults error={error} area={area} />
      {checked && <Difference before={before} checked={checked} />}
      {changes && (
        <div class="line">
          <button type="submit" disabled={busy || text === before}>
            Check
          </button>
          {checked && (
            <button type="button" class="primary" disabled={busy} onClick={apply}>
              Apply
            </button>
          )}
        </div>
      )}
    </form>
  );
}

/** The name that a text gives its document. */
const nameIn = (text: string): string | undefined =>
  /^ {2}name:\s*["']?([^"'\s]+)/m.exec(text)?.[1] ?? /name:\s*["']?([^"',}\s]+)/.exec(text)?.[1];

interface FaultsProps {
  readonly error: unknown;
  readonly area: { readonly current: HTMLTextAreaElement | null };
}
/** Faults with buttons that select the line of each. */
function Faults({ error, area }: FaultsProps) {
  const faults = error instanceof Problem ? error.faults.filter(({ at }) => at !== undefined) : [];
  const select = (number: number): void => {
    const { current } = area;
    if (!current) return;
    const lines = current.value.split('\n');
    const from = lines.slice(0, number - 1).reduce((sum, one) => sum + one.length + 1, 0);
    current.focus();
    current.setSelectionRange(from, from + (lines[number - 1]?.length ?? 0));
  };
  return (
    <>
      <ProblemNote error={error} />
      {faults.map(({ at, message }) => (
        <button key={message} type="button" class="quiet" onClick={() => select(at!.line)}>
          Go to line {at!.line}
        </button>
      ))}
    </>
  );
}

function Difference({ before, checked }: { readonly before: string; readonly checked: Checked }) {
  const [old, now] = [before, checked.text].map((text) => text.replace(/([^\n])$/, '$1\n'));
  const { hunks } = structuredPatch('', '', old!, now!, undefined, undefined, { context: 3 });
  const classes: Readonly<Record<string, string>> = { ' ': 'same', '-': 'removed', '+': 'added' };
  return (
    <section aria-label="What changes" class="stack">
      <h2>What changes</h2>
      <pre class="diff">
        {hunks.map(({ oldStart, lines }) => (
          <span key={oldStart}>
            {oldStart > 1 && <span class="dim">{' …\n'}</span>}
            {lines.map((line, n) => (
              <span key={`${n}`} class={classes[line[0]!]}>{`${line[0]} ${line.slice(1)}\n`}</span>
            ))}
          </span>
        ))}
      </pre>
      {checked.profiles.map(({ from = 'none', to = 'none', machines }) => (
        <p key={`${from} ${to}`} class="note warn">
          {`Profile ${from} becomes ${to} at the next boot of ${machines.length > 8 ? `${machines.length} machines` : machines.join(', ')}.`}
        </p>
      ))}
      {checked.consequences.map(({ cluster, upgrade, differences: plans }) => (
        <p key={cluster} class="note warn">
          {upgrade && `An upgrade of ${cluster} from ${upgrade.from} to ${upgrade.to} begins. `}
          {plans.length > 0 && `Plans of machines of ${cluster} change. `}
          {restartsOf(plans)}
        </p>
      ))}
      {checked.warnings.length > 0 && (
        <ul class="note warn">
          {checked.warnings.map(({ message }) => (
            <li key={message}>{commands(message)}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

function restartsOf(plans: Consequences['differences']): string {
  const programs = new Set(plans.flatMap(({ restarts }) => restarts));
  return programs.size === 0 ? 'Nothing restarts.' : `These restart: ${[...programs].join(', ')}.`;
}
