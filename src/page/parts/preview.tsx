/** What the server would change, asked for when a dialog opens and again when its order changes. */
import { useEffect, useState } from 'preact/hooks';
import { commands, ProblemNote } from './note.tsx';

/** An answer to `dryRun`: of a route with a preview of its own, or of a rehearsal. */
interface Would {
  readonly warnings?: readonly { readonly message: string }[];
}

interface PreviewProps {
  /** What is ordered; the server is asked again when it changes. */
  readonly of: string;
  readonly look: () => Promise<unknown>;
  /** What is said where the server would carry it out. */
  readonly taken: string;
}

export function Preview({ of, look, taken }: PreviewProps) {
  const [state, setState] = useState<{ readonly answer?: Would; readonly error?: unknown }>({});
  useEffect(() => {
    let current = true;
    look().then(
      (answer) => current && setState({ answer: answer as Would }),
      (error: unknown) => current && setState({ error }),
    );
    return () => {
      current = false;
    };
  }, [of]);
  const { answer, error } = state;
  if (error !== undefined) return <ProblemNote error={error} />;
  if (answer === undefined) return <p class="dim loading">Asking what it would do …</p>;
  return (
    <section aria-label="What it would do">
      <p>{taken}</p>
      {answer.warnings?.map(({ message }) => (
        <p key={message} class="warn">
          {commands(message)}
        </p>
      ))}
    </section>
  );
}
