/** A secret that the server said once: to be given to one person, and then gone from the page. */
import { moment } from '../base/times.ts';
import { CommandLine } from '../parts/command-line.tsx';

export interface Once {
  readonly what: string;
  readonly text: string;
  readonly until: string;
}

export function ShownOnce({ once, close }: { readonly once: Once; readonly close: () => void }) {
  return (
    <section class="card" aria-label={once.what}>
      <p>
        <strong>{once.what}</strong> It counts until {moment(once.until)}, and is not shown again.
      </p>
      <CommandLine text={once.text} />
      <button type="button" onClick={close}>
        Done
      </button>
    </section>
  );
}
