/** The wizard of a change: choose, read what it would do, and begin. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Answer, Body } from '../../api/operations.ts';
import { ask } from '../base/http.ts';
import { go } from '../base/place.ts';
import { count } from '../base/times.ts';
import { CommandLine } from '../parts/command-line.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';

export type ChangeBody = Body<'POST /v1/clusters/:name/change'>;
type Preview = Extract<Answer<'POST /v1/clusters/:name/change'>, { readonly minutes: number }>;

interface BeginChangeProps {
  readonly cluster: string;
  /** What the button says that opens it, for example `Upgrade`. */
  readonly label: string;
  readonly title: string;
  /** What the last button says. */
  readonly begin: string;
  /** What is ordered; undefined while something is missing. */
  readonly order: ChangeBody | undefined;
  /** The same order as a command. */
  readonly command: string;
  /** The fields, which cannot be changed any more beside the preview. */
  readonly children: ComponentChildren;
}

export function BeginChange(props: BeginChangeProps) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {props.label} …
      </button>
      {open && <Wizard {...props} close={() => setOpen(false)} />}
    </>
  );
}

type WizardProps = BeginChangeProps & { readonly close: () => void };
function Wizard({ cluster, title, begin, order, command, children, close }: WizardProps) {
  const [careful, setCareful] = useState(true);
  const [preview, setPreview] = useState<Preview | undefined>(undefined);
  const { busy, error, run } = useOrder();
  const params = { name: cluster };
  const look = (event: Event): void => {
    event.preventDefault();
    if (order === undefined) return;
    void run(async () => {
      const query = { dryRun: true };
      const answer = await ask('POST /v1/clusters/:name/change', { params, query, body: order });
      if ('minutes' in answer) setPreview(answer);
    });
  };
  const from = preview?.steps.find(({ noReturn }) => noReturn)?.name;
  const start = (): void =>
    void run(async () => {
      const pause = careful && from !== undefined && { pauseBefore: [from] };
      await ask('POST /v1/clusters/:name/change', { params, body: { ...order!, ...pause } });
      go(['clusters', cluster], { tab: 'change' });
      close();
    });
  return (
    <Dialog title={title} close={close} wide>
      <form onSubmit={look}>
        <fieldset class="plain" disabled={preview !== undefined}>
          {children}
        </fieldset>
        {preview && <Shown preview={preview} />}
        {from !== undefined && (
          <label class="check">
            <input type="checkbox" checked={careful} onChange={() => setCareful(!careful)} />
            Pause before the step from which it cannot be rolled back
          </label>
        )}
        {order && <CommandLine text={command} />}
        <ProblemNote error={error} />
        <footer>
          {preview === undefined ? (
            <button type="submit" class="primary" disabled={busy || order === undefined}>
              Show what it would do
            </button>
          ) : (
            <>
              <button type="button" class="primary" disabled={busy} onClick={start}>
                {begin}
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
