/** A button that asks before it gives an order: a sentence, fields, and the server's preview. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from './dialog.tsx';
import { ProblemNote } from './note.tsx';
import { useOrder } from './use.ts';

interface OrderProps {
  readonly label: string;
  readonly title: string;
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly wide?: boolean;
  /** What the order does, and its fields. */
  readonly children: ComponentChildren;
  /** Gives the order; the dialog closes when that succeeds. */
  readonly give: () => Promise<unknown>;
}

export function Order({ label, title, danger, disabled, wide, children, give }: OrderProps) {
  const [open, setOpen] = useState(false);
  const { busy, error, run, clear } = useOrder();
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
