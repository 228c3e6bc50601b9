/** Notes about what happened or is missing. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { actFor, splitCommands } from '../base/acts.ts';
import { Problem } from '../base/http.ts';
import { place } from '../base/place.ts';
import { maySomewhere, proving } from '../base/session.ts';
import { Link } from './badge.tsx';

/** Shows why a request failed, all faults, and what to do. */
export function ProblemNote({ error }: { readonly error: unknown }) {
  const note = useRef<HTMLDivElement>(null);
  useEffect(() => note.current?.scrollIntoView({ block: 'nearest' }), [error]);
  if (error === undefined) return null;
  const problem = error instanceof Problem ? error : undefined;
  const faults = problem?.faults ?? [];
  const text = error instanceof Error ? error.message : String(error);
  return (
    <div class="note bad" role="alert" ref={note}>
      {faults.length !== 1 && (
        <p>
          <strong>{text}</strong>
        </p>
      )}
      {faults.length > 0 && (
        <ul>
          {faults.map((fault) => (
            <li key={`${fault.path} ${fault.message}`}>
              {fault.at && <strong>Line {fault.at.line}: </strong>}
              {fault.path && <code>{fault.path}</code>} {commands(fault.message)}
            </li>
          ))}
        </ul>
      )}
      {problem?.code === 'E_PROOF' ? (
        <button type="button" onClick={() => (proving.value = true)}>
          Log in again
        </button>
      ) : (
        problem?.fix && <p class="dim">{commands(problem.fix)}</p>
      )}
    </div>
  );
}

/** Shows what is between backquotes: as a link where the page does it, else as a command. */
export function commands(text: string) {
  return splitCommands(text).map((piece, n) => (n % 2 === 1 ? <Command key={`${n}`} text={piece} /> : piece));
}

function Command({ text }: { readonly text: string }) {
  const act = actFor(text, place.value.path);
  if (act === undefined) return <code>{text}</code>;
  const { label, path, query, access } = act;
  if (!maySomewhere(access))
    return (
      <>
        <code>{text}</code> ({GIVERS[access] ?? 'an administrator'} may)
      </>
    );
  return (
    <Link to={path} query={query} title={text}>
      {label}
    </Link>
  );
}

/** Who gives an order that the reader may not give. */
const GIVERS: Readonly<Record<string, string>> = { operate: 'an operator' };

/** Browsers use a passkey only by the name for which it was made. */
export const PasskeysElsewhere = ({ page }: { readonly page: string }) => (
  <p class="dim">
    Passkeys count at <a href={page}>{page}</a>.
  </p>
);

/** What is shown in place of an empty list. */
export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <p>
        <strong>{title}</strong>
      </p>
      {children && <p class="dim">{children}</p>}
    </div>
  );
}

export const Loading = ({ what }: { readonly what: string }) => (
  <p class="dim loading" role="status">
    Loading {what} …
  </p>
);
