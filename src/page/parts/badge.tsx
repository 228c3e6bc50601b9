/** Small coloured texts, and links within the page. */
import type { ComponentChildren } from 'preact';
import { writePlace } from '../base/route.ts';
import type { Tone } from '../fleet/row.ts';

/** The text carries the meaning; colour and shape repeat it. */
export const Badge = ({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) => (
  <span class={`badge ${tone}`}>
    <span class="dot" aria-hidden="true" />
    {children}
  </span>
);

interface LinkProps {
  readonly to: readonly string[];
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly class?: string;
  readonly title?: string;
  readonly children: ComponentChildren;
}
export const Link = ({ to, query, children, ...rest }: LinkProps) => (
  <a href={writePlace(to, query)} {...rest}>
    {children}
  </a>
);
