/** The power of the selected machines: what an order is about, and what became of each. */
import { useEffect, useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { ask } from '../base/http.ts';
import { count } from '../base/times.ts';
import {
  BootPlace,
  bodyOf,
  ORDERS,
  orderText,
  type PowerBody,
  powerTone,
  startsAfter,
} from '../machine/power.tsx';
import { Badge, Link } from '../parts/badge.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { Loading, ProblemNote } from '../parts/note.tsx';
import { useOrder, useResource } from '../parts/use.ts';

type View = Answer<'GET /v1/power'>['items'][number];

interface PowerManyProps {
  readonly names: readonly string[];
  readonly close: () => void;
}

export function PowerMany({ names, close }: PowerManyProps) {
  const [order, setOrder] = useState<PowerBody['order']>('on');
  const [boot, setBoot] = useState('');
  const [stagger, setStagger] = useState('2s');
  const [atOnce, setAtOnce] = useState('');
  const [preview, setPreview] = useState<readonly View[] | undefined>(undefined);
  const [given, setGiven] = useState(false);
  const { busy, error, run } = useOrder();
  const send = async (dryRun: boolean): Promise<readonly View[]> => {
    const body = {
      ...bodyOf(order, names, order === 'boot' ? boot || 'network' : boot),
      ...(stagger !== '' && { stagger }),
      ...(atOnce !== '' && { atOnce: Number(atOnce) }),
    };
    return (await ask('POST /v1/power', { query: { dryRun }, body })).items;
  };
  useEffect(() => {
    void run(async () => setPreview(await send(true)));
  }, []);
  const submit = (event: Event): void => {
    event.preventDefault();
    void run(async () => {
      setPreview(await send(false));
      setGiven(true);
    });
  };
  if (given)
    return (
      <Dialog title={`${ORDERS[order].label}: ${count(names.length, 'machine')}`} close={close} wide>
        <Followed names={names} />
        <footer>
          <button type="button" class="primary" onClick={close}>
            Close
          </button>
        </footer>
      </Dialog>
    );
  const { label, text, cuts } = ORDERS[order];
  return (
    <Dialog title={`Power of ${count(names.length, 'machine')}`} close={close} wide>
      <form onSubmit={submit}>
        <div class="line">
          <Choice
            label="Order"
            value={order}
            set={(chosen) => setOrder(chosen as PowerBody['order'])}
            choices={Object.entries(ORDERS).map(([want, one]) => [want, one.label])}
          />
          {startsAfter(order) && (
            <BootPlace
              value={boot || (order === 'boot' ? 'network' : '')}
              set={setBoot}
              must={order === 'boot'}
            />
          )}
          <TextField label="Between two machines" value={stagger} set={setStagger} placeholder="2s" />
          <TextField label="At most at once" value={atOnce} set={setAtOnce} placeholder="all" />
        </div>
        <p>{text}</p>
        <ProblemNote error={error} />
        {preview === undefined ? busy && <Loading what="what it is about" /> : <Views items={preview} />}
        <footer>
          <button type="submit" class={cuts ? 'danger' : 'primary'} disabled={busy || preview === undefined}>
            {label}: {count(names.length, 'machine')}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** What becomes of the orders, as it happens. */
function Followed({ names }: { readonly names: readonly string[] }) {
  const { value, error } = useResource(
    'GET /v1/power',
    { query: { machines: names.join(',') } },
    ({ kind, subject }) => kind === 'machine.power' && names.includes(subject),
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  return value === undefined ? <Loading what="the orders" /> : <Views items={value.items} />;
}

const Views = ({ items }: { readonly items: readonly View[] }) => (
  <table>
    <thead>
      <tr>
        <th>Machine</th>
        <th>Power</th>
        <th>Last order</th>
      </tr>
    </thead>
    <tbody>
      {items.map((view) => (
        <tr key={view.machine}>
          <td>
            <Link to={['machines', view.machine]} query={{ tab: 'power' }}>
              {view.machine}
            </Link>
          </td>
          <td>
            <Badge tone={powerTone(view.state)}>{view.state ?? 'not asked yet'}</Badge>
          </td>
          <td>{orderText(view) ?? 'none'}</td>
        </tr>
      ))}
    </tbody>
  </table>
);
