/** The change of a cluster, whatever its kind: its steps, evidence, and orders. */
import type { ChangeView } from '../../api/operations/changes.ts';
import { ask, Problem } from '../base/http.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import type { Tone } from '../fleet/row.ts';
import { Badge } from '../parts/badge.tsx';
import { commands, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useResource } from '../parts/use.ts';
import { stateOf, titleOf } from './shown-change.ts';

interface ChangeProps {
  readonly cluster: string;
  /** What of it changes, for example its agents; absent: the cluster. */
  readonly of?: string;
}
export function Change({ cluster, of }: ChangeProps) {
  const { value, error, reload } = useResource(
    'GET /v1/clusters/:name/change',
    { params: { name: of ?? cluster } },
    (event) => event.kind === 'cluster.change',
  );
  const never = error instanceof Problem && error.status === 404;
  if (never && of !== undefined) return null;
  return (
    <section class="card" aria-label={value ? titleOf(value) : 'Change'}>
      <header class="head">
        <h2>{value ? titleOf(value) : 'Change'}</h2>
        {value && <State change={value} />}
        {value && !value.ended && may('administer', cluster) && <Orders change={value} done={reload} />}
      </header>
      {never && <p class="dim">There was none yet.</p>}
      {!never && <ProblemNote error={error} />}
      {value && <Progress change={value} />}
    </section>
  );
}

function State({ change }: { readonly change: ChangeView }) {
  const [tone, text] = stateOf(change);
  return (
    <>
      <Badge tone={tone}>{text}</Badge>
      <span class="dim">
        ordered by {change.by}, {moment(change.at)}
      </span>
    </>
  );
}

interface OrdersProps {
  readonly change: ChangeView;
  readonly done: () => void;
}
function Orders({ change, done }: OrdersProps) {
  const { cluster, id, wayBack } = change;
  const title = titleOf(change);
  const give = (order: 'pause' | 'resume' | 'roll-back') => async (): Promise<void> => {
    await ask(`POST /v1/clusters/:name/change/${order}`, { params: { name: cluster }, body: { id } });
    done();
  };
  return (
    <div class="line push">
      {change.paused ? (
        <Order label="Resume" title={`Resume: ${title}`} give={give('resume')}>
          <p>It continues with the step that is next, once the evidence of the present one is there.</p>
        </Order>
      ) : (
        <Order label="Pause" title={`Pause: ${title}`} give={give('pause')}>
          <p>What is under way on a machine is finished. Nothing else restarts, and no other step begins.</p>
        </Order>
      )}
      {!change.back && (
        <Order
          label="Roll back"
          title={`Roll back: ${title}`}
          danger
          disabled={change.notBack !== undefined}
          give={give('roll-back')}
        >
          <ul>
            {wayBack.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </Order>
      )}
    </div>
  );
}

const STEP_TONES: Readonly<Record<ChangeView['steps'][number]['state'], Tone>> = {
  done: 'good',
  now: 'busy',
  next: 'calm',
  'rolled-back': 'warn',
};

function Progress({ change }: { readonly change: ChangeView }) {
  const { steps, holding, notBack, evidence, waiting, ended, without } = change;
  return (
    <div class="stack">
      {holding && (
        <div class="note bad" role="alert">
          <p>
            <strong>{holding.text}</strong>
          </p>
          <p class="dim">{commands(holding.remedy)}</p>
        </div>
      )}
      {!ended && notBack && <p class="dim">It cannot be rolled back: {notBack}</p>}
      {without.length > 0 && <p class="dim">Not waited for: {without.join(', ')}</p>}
      <ol class="steps">
        {steps.map((step) => (
          <li key={step.name} aria-current={step.state === 'now' ? 'step' : undefined}>
            <Badge tone={STEP_TONES[step.state]}>{step.state}</Badge>
            <div>
              <strong>{step.name}</strong> {step.sentence}
              {step.noReturn && <span class="warn"> From here on it cannot be rolled back.</span>}
              {step.since && (
                <p class="dim">
                  {moment(step.since)}
                  {step.until && ` to ${moment(step.until)}`}
                </p>
              )}
              {step.state === 'now' && !ended && <Evidence evidence={evidence} waiting={waiting} />}
            </div>
          </li>
        ))}
      </ol>
    </div>
  );
}

type EvidenceProps = Pick<ChangeView, 'evidence' | 'waiting'>;
/** What each machine has shown in the present step, and what the others are waited for. */
function Evidence({ evidence, waiting }: EvidenceProps) {
  const machines = [...new Set([...Object.keys(evidence), ...Object.keys(waiting)])].sort();
  if (machines.length === 0) return null;
  return (
    <table>
      <caption class="hidden">Evidence of this step</caption>
      <tbody>
        {machines.map((machine) => (
          <tr key={machine}>
            <th scope="row">{machine === '' ? 'the cluster' : machine}</th>
            <td>
              {evidence[machine] ? (
                <Badge tone="good">{evidence[machine].text}</Badge>
              ) : (
                <Badge tone="busy">{waiting[machine]}</Badge>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
