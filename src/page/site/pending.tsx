/** Orders of other operators that wait for a second person, where the site asks for one. */
import type { Answer } from '../../api/operations.ts';
import { commandOf } from '../base/acts.ts';
import { ask } from '../base/http.ts';
import { may, who } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { Facts } from '../parts/facts.tsx';
import { ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useResource } from '../parts/use.ts';

type Waiting = Answer<'GET /v1/pending'>['items'][number];

/** `path` without the version of the API: `machines/worker-3/wipe` */
const about = ({ path }: Waiting): string => path.replace(/^\/v1\//, '');

/** What was ordered. */
const fields = ({ body }: Waiting): [string, string][] =>
  Object.entries(body)
    .filter(([, value]) => value !== false && String(value) !== '')
    .map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]);

export function PendingOrders() {
  const { value, error, reload } = useResource(
    'GET /v1/pending',
    undefined,
    // One that waits is a concern from the next look on, and none when it was decided.
    ({ kind }) => kind === 'site.concern',
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (!value?.items.length) return null;
  return (
    <section class="card" aria-label="Orders that wait for a second person">
      <h2>Orders that wait for a second person</h2>
      <ul class="plain stack">
        {value.items.map((order) => (
          <li key={order.id}>
            <p>
              <strong>{about(order)}</strong>{' '}
              <span class="dim">
                {order.by} ordered it {moment(order.at)}; it is forgotten {moment(order.until)}
              </span>
            </p>
            <Facts facts={fields(order)} />
            <Decision order={order} done={reload} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Decision({ order, done }: { readonly order: Waiting; readonly done: () => void }) {
  const { id, by } = order;
  if (!may('administer')) return <p class="dim">An administrator of the whole site confirms it.</p>;
  const own = by === who.value?.name;
  return (
    <div class="line">
      {own ? (
        <span class="dim">You ordered it; another administrator confirms it.</span>
      ) : (
        <Order
          label="Confirm"
          title={`Confirm ${about(order)}`}
          danger
          command={commandOf(['pending', 'confirm', id])}
          give={async () => {
            await ask('POST /v1/pending/:id/confirm', { params: { id } });
            done();
          }}
        >
          <p>It is carried out at once, as {by} ordered it:</p>
          <Facts facts={fields(order)} />
        </Order>
      )}
      <Order
        label="Withdraw"
        title={`Withdraw ${about(order)}`}
        command={commandOf(['pending', 'withdraw', id])}
        give={async () => {
          await ask('DELETE /v1/pending/:id', { params: { id } });
          done();
        }}
      >
        <p>Nobody can confirm it any more. {own ? 'You' : by} can order it again.</p>
      </Order>
    </div>
  );
}
