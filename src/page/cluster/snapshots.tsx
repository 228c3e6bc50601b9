/** Snapshots of a cluster's etcd: taken, read again, and restored. */
import type { Answer } from '../../api/operations.ts';
import { commandOf } from '../base/acts.ts';
import { ask } from '../base/http.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { sizeText } from '../machine/parts.ts';
import { Badge } from '../parts/badge.tsx';
import { NotYours } from '../parts/not-yours.tsx';
import { commands, Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { useOrder, useResource } from '../parts/use.ts';
import { Restore } from './restore.tsx';

type Snapshot = Answer<'GET /v1/clusters/:name/backups'>['items'][number];

const ORDERS = [
  ['operate', 'Take a snapshot', 'Verify'],
  ['administer', 'Restore'],
] as const;

const COLUMNS: readonly Cell<Snapshot>[] = [
  { heading: 'Taken', cell: ({ takenAt }) => moment(takenAt) },
  { heading: 'By', cell: ({ by }) => by },
  { heading: 'Member', cell: ({ member }) => member },
  { heading: 'etcd', cell: ({ etcd }) => etcd },
  { heading: 'Size', cell: ({ size }) => sizeText(size), number: true },
  {
    heading: 'Copies',
    cell: ({ copies }) =>
      copies.map(({ to, fault }) => (
        <Badge key={to} tone={fault === undefined ? 'good' : 'bad'}>
          {to}
        </Badge>
      )),
  },
];

export function Snapshots({ cluster }: { readonly cluster: string }) {
  const { value, error, reload } = useResource(
    'GET /v1/clusters/:name/backups',
    { params: { name: cluster } },
    ({ kind }) => kind === 'cluster.snapshot',
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="snapshots" />;
  return (
    <div class="stack">
      <div class="line">
        {may('operate', cluster) && (
          <Order
            label="Take a snapshot"
            title={`Take a snapshot of ${cluster}`}
            command={commandOf(['cluster', 'backup', cluster])}
            give={async () => {
              await ask('POST /v1/clusters/:name/backup', { params: { name: cluster } });
              reload();
            }}
          >
            <p>A healthy member of etcd takes it within some seconds. Nothing restarts.</p>
          </Order>
        )}
        {value.due && <span class="dim">The next one is due {moment(value.due)}.</span>}
      </div>
      {value.failed && (
        <p class="note bad">
          The last one failed, {moment(value.failed.at)}: {value.failed.text}
        </p>
      )}
      {value.items.length === 0 ? (
        <Empty title="There is no snapshot yet">
          {commands('With `spec.backup` in the Cluster document, they are taken regularly.')}
        </Empty>
      ) : (
        <Table
          label="Snapshots"
          columns={COLUMNS}
          rows={value.items}
          keyOf={({ id }) => id}
          orders={(one) => (
            <>
              {may('operate', cluster) && <Verify cluster={cluster} id={one.id} />}
              {may('administer', cluster) && <Restore cluster={cluster} snapshot={one} done={reload} />}
            </>
          )}
        />
      )}
      {may('administer', cluster) && (
        <div class="line">
          <Restore cluster={cluster} done={reload} />
          <span class="dim">When the quorum is lost for good, and a member has its data.</span>
        </div>
      )}
      <NotYours cluster={cluster} orders={ORDERS} />
    </div>
  );
}

function Verify({ cluster, id }: { readonly cluster: string; readonly id: string }) {
  const params = { name: cluster, id };
  const { busy, error, run } = useOrder();
  const verify = (): void =>
    void run(async () => void (await ask('POST /v1/clusters/:name/backups/:id/verify', { params })));
  return (
    <>
      <button type="button" disabled={busy} onClick={verify}>
        Verify
      </button>
      <ProblemNote error={error} />
    </>
  );
}
