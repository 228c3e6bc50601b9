/** Snapshots of a cluster's etcd. */
import { ask } from '../base/http.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { Badge } from '../parts/badge.tsx';
import { commands, Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useOrder, useResource } from '../parts/use.ts';

/** `3.2 MiB` */
const size = (octets: number): string =>
  octets < 1024 * 1024 ? `${(octets / 1024).toFixed(1)} KiB` : `${(octets / 1024 / 1024).toFixed(1)} MiB`;

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
        <table>
          <thead>
            <tr>
              <th scope="col">Taken</th>
              <th scope="col">By</th>
              <th scope="col">Member</th>
              <th scope="col">etcd</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Copies</th>
              <th scope="col">
                <span class="hidden">Orders</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {value.items.map((one) => (
              <tr key={one.id}>
                <td>{moment(one.takenAt)}</td>
                <td>{one.by}</td>
                <td>{one.member}</td>
                <td>{one.etcd}</td>
                <td class="number">{size(one.size)}</td>
                <td>
                  {one.copies.map((copy) => (
                    <Badge key={copy.to} tone={copy.fault === undefined ? 'good' : 'bad'}>
                      {copy.to}
                    </Badge>
                  ))}
                </td>
                <td>{may('operate', cluster) && <Verify cluster={cluster} id={one.id} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="dim">
        {commands(
          `To restore from one when the quorum is lost for good: \`muster cluster restore ${cluster}\`.`,
        )}
      </p>
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
