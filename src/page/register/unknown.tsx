/** A machine that was only seen: what is known of it, and the form that accepts it. */
import { useState } from 'preact/hooks';
import type { InventoryView } from '../../api/operations/inventory.ts';
import type { Shown } from '../../api/shown.ts';
import { spanText } from '../../base/duration.ts';
import { ask } from '../base/http.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { changed } from '../fleet/machines.ts';
import { PLAIN_CLAIM, partFacts } from '../machine/parts.ts';
import { Link } from '../parts/badge.tsx';
import { Facts } from '../parts/facts.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';

interface UnknownProps {
  readonly machine: Shown;
  /** What it says in the discovery system that it is made of. */
  readonly parts: InventoryView | undefined;
  readonly profiles: readonly string[];
  readonly clusters: readonly string[];
  readonly now: number;
}

export function Unknown({ machine, parts, profiles, clusters, now }: UnknownProps) {
  const { name } = machine.metadata;
  const { seen, firstSeen, lastSeen } = machine.status;
  const vendor = [seen?.manufacturer, seen?.product].filter(Boolean).join(' ');
  return (
    <li class="card">
      <h3>
        <Link to={['machines', name]}>{vendor === '' ? name : vendor}</Link>
      </h3>
      <Facts
        facts={[
          ['Serial number', seen?.serial],
          ['Booted from', seen?.bootMacs?.join(', ')],
          ['Other addresses', seen?.macs.filter((mac) => !seen.bootMacs?.includes(mac)).join(', ')],
          ['Network', [seen?.network, seen?.address].filter(Boolean).join(', ')],
          ['Firmware', [seen?.arch, seen?.firmware].filter(Boolean).join(', ')],
          ['UUID', seen?.uuid],
          ['Asset tag', seen?.assetTag],
          [
            'First seen',
            firstSeen && <time title={moment(firstSeen)}>{spanText(now - Date.parse(firstSeen))} ago</time>,
          ],
          [
            'Last seen',
            lastSeen && <time title={moment(lastSeen)}>{spanText(now - Date.parse(lastSeen))} ago</time>,
          ],
        ]}
      />
      {parts && (
        <section aria-label={`Parts of ${name}`}>
          <p class="dim">{PLAIN_CLAIM}</p>
          <Facts facts={partFacts(parts)} />
        </section>
      )}
      {may('operate') && <AcceptForm name={name} seen={seen} profiles={profiles} clusters={clusters} />}
    </li>
  );
}

interface AcceptProps {
  readonly name: string;
  readonly seen: Shown['status']['seen'];
  readonly profiles: readonly string[];
  readonly clusters: readonly string[];
}
function AcceptForm({ name, seen, profiles, clusters }: AcceptProps) {
  const [given, setGiven] = useState('');
  const [profile, setProfile] = useState('');
  const [cluster, setCluster] = useState('');
  const [macs, setMacs] = useState<readonly string[]>([]);
  const { busy, error, run } = useOrder();
  const claimed = (seen?.macs ?? []).filter((mac) => !seen?.bootMacs?.includes(mac));
  const accept = (event: Event): void => {
    event.preventDefault();
    void run(async () => {
      await ask('POST /v1/machines/:name/accept', {
        params: { name },
        body: {
          ...(given !== '' && { name: given }),
          ...(profile !== '' && { profile }),
          ...(cluster !== '' && { cluster }),
          macs,
        },
      });
      changed([name, given || name]);
    });
  };
  const forget = (): void =>
    void run(async () => {
      await ask('DELETE /v1/:kind/:name', { params: { kind: 'machines', name } });
      changed([name]);
    });
  return (
    <form class="accept" onSubmit={accept} aria-label={`Accept ${name}`}>
      <div class="line">
        <TextField label="Name" value={given} set={setGiven} placeholder={name} autocomplete="off" />
        <Choice
          label="Profile"
          value={profile}
          set={setProfile}
          choices={[['', 'by the selectors of Profiles'], ...profiles.map((one) => [one, one] as const)]}
        />
        <Choice
          label="Cluster"
          value={cluster}
          set={setCluster}
          choices={[['', 'none'], ...clusters.map((one) => [one, one] as const)]}
        />
      </div>
      {claimed.length > 0 && (
        <fieldset class="plain">
          <legend class="dim">It claims these addresses, too. Tick those that are really its own.</legend>
          {claimed.map((mac) => (
            <label key={mac} class="check">
              <input
                type="checkbox"
                checked={macs.includes(mac)}
                onChange={() =>
                  setMacs(macs.includes(mac) ? macs.filter((one) => one !== mac) : [...macs, mac])
                }
              />
              {mac}
            </label>
          ))}
        </fieldset>
      )}
      <ProblemNote error={error} />
      <div class="line">
        <button type="submit" class="primary" disabled={busy}>
          Accept
        </button>
        {may('administer') && (
          <button type="button" class="quiet" disabled={busy} onClick={forget}>
            Forget
          </button>
        )}
      </div>
    </form>
  );
}
