/** The wizard of a rotation: choose keysets, read what it would do, and begin. */
import { useState } from 'preact/hooks';
import type { Answer, Body } from '../../api/operations.ts';
import { ask } from '../base/http.ts';
import { go } from '../base/place.ts';
import { count } from '../base/times.ts';
import { Dialog } from '../parts/dialog.tsx';
import { ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';

type Request = Extract<Body<'POST /v1/clusters/:name/change'>, { readonly kind: 'rotation' }>;
type Preview = Extract<Answer<'POST /v1/clusters/:name/change'>, { readonly minutes: number }>;

interface RotateProps {
  readonly cluster: string;
  readonly keysets: readonly { readonly name: string; readonly about: string }[];
}

export function Rotate({ cluster, keysets }: RotateProps) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Rotate keys …
      </button>
      {open && <Wizard cluster={cluster} keysets={keysets} close={() => setOpen(false)} />}
    </>
  );
}

function Wizard({ cluster, keysets, close }: RotateProps & { readonly close: () => void }) {
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [careful, setCareful] = useState(true);
  const [preview, setPreview] = useState<Preview | undefined>(undefined);
  const { busy, error, run } = useOrder();
  const params = { name: cluster };
  const order = (): Request => {
    const from = preview?.steps.find(({ noReturn }) => noReturn)?.name;
    return {
      kind: 'rotation',
      keysets: chosen,
      ...(careful && from !== undefined && { pauseBefore: [from] }),
    };
  };
  const look = (event: Event): void => {
    event.preventDefault();
    void run(async () => {
      const body = { kind: 'rotation', keysets: chosen } as const;
      const answer = await ask('POST /v1/clusters/:name/change', { params, query: { dryRun: true }, body });
      if ('minutes' in answer) setPreview(answer);
    });
  };
  const begin = (): void =>
    void run(async () => {
      await ask('POST /v1/clusters/:name/change', { params, body: order() });
      go(['clusters', cluster], { tab: 'change' });
    });
  return (
    <Dialog title={`Rotate keys of ${cluster}`} close={close} wide>
      <form onSubmit={look}>
        <fieldset class="plain" disabled={preview !== undefined}>
          <legend>Which keys get a successor?</legend>
          {keysets.map(({ name, about }) => (
            <label key={name} class="check">
              <input
                type="checkbox"
                checked={chosen.includes(name)}
                onChange={() =>
                  setChosen(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name])
                }
              />
              {name} <span class="dim">{about}</span>
            </label>
          ))}
        </fieldset>
        <ProblemNote error={error} />
        {preview && <Shown preview={preview} />}
        {preview?.steps.some(({ noReturn }) => noReturn) && (
          <label class="check">
            <input type="checkbox" checked={careful} onChange={() => setCareful(!careful)} />
            Pause before the step from which it cannot be rolled back
          </label>
        )}
        <footer>
          {preview === undefined ? (
            <button type="submit" class="primary" disabled={busy || chosen.length === 0}>
              Show what it would do
            </button>
          ) : (
            <>
              <button type="button" class="primary" disabled={busy} onClick={begin}>
                Begin the rotation
              </button>
              <button type="button" onClick={() => setPreview(undefined)}>
                Back
              </button>
            </>
          )}
          <button type="button" onClick={close}>
            Cancel
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Shown({ preview: { steps, minutes, restarts, faults } }: { readonly preview: Preview }) {
  return (
    <section aria-label="What it would do">
      <p>
        {count(steps.length, 'step')}, about {count(Math.max(1, Math.round(minutes)), 'minute')}. Programs
        restart on {count(Object.keys(restarts).length, 'machine')}; the cluster keeps serving.
      </p>
      {faults.map(({ message }) => (
        <p key={message} class="warn">
          It cannot begin: {message}
        </p>
      ))}
      <ol class="steps">
        {steps.map((step) => (
          <li key={step.name}>
            <div>
              <strong>{step.name}</strong> {step.sentence}
              {step.noReturn && <span class="warn"> From here on it cannot be rolled back.</span>}
              {Object.entries(step.restarts).map(([program, machines]) => (
                <p key={program} class="dim">
                  {program} restarts on {machines.join(', ')}
                </p>
              ))}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}
