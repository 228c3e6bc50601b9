/** A long text in a box of its own. */
import { useLayoutEffect, useRef } from 'preact/hooks';

/** A reader within this many pixels of the end counts as being at the end. */
const NEAR_END = 24;

/** A text that grows stays where it is, unless the reader is at its end: then it stays there. */
export function Scrolled({ label, text }: { readonly label: string; readonly text: string }) {
  const box = useRef<HTMLElement>(null);
  const atEnd = useRef(false);
  const look = (): void => {
    const { scrollHeight, scrollTop, clientHeight } = box.current!;
    atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
  };
  useLayoutEffect(() => {
    if (atEnd.current) box.current!.scrollTop = box.current!.scrollHeight;
    look();
  }, [text]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the keyboard
    <section class="scrolled" tabIndex={0} aria-label={label} ref={box} onScroll={look}>
      <pre>{text}</pre>
    </section>
  );
}
