/** Orders about the life of a machine; its state says which of them are offered. */
import { useState } from 'preact/hooks';
import type { Shown } from '../../api/shown.ts';
import { allowedIn, type LifeOrder } from '../../machines/life/life.ts';
import { commandOf, MACHINE_ACTS } from '../base/acts.ts';
import { ask } from '../base/http.ts';
import { moment } from '../base/times.ts';
import { changed } from '../fleet/machines.ts';
import { Badge } from '../parts/badge.tsx';
import { Facts } from '../parts/facts.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { commands, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useResource } from '../parts/use.ts';

interface LifeProps {
  readonly name: string;
  readonly life: Shown['status']['life'];
  readonly done: () => void;
}

export function LifeOrders({ name, life, done }: LifeProps) {
  const allowed = allowedIn(life?.state ?? 'in-use').filter(
    // Repeated, it would only end a drain, which its command does.
    (order) => order !== 'take-out' || life === undefined,
  );
  return (
    <>
      {allowed.map((order) => (
        <LifeOrderButton key={order} order={order} name={name} life={life} done={done} />
      ))}
    </>
  );
}

/** What each order does; whether it takes a reason, and the name because it cannot be undone. */
const TEXTS: Readonly<
  Record<LifeOrder, { readonly text: string; readonly why?: true; readonly final?: true }>
> = {
  'take-out': {
    text: 'Use this for a repair. Its Node is drained, its member leaves etcd if the quorum allows, and its BMC switches it off. Its boots are held until you bring it back.',
    why: true,
  },
  'bring-back': { text: 'The machine may boot again, and joins its cluster.' },
  rescue: {
    text: 'It boots a small system once, which writes to no disk, and which lets the owner of the key in by SSH. Its BMC restarts it. Afterwards it is what it was before.',
    why: true,
  },
  replace: {
    text: 'Its name and its place go to hardware that was seen and has no document. The certificate of the old hardware ends.',
    final: true,
  },
  wipe: {
    text: 'Its disks are wiped at its next boot from the network; its BMC restarts it. It counts when what was written before is gone. Disks of others and sticks are left alone.',
    why: true,
    final: true,
  },
  test: {
    text: 'Its memory, disks and network are tested at its next boot from the network; its BMC restarts it. Nothing is written to disks. Then it is taken out as before.',
    why: true,
  },
  'call-off': {
    text: 'A wipe that has not begun, a test, or a rescue, ends. The machine is what it was before.',
  },
  retire: {
    text: 'For good: its certificate is revoked, and the keys of its encrypted disks are removed. Its document stays until you delete it.',
    why: true,
    final: true,
  },
};

