/** An order as the command that gives it, to be copied. */
import { useState } from 'preact/hooks';

export function CommandLine({ text }: { readonly text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = (): void =>
    void navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      // A browser that forbids it leaves the text to be selected.
      () => setCopied(false),
    );
  return (
    <p class="command">
      <code>{text}</code>{' '}
      <button type="button" class="quiet" onClick={copy}>
        {copied ? 'Copied' : 'Copy'}
      </button>
    </p>
  );
}
