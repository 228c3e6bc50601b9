/** Keys that wait until an operator types the code that the machine's own console shows. */
import { useState } from 'preact/hooks';
import type { Waiting } from '../../api/operations/machines.ts';
import { spanText } from '../../base/duration.ts';
import { ask } from '../base/http.ts';
import { may } from '../base/session.ts';
import { Link } from '../parts/badge.tsx';
import { Facts } from '../parts/facts.tsx';
import { TextField } from '../parts/field.tsx';
import { ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';

interface WaitingProps {
  readonly keyOf: Waiting;
  readonly now: number;
  readonly done: () => void;
}

export function WaitingKey({ keyOf, now, done }: WaitingProps) {
  const { machine, cluster, serial, manufacturer, product, address, known, replaces, since, macs } = keyOf;
  const [code, setCode] = useState('');
  const { busy, error, run } = useOrder();
  const approve = (event: Event): void => {
    event.preventDefault();
    void run(async () => {
      await ask('POST /v1/machines/:name/approve', { params: { name: machine }, body: { code } });
      done();
    });
  };
  return (
    <li class="card">
      <h3>
        <Link to={['machines', machine]}>{machine}</Link>
      </h3>
      <Facts
        facts={[
          ['Cluster', cluster && <Link to={['clusters', cluster]}>{cluster}</Link>],
          ['Hardware', [manufacturer, product].filter(Boolean).join(' ')],
          ['Serial number', serial],
          ['Hardware addresses', macs.join(', ')],
          ['Asks from', `${address}${known ? '' : ' (not known as its address)'}`],
          ['Waits since', `${spanText(now - Date.parse(since))}`],
          ['Note', replaces && 'The machine has a certificate already: this key would replace it.'],
        ]}
      />
      {may('operate', cluster) && (
        <form onSubmit={approve} aria-label={`Approve ${machine}`}>
          <TextField
            label="Code on its console"
            value={code}
            set={setCode}
            autocomplete="off"
            required
            hint="Read it off the machine itself, on its screen or its BMC console."
          />
          <ProblemNote error={error} />
          <div class="line">
            <button type="submit" class="primary" disabled={busy}>
              Approve
            </button>
          </div>
        </form>
      )}
    </li>
  );
}
