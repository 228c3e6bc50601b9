/** The first-boot configuration that a machine gets, and where each value comes from. */
import { useState } from 'preact/hooks';

import { Loading, ProblemNote } from '../parts/note.tsx';
import { Scrolled } from '../parts/scrolled.tsx';
import { useResource } from '../parts/use.ts';

export function Configuration({ name }: { readonly name: string }) {
  const { value, error } = useResource('GET /v1/render/:machine', { params: { machine: name } }, ({ kind }) =>
    kind.startsWith('document.'),
  );
  const [open, setOpen] = useState<string | undefined>(undefined);
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the configuration" />;
  const files = Object.entries(value.files) as [string, string][];
  const chosen = files.find(([file]) => file === open) ?? files[0];
  const origins = Object.entries(value.provenance);
  return (
    <div class="stack">
      <p class="dim">
        Format {value.format}. Values of secrets and one-time tickets are not shown; the machine gets them
        when it boots.
      </p>
      <fieldset class="switch">
        <legend class="hidden">File</legend>
        {files.map(([file]) => (
          <button key={file} type="button" aria-pressed={file === chosen?.[0]} onClick={() => setOpen(file)}>
            {file}
          </button>
        ))}
      </fieldset>
      {chosen && <Scrolled label={chosen[0]} text={chosen[1]} />}
      {value.kernelArguments.length > 0 && (
        <p>
          Kernel arguments: <code>{value.kernelArguments.join(' ')}</code>
        </p>
      )}
      <h2>Where each value comes from</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">Value</th>
            <th scope="col">Document</th>
            <th scope="col">Field</th>
          </tr>
        </thead>
        <tbody>
          {origins.map(([at, { document, path }]) => (
            <tr key={at}>
              <td class="mono">{at}</td>
              <td>{document}</td>
              <td class="mono dim">{path}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