type ButtonProps = LifeProps & { readonly order: LifeOrder };
function LifeOrderButton({ order, name, life, done }: ButtonProps) {
  const [reason, setReason] = useState('');
  const [level, setLevel] = useState<'tables' | 'crypto' | 'overwrite'>('tables');
  const [unwiped, setUnwiped] = useState(false);
  const [confirm, setConfirm] = useState('');
  const [key, setKey] = useState('');
  const [by, setBy] = useState('');
  const [keepsDisks, setKeepsDisks] = useState(false);
  const { text, why, final } = TEXTS[order];
  const give = async (): Promise<void> => {
    const params = { name };
    if (order === 'take-out') await ask('POST /v1/machines/:name/take-out', { params, body: { reason } });
    else if (order === 'rescue')
      await ask('POST /v1/machines/:name/rescue', { params, body: { reason, key } });
    else if (order === 'replace')
      await ask('POST /v1/machines/:name/replace', { params, body: { by, keepsDisks, confirm, macs: [] } });
    else if (order === 'wipe')
      await ask('POST /v1/machines/:name/wipe', { params, body: { reason, level, confirm, disks: [] } });
    else if (order === 'test') await ask('POST /v1/machines/:name/test', { params, body: { reason } });
    else if (order === 'retire')
      await ask('POST /v1/machines/:name/retire', { params, body: { reason, unwiped, confirm } });
    else await ask(`POST /v1/machines/:name/${order}`, { params });
    changed([name]);
    done();
  };
  return (
    <Order
      label={MACHINE_ACTS[order]}
      title={`${MACHINE_ACTS[order]}: ${name}`}
      danger={final === true || order === 'take-out'}
      command={commandOf(['machine', order, name, ...(by === '' ? [] : [by])], {
        ...(order === 'rescue' && { '--key': 'FILE' }),
        ...(order === 'replace' && { '--keep-disks': keepsDisks }),
        ...(order === 'wipe' && { '--level': level }),
        ...(order === 'retire' && { '--unwiped': unwiped }),
        ...(why && { '--reason': reason }),
        ...(final && { '--confirm': confirm }),
      })}
      give={give}
    >
      {life?.text && <p class="dim">Why it is out of use: {life.text}</p>}
      <p>{text}</p>
      {order === 'rescue' && (
        <TextField
          label="Public key"
          value={key}
          set={setKey}
          placeholder="ssh-ed25519 AAAA… you@example"
          required
        />
      )}
      {order === 'replace' && (
        <>
          <TextField
            label="New hardware"
            value={by}
            set={setBy}
            hint="Its name in the list, or its hardware address."
            required
          />
          <label class="check">
            <input type="checkbox" checked={keepsDisks} onChange={() => setKeepsDisks(!keepsDisks)} />
            The disks of the old machine are in the new one
          </label>
        </>
      )}
      {order === 'wipe' && (
        <Choice
          label="Level"
          value={level}
          set={(chosen) => setLevel(chosen as typeof level)}
          choices={[
            ['tables', 'tables: what names data, in seconds'],
            ['crypto', 'crypto: the drive erases itself, in seconds or hours'],
            ['overwrite', 'overwrite: every sector, in hours'],
          ]}
        />
      )}
      {order === 'retire' && life?.state !== 'wiped' && (
        <label class="check">
          <input type="checkbox" checked={unwiped} onChange={() => setUnwiped(!unwiped)} />
          Its disks were not wiped: they are destroyed elsewhere
        </label>
      )}
      {why && <TextField label="Reason" value={reason} set={setReason} required />}
      {final && <TextField label={`Type ${name} to confirm`} value={confirm} set={setConfirm} required />}
    </Order>
  );
}

/** The state of a machine's life, and the certificates of its wipes. */
export function LifeCard({ name }: { readonly name: string }) {
  const of = { params: { name } };
  const concerns = ({ subject }: { readonly subject: string }): boolean => subject === name;
  const life = useResource('GET /v1/machines/:name/life', of, concerns);
  const wipes = useResource('GET /v1/machines/:name/wipes', of, concerns);
  if (life.value === undefined) return <ProblemNote error={life.error} />;
  const { state, about, reason, by, at, waits, byHand, next } = life.value;
  return (
    <section class="card" aria-label="Life">
      <h2>Life</h2>
      <p>
        <strong>{state}</strong>: {about}
      </p>
      <Facts
        facts={[
          ['Reason', reason],
          ['Ordered by', by && `${by}, ${moment(at!)}`],
          ['Waits', waits],
          ['By hand', byHand && 'no document names its BMC: a person switches it'],
          ['Next', commands(next)],
        ]}
      />
      {(wipes.value?.items ?? []).map((one) => (
        <div key={one.id}>
          <h3>
            Wipe {one.id}{' '}
            <Badge tone={one.failed === undefined ? 'good' : 'bad'}>
              {one.failed === undefined ? 'proved' : 'failed'}
            </Badge>
          </h3>
          {one.failed && <p class="note bad">{one.failed}</p>}
          <p class="dim">
            {one.level}, ordered by {one.by} {moment(one.orderedAt)}, ended {moment(one.at)}: {one.reason}
          </p>
          <ul class="plain">
            {one.disks.map((disk) => (
              <li key={disk.name}>
                {disk.name}, serial number {disk.serial || 'unknown'}:{' '}
                {disk.result === 'done'
                  ? `wiped${disk.method ? ` by ${disk.method}` : ''}; of ${disk.canaries} sectors written before, ${disk.left} are left`
                  : `${disk.result === 'left' ? 'left alone' : 'not wiped'} (${disk.code})`}
              </li>
            ))}
          </ul>
        </div>
      ))}
    </section>
  );
}
