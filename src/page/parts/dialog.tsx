/** A dialog of its own, which keeps the keyboard inside until it is closed (HTML `dialog`). */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';

interface DialogProps {
  readonly title: string;
  readonly close: () => void;
  readonly children: ComponentChildren;
  readonly wide?: boolean;
}

export function Dialog({ title, close, children, wide }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => (before instanceof HTMLElement ? before.focus() : undefined);
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} class={wide ? 'wide' : ''}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={close}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
