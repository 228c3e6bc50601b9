/** A long text in a box of its own. */
export const Scrolled = ({ label, text }: { readonly label: string; readonly text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the keyboard
  <section class="scrolled" tabIndex={0} aria-label={label}>
    <pre>{text}</pre>
  </section>
);
