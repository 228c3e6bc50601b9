/** A whole rack at once: a pasted table becomes Machine documents, checked by the server first. */
import { useState } from 'preact/hooks';
import type { Fault } from '../../base/errors.ts';
import { ask } from '../base/http.ts';
import { count } from '../base/times.ts';
import { changed } from '../fleet/machines.ts';
import { commands, ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';
import { COLUMNS, type Draft, machinesFrom } from './table.ts';

interface Answer {
  readonly results: readonly { readonly name: string; readonly action: string }[];
  readonly warnings: readonly Fault[];
}

const EXAMPLE = 'name,mac,address,profile,labels\nnode-1,52:54:00:aa:00:01,10.77.0.21,worker,rack=a unit=1';

const send = (machines: readonly Draft[], dryRun: boolean): Promise<Answer> => {
  // One line for each row of the table, so that faults name the row; the first is its heading.
  const text = `# heading\n${machines.map((machine) => `--- ${JSON.stringify(machine)}\n`).join('')}`;
  return ask('POST /v1/apply', { query: { dryRun }, body: { sources: [{ file: 'table', text }] } });
};

export function WholeRack() {
  const [text, setText] = useState('');
  const [checked, setChecked] = useState<{ machines: readonly Draft[]; answer: Answer } | undefined>(
    undefined,
  );
  const [applied, setApplied] = useState<Answer | undefined>(undefined);
  const { busy, error, run, clear } = useOrder();
  const edit = (value: string): void => {
    setText(value);
    setChecked(undefined);
    setApplied(undefined);
    clear();
  };
  const check = (event: Event): void => {
    event.preventDefault();
    void run(async () => {
      const read = machinesFrom(text);
      if (!read.ok) throw new Error(read.fault);
      setChecked({ machines: read.machines, answer: await send(read.machines, true) });
    });
  };
  const apply = (): void =>
    void run(async () => {
      const answer = await send(checked!.machines, false);
      changed(answer.results.map(({ name }) => name));
      setChecked(undefined);
      setText('');
      setApplied(answer);
    });
  return (
    <form onSubmit={check} aria-label="Register a whole rack">
      <label for="rack-table" class="dim">
        Paste rows of a spreadsheet, or comma-separated values. Columns: {COLUMNS.join(', ')}.
      </label>
      <textarea
        id="rack-table"
        rows={6}
        value={text}
        placeholder={EXAMPLE}
        spellcheck={false}
        onInput={(event) => edit(event.currentTarget.value)}
      />
      <ProblemNote error={error} />
      {checked && <Preview answer={checked.answer} />}
      {applied && (
        <p class="note good" role="status">
          Registered: {count(applied.results.length, 'machine')}. They boot when they are powered on.
        </p>
      )}
      <div class="line">
        <button type="submit" disabled={busy || text.trim() === ''}>
          Check
        </button>
        {checked && (
          <button type="button" class="primary" disabled={busy} onClick={apply}>
            Register {count(checked.machines.length, 'machine')}
          </button>
        )}
      </div>
    </form>
  );
}

const Preview = ({ answer: { results, warnings } }: { readonly answer: Answer }) => (
  <div role="status">
    <table>
      <thead>
        <tr>
          <th scope="col">Machine</th>
          <th scope="col">What happens</th>
        </tr>
      </thead>
      <tbody>
        {results.map(({ name, action }) => (
          <tr key={name}>
            <td>{name}</td>
            <td>{action}</td>
          </tr>
        ))}
      </tbody>
    </table>
    {warnings.length > 0 && (
      <ul class="note warn">
        {warnings.map(({ message }) => (
          <li key={message}>{commands(message)}</li>
        ))}
      </ul>
    )}
  </div>
);
