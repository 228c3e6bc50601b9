/** What the BMC of a machine says of its hardware: asked for by a button, and never by itself. */
import { useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { ask } from '../base/http.ts';
import { moment } from '../base/times.ts';
import { Badge } from '../parts/badge.tsx';
import { Facts } from '../parts/facts.tsx';
import { Loading, ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';

type View = Answer<'GET /v1/machines/:name/bmc'>;
type Sensor = NonNullable<View['sensors']>[number];

const TONES = { ok: 'good', warning: 'warn', critical: 'bad' } as const;
const VIEWS = [
  ['inventory', 'Inventory'],
  ['sensors', 'Sensors'],
  ['log', 'Event log'],
] as const;

export function Hardware({ name }: { readonly name: string }) {
  const [shown, setShown] = useState<View | undefined>(undefined);
  const { busy, error, run } = useOrder();
  const show = (view: (typeof VIEWS)[number][0]) =>
    run(async () => {
      setShown(undefined);
      setShown(await ask('GET /v1/machines/:name/bmc', { params: { name }, query: { view } }));
    });
  return (
    <section class="card" aria-label="Hardware">
      <h2>Hardware, as its BMC says</h2>
      <div class="line">
        {VIEWS.map(([view, label]) => (
          <button key={view} type="button" disabled={busy} onClick={() => void show(view)}>
            {label}
          </button>
        ))}
      </div>
      <ProblemNote error={error} />
      {busy && <Loading what="what the BMC says; that may take a minute" />}
      {shown?.inventory && <InventoryFacts inventory={shown.inventory} />}
      {shown?.sensors && <Sensors sensors={shown.sensors} />}
      {shown?.log && <Log log={shown.log} />}
    </section>
  );
}

const InventoryFacts = ({ inventory }: { readonly inventory: NonNullable<View['inventory']> }) => (
  <Facts
    facts={[
      ['Manufacturer', inventory.manufacturer],
      ['Model', inventory.model],
      ['Serial number', inventory.serial],
      ...inventory.firmware.map(({ name, version }) => [`Firmware of ${name}`, version] as const),
    ]}
  />
);

const reading = ({ value, unit }: Sensor): string =>
  value === undefined ? 'no reading' : `${value} ${unit}`.trim();

function Sensors({ sensors }: { readonly sensors: readonly Sensor[] }) {
  if (sensors.length === 0) return <p class="dim">It lists no sensor with readings.</p>;
  return (
    <table>
      <thead>
        <tr>
          <th>Sensor</th>
          <th>Reading</th>
          <th>State</th>
        </tr>
      </thead>
      <tbody>
        {sensors.map((sensor, n) => (
          <tr key={`${n} ${sensor.name}`}>
            <td>{sensor.name}</td>
            <td>{reading(sensor)}</td>
            <td>{sensor.state && <Badge tone={TONES[sensor.state]}>{sensor.state}</Badge>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Log({ log }: { readonly log: NonNullable<View['log']> }) {
  if (log.length === 0) return <p class="dim">The event log is empty.</p>;
  return (
    <table>
      <thead>
        <tr>
          <th>Time of the BMC</th>
          <th>Entry</th>
        </tr>
      </thead>
      <tbody>
        {log.toReversed().map(({ at, severity, text }, n) => (
          <tr key={`${n} ${text}`}>
            <td>{at === undefined ? 'not known' : moment(at)}</td>
            <td>
              {severity && severity !== 'ok' && <Badge tone={TONES[severity]}>{severity}</Badge>} {text}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
