/** What can be done with the selected machines: a preview first, then one order for each. */
import { useState } from 'preact/hooks';
import type { Fault } from '../../base/errors.ts';
import { ask } from '../base/http.ts';
import { may } from '../base/session.ts';
import { count } from '../base/times.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Choice } from '../parts/field.tsx';
import { commands, ProblemNote } from '../parts/note.tsx';
import { useResource } from '../parts/use.ts';
import { allRows, changed } from './machines.ts';
import { PowerMany } from './power.tsx';

type Act = 'accept' | 'power' | 'delete';

export function Actions({ names, clear }: { readonly names: readonly string[]; readonly clear: () => void }) {
  const [act, setAct] = useState<Act | undefined>(undefined);
  return (
    <section class="bar" aria-label="Selected machines">
      <strong role="status">{names.length} selected</strong>
      <button type="button" onClick={() => setAct('accept')}>
        Accept …
      </button>
      <button type="button" onClick={() => setAct('power')}>
        Power …
      </button>
      {may('administer') && (
        <button type="button" onClick={() => setAct('delete')}>
          Delete …
        </button>
      )}
      <button type="button" class="quiet" onClick={clear}>
        Clear the selection
      </button>
      {act === 'accept' && <Accept names={names} close={() => setAct(undefined)} />}
      {act === 'power' && <PowerMany names={names} close={() => setAct(undefined)} />}
      {act === 'delete' && <Delete names={names} close={() => setAct(undefined)} />}
    </section>
  );
}

interface Outcome {
  readonly name: string;
  readonly error?: unknown;
}

/** Sends one order after the other, and shows what became of each. */
function useEach(names: readonly string[], order: (name: string) => Promise<unknown>) {
  const [outcomes, setOutcomes] = useState<readonly Outcome[]>([]);
  const [state, setState] = useState<'ready' | 'running' | 'done'>('ready');
  const start = async (): Promise<void> => {
    setState('running');
    const done: Outcome[] = [];
    for (const name of names) {
      try {
        await order(name);
        done.push({ name });
      } catch (error) {
        done.push({ name, error });
      }
      setOutcomes([...done]);
    }
    changed(names);
    setState('done');
  };
  return { outcomes, state, start };
}

interface ActProps {
  readonly names: readonly string[];
  readonly close: () => void;
}

function Accept({ names, close }: ActProps) {
  const profiles = useResource('GET /v1/:kind', { params: { kind: 'profiles' } });
  const [profile, setProfile] = useState('');
  const chosen = profile === '' ? {} : { profile };
  const { outcomes, state, start } = useEach(names, (name) =>
    ask('POST /v1/machines/:name/accept', { params: { name }, body: chosen }),
  );
  const unknown = allRows.value.filter((row) => row.unknown && names.includes(row.name)).length;
  return (
    <Dialog title={`Accept ${count(names.length, 'machine')}`} close={close}>
      <p>
        {unknown > 0 && `${unknown} of them get a Machine document and may boot. `}
        {unknown < names.length &&
          'Machines with a document may try to boot again; their count of boots begins at 0.'}
      </p>
      <Names names={names} outcomes={outcomes} />
      {state === 'ready' && (
        <Choice
          label="Profile"
          value={profile}
          set={setProfile}
          choices={[
            ['', 'as it is, or by the selectors of Profiles'],
            ...(profiles.value?.items ?? []).map(({ metadata: { name } }) => [name, name] as const),
          ]}
        />
      )}
      <Buttons state={state} label="Accept" start={start} close={close} />
    </Dialog>
  );
}

function Delete({ names, close }: ActProps) {
  const documents = names.map((name) => ({ kind: 'Machine' as const, name }));
  const [warnings, setWarnings] = useState<readonly Fault[] | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const [state, setState] = useState<'ready' | 'running' | 'done'>('ready');
  const send = async (dryRun: boolean): Promise<void> => {
    try {
      const answer = await ask('POST /v1/delete', { query: { dryRun }, body: { documents } });
      setWarnings(answer.warnings);
      if (!dryRun) {
        setState('done');
        changed(names);
      }
    } catch (thrown) {
      setError(thrown);
      setState('ready');
    }
  };
  useState(() => void send(true));
  return (
    <Dialog title={`Delete ${count(names.length, 'machine')}`} close={close}>
      <p>
        Their documents are removed, and machines that were only seen are forgotten. Their disks are not
        changed.
      </p>
      <Names names={names} outcomes={[]} />
      <ProblemNote error={error} />
      {warnings && warnings.length > 0 && (
        <ul class="note warn">
          {warnings.map(({ message }) => (
            <li key={message}>{commands(message)}</li>
          ))}
        </ul>
      )}
      <Buttons
        state={warnings === undefined && error === undefined ? 'running' : state}
        label="Delete"
        danger
        disabled={error !== undefined}
        start={() => {
          setState('running');
          return send(false);
        }}
        close={close}
      />
    </Dialog>
  );
}

function Names({
  names,
  outcomes,
}: {
  readonly names: readonly string[];
  readonly outcomes: readonly Outcome[];
}) {
  const known = new Map(outcomes.map((one) => [one.name, one]));
  return (
    <ul class="names">
      {names.map((name) => {
        const outcome = known.get(name);
        return (
          <li key={name}>
            {name}
            {outcome &&
              (outcome.error === undefined ? (
                <span class="dim"> done</span>
              ) : (
                <ProblemNote error={outcome.error} />
              ))}
          </li>
        );
      })}
    </ul>
  );
}

interface ButtonsProps {
  readonly state: 'ready' | 'running' | 'done';
  readonly label: string;
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly start: () => Promise<void>;
  readonly close: () => void;
}
const Buttons = ({ state, label, danger, disabled, start, close }: ButtonsProps) => (
  <footer>
    {state === 'done' ? (
      <button type="button" class="primary" onClick={close}>
        Close
      </button>
    ) : (
      <>
        <button
          type="button"
          class={danger ? 'danger' : 'primary'}
          disabled={state === 'running' || disabled}
          onClick={() => void start()}
        >
          {label}
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </>
    )}
  </footer>
);
