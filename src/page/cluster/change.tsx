/** Changes of a cluster (an upgrade, a rotation, a roll): their steps, evidence, and orders. */
import type { ChangeView } from '../../api/operations/changes.ts';
import { ask, Problem } from '../base/http.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import type { Tone } from '../fleet/row.ts';
import { Badge } from '../parts/badge.tsx';
import { commands, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useResource } from '../parts/use.ts';

type ChangeName = 'upgrade' | 'rotation' | 'roll';
type ChangeOrder =
  | `POST /v1/clusters/:name/${ChangeName}/${'pause' | 'resume'}`
  | `POST /v1/clusters/:name/${'upgrade' | 'rotation'}/roll-back`
  | 'POST /v1/clusters/:name/roll/cancel';

interface Kind {
  /** The last part of its path. */
  readonly name: ChangeName;
  readonly title: string;
  /** The order that takes it back, and its label. */
  readonly back: readonly [order: ChangeOrder, label: string];
  readonly backText: string;
}

const backText = 'The steps that are done are taken back, one after the other.';
const KINDS: readonly Kind[] = [
  {
    name: 'upgrade',
    title: 'Upgrade',
    back: ['POST /v1/clusters/:name/upgrade/roll-back', 'Roll back'],
    backText,
  },
  {
    name: 'rotation',
    title: 'Rotation of keys',
    back: ['POST /v1/clusters/:name/rotation/roll-back', 'Roll back'],
    backText,
  },
  {
    name: 'roll',
    title: 'Reboot of machines',
    back: ['POST /v1/clusters/:name/roll/cancel', 'Cancel'],
    backText: 'No other machine reboots; a node that is being drained takes pods again.',
  },
];

export const Changes = ({ cluster }: { readonly cluster: string }) => (
  <div class="stack">
    {KINDS.map((kind) => (
      <OneChange key={kind.name} cluster={cluster} kind={kind} />
    ))}
  </div>
);

interface ChangeProps {
  readonly cluster: string;
  readonly kind: Kind;
}

function OneChange({ cluster, kind }: ChangeProps) {
  const { title } = kind;
  const { value, error, reload } = useResource(
    `GET /v1/clusters/:name/${kind.name}`,
    { params: { name: cluster } },
    (event) => event.kind === 'cluster.change',
  );
  const never = error instanceof Problem && error.status === 404;
  return (
    <section class="card" aria-label={title}>
      <header class="head">
        <h2>{title}</h2>
        {value && <State change={value} />}
        {value && !value.ended && may('administer', cluster) && (
          <Orders change={value} kind={kind} done={reload} />
        )}
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

function stateOf({ ended, paused, holding, back }: ChangeView): readonly [Tone, string] {
  if (ended) return [ended.as === 'done' ? 'good' : 'calm', `${ended.as} ${moment(ended.at)}`];
  if (paused) return ['warn', `paused by ${paused.by}`];
  if (holding) return ['bad', 'held'];
  return ['busy', back ? 'rolling back' : 'under way'];
}

interface OrdersProps {
  readonly change: ChangeView;
  readonly kind: Kind;
  readonly done: () => void;
}
function Orders({ change, kind, done }: OrdersProps) {
  const { title, back, backText } = kind;
  const [order, label] = back;
  const params = { name: change.cluster };
  const give = (what: ChangeOrder) => async (): Promise<void> => {
    await ask(what, { params });
    done();
  };
  return (
    <div class="line push">
      {change.paused ? (
        <Order
          label="Resume"
          title={`Resume: ${title}`}
          give={give(`POST /v1/clusters/:name/${kind.name}/resume`)}
        >
          <p>It continues with the step that is next, once the evidence of the present one is there.</p>
        </Order>
      ) : (
        <Order
          label="Pause"
          title={`Pause: ${title}`}
          give={give(`POST /v1/clusters/:name/${kind.name}/pause`)}
        >
          <p>What is under way on a machine is finished. Nothing else restarts, and no other step begins.</p>
        </Order>
      )}
      {!change.back && (
        <Order
          label={label}
          title={`${label}: ${title}`}
          danger
          disabled={change.notBack !== undefined}
          give={give(order)}
        >
          <p>{backText}</p>
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
