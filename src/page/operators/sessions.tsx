/** Who is logged in. */
import type { ShownSession } from '../../api/operations/operators.ts';
import { commandOf } from '../base/acts.ts';
import { ask } from '../base/http.ts';
import { moment } from '../base/times.ts';
import { Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { useResource } from '../parts/use.ts';

const COLUMNS: readonly Cell<ShownSession>[] = [
  { heading: 'Operator', cell: ({ operator }) => <strong>{operator}</strong> },
  { heading: 'Begun', cell: ({ begun }) => moment(begun) },
  { heading: 'Last used', cell: ({ used }) => moment(used) },
  { heading: 'Id', cell: ({ id }) => <code>{id}</code> },
];

export function SessionList() {
  const { value, error, reload } = useResource('GET /v1/sessions', {}, ({ kind }) =>
    kind.startsWith('operator.'),
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="sessions" />;
  return (
    <Table
      label="Sessions"
      columns={COLUMNS}
      rows={value.items}
      keyOf={({ id }) => id}
      orders={({ id, operator }) => (
        <Order
          label="End"
          title={`End a session of ${operator}`}
          danger
          command={commandOf(['operator', 'sessions', 'end', id])}
          give={async () => {
            await ask('DELETE /v1/sessions/:id', { params: { id } });
            reload();
          }}
        >
          <p>{operator} is logged out there at once, and can log in again.</p>
        </Order>
      )}
    />
  );
}
