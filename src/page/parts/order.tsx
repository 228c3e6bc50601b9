/** A button that asks before it gives an order: a sentence, fields, and the server's preview. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { place, setQuery } from '../base/place.ts';
import { CommandLine } from './command-line.tsx';
import { Dialog } from './dialog.tsx';
import { ProblemNote } from './note.tsx';
import { useOrder } from './use.ts';

interface OrderProps {
  readonly label: string;
  readonly title: string;
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly wide?: boolean;
  /** The same order as a command, for example `muster machine accept worker-3`. */
  readonly command?: string;
  /** What the order does, and its fields. */
  readonly children: ComponentChildren;
  /** Gives the order; the dialog closes when that succeeds. */
  readonly give: () => Promise<unknown>;
}

export function Order({ label, title, danger, disabled, wide, command, children, give }: OrderProps) {
  const [open, setOpen] = useState(false);
  const { busy, error, run, clear } = useOrder();
  const asked = place.value.query.do;
  // A link to an order opens its dialog; nothing is ordered by a link.
  useEffect(() => {
    // The first of two that begin so opens, and takes it out of the address.
    if (asked === undefined || place.peek().query.do !== asked) return;
    if (!command?.startsWith(`muster ${asked} `)) return;
    setOpen(true);
    setQuery({ do: undefined });
  }, [asked]);
  const close = (): void => {
    setOpen(false);
    clear();
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    void run(async () => {
      await give();
      close();
    });
  };
  return (
    <>
      <button
        type="button"
        class={danger ? 'danger' : ''}
        disabled={disabled ?? false}
        onClick={() => setOpen(true)}
      >
        {label} …
      </button>
      {open && (
        <Dialog title={title} close={close} {...(wide && { wide })}>
          <form onSubmit={submit}>
            {children}
            {command && <CommandLine text={command} />}
            <ProblemNote error={error} />
            <footer>
              <button type="submit" class={danger ? 'danger' : 'primary'} disabled={busy}>
                {label}
              </button>
              <button type="button" onClick={close}>
                Cancel
              </button>
            </footer>
          </form>
        </Dialog>
      )}
    </>
  );
}
