/** Why a machine gets what it gets: every step of the decision. */
import { commands, Loading, ProblemNote } from '../parts/note.tsx';
import { useResource } from '../parts/use.ts';

export function Why({ name }: { readonly name: string }) {
  const { value, error } = useResource(
    'GET /v1/explain',
    { query: { machine: name } },
    ({ subject, kind }) => subject === name || kind.startsWith('document.'),
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the explanation" />;
  const { steps, events, remedy, faults } = value;
  const own = steps.slice(0, steps.length - events.length).filter(({ step }) => step !== 'to continue');
  return (
    <div class="stack">
      {remedy && (
        <p class="note warn">
          <strong>To continue:</strong> {commands(remedy)}
        </p>
      )}
      {faults.length > 0 && (
        <ul class="note bad">
          {faults.map((fault) => (
            <li key={fault}>{fault}</li>
          ))}
        </ul>
      )}
      <table>
        <caption class="hidden">What the machine would get if it booted now, step by step</caption>
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col">Result</th>
            <th scope="col">Why</th>
          </tr>
        </thead>
        <tbody>
          {own.map(({ step, result, reason }, n) => (
            <tr key={`${n} ${step}`}>
              <td class="step">{step}</td>
              <td>{commands(result)}</td>
              <td class="dim">{reason && commands(reason.text)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
