/** The power of one machine through its BMC, the last order about it, and its hardware. */
import { useState } from 'preact/hooks';
import type { Answer, Body } from '../../api/operations.ts';
import { commandOf } from '../base/acts.ts';
import { ask } from '../base/http.ts';
import { place } from '../base/place.ts';
import { writePlace } from '../base/route.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { Badge } from '../parts/badge.tsx';
import { Facts } from '../parts/facts.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { commands, Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useOrder, useResource } from '../parts/use.ts';
import { Hardware } from './hardware.tsx';

type View = Answer<'GET /v1/power'>['items'][number];
export type PowerBody = Body<'POST /v1/power'>;
type Want = PowerBody['order'];

/** What each order does, for those who give it; `cuts`: what runs loses its power. */
export const ORDERS: Readonly<
  Record<Want, { readonly label: string; readonly text: string; readonly cuts: boolean }>
> = {
  on: { label: 'Switch on', text: 'A machine that is on already stays as it is.', cuts: false },
  'shut-down': {
    label: 'Shut down',
    text: 'Its system is asked to end itself. After five minutes the power is taken.',
    cuts: true,
  },
  off: {
    label: 'Switch off',
    text: 'The power is taken at once: what it did not write is lost.',
    cuts: true,
  },
  cycle: { label: 'Power cycle', text: 'It is switched off at once, and on again.', cuts: true },
  reset: { label: 'Reset', text: 'It restarts at once, without its system being told.', cuts: true },
  boot: {
    label: 'Boot once',
    text: 'Only where its next boot comes from; it stays as it is. Some BMCs forget it after a minute.',
    cuts: false,
  },
};
const PLACES = [
  ['network', 'the network: it is installed again'],
  ['http', 'the network by UEFI HTTP, where its BMC speaks Redfish'],
  ['disk', 'its disk'],
  ['setup', 'the setup of its firmware'],
] as const;

/** The body of an order; a boot place only where there is a next boot. */
export const bodyOf = (want: Want, machines: readonly string[], boot: string): PowerBody => ({
  order: want,
  machines: [...machines],
  cut: ORDERS[want].cuts,
  ...(want === 'shut-down' && { hardAfter: '5m' }),
  ...(boot !== '' && startsAfter(want) && { boot: boot as NonNullable<PowerBody['boot']> }),
});

/** The same order on the command line. */
function commandFor(want: Want, name: string, boot: string): string {
  if (want === 'boot') return commandOf(['machine', 'boot', name], { '--once': boot });
  if (want === 'shut-down') return commandOf(['power', 'off', name]);
  if (want === 'off') return commandOf(['power', 'off', name], { '--now': true });
  return commandOf(['power', want, name], { '--boot': boot });
}
export const startsAfter = (want: Want): boolean => want !== 'off' && want !== 'shut-down';

/** Where the next boot alone comes from. */
export const BootPlace = ({
  value,
  set,
  must,
}: {
  readonly value: string;
  readonly set: (value: string) => void;
  readonly must: boolean;
}) => (
  <Choice
    label="Next boot from"
    value={value}
    set={set}
    choices={[...(must ? [] : ([['', 'as its firmware is set']] as const)), ...PLACES]}
  />
);

const STEPS: Readonly<Record<string, string>> = {
  queued: 'waits for its turn',
  look: 'asks whether the machine is on',
  'boot-once': 'sets the next boot',
  'read-back': 'reads the next boot back',
  power: 'sends the power command',
  settle: 'waits for the power to change',
  sign: 'waits for the first packet of the machine',
  pause: 'leaves the machine without power for ten seconds',
};

/** An order as a sentence: `cycle from network by ada: proved`. */
export function orderText({ order }: Pick<View, 'order'>): string | undefined {
  if (order === undefined) return undefined;
  const { order: want, boot, by, at, end, step, attempts } = order;
  const what = `${want}${boot === undefined ? '' : ` from ${boot}`} by ${by}, ${moment(at)}`;
  if (end) return `${what}: ${end.code}`;
  return `${what}: ${STEPS[step] ?? step}${attempts > 1 ? `, attempt ${attempts}` : ''}`;
}

export const powerTone = (state: View['state']) =>
  state === 'on' ? 'good' : state === 'off' ? 'calm' : 'warn';

export function Power({ name, cluster }: { readonly name: string; readonly cluster: string | undefined }) {
  const { value, error, reload } = useResource(
    'GET /v1/power',
    { query: { machines: name } },
    ({ kind, subject }) => subject === name && kind === 'machine.power',
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  const [view] = value?.items ?? [];
  if (view === undefined) return <Loading what="the power" />;
  return (
    <>
      <State view={view} reload={reload} />
      {may('operate', cluster) ? (
        <Buttons name={name} cluster={cluster} done={reload} />
      ) : (
        <p class="dim">
          Operators switch it on and off here, restart it, say where it boots from next, and light its lamp.
          Your role shows its power.
        </p>
      )}
      <Hardware name={name} />
    </>
  );
}

function State({ view, reload }: { readonly view: View; readonly reload: () => void }) {
  const { machine, state, readAt, fault, address, protocol, pin, order } = view;
  const { busy, error, run } = useOrder();
  const look = () =>
    run(async () => {
      await ask('GET /v1/power', { query: { machines: machine, live: true } });
      reload();
    });
  const end = order?.end;
  return (
    <section class="card" aria-label="Power">
      <div class="line">
        <Badge tone={powerTone(state)}>{state ?? 'not asked yet'}</Badge>
        <span class="dim">{readAt && `read ${moment(readAt)}`}</span>
        <button type="button" disabled={busy} onClick={() => void look()}>
          Ask the BMC now
        </button>
      </div>
      <ProblemNote error={error} />
      {fault && <p class="note warn">{fault}</p>}
      {end && !end.proved && (
        <p class="note bad">
          {commands(end.text)} <a href={writePlace(place.value.path, { tab: 'why' })}>Why, and what to do</a>
        </p>
      )}
      <Facts
        facts={[
          ['Last order', orderText(view)],
          ['What came of it', end?.proved ? end.text : undefined],
          ['BMC', `${address}, ${protocol === 'auto' ? 'protocol not known yet' : protocol}`],
          ['Certificate (SHA-256)', pin && `${pin.slice(0, 16)}…`],
        ]}
      />
    </section>
  );
}

interface ButtonsProps {
  readonly name: string;
  readonly cluster: string | undefined;
  readonly done: () => void;
}

function Buttons({ name, cluster, done }: ButtonsProps) {
  return (
    <div class="line">
      {(['on', 'shut-down', 'off', 'cycle', 'reset', 'boot'] as const).map((want) => (
        <PowerButton key={want} want={want} name={name} done={done} />
      ))}
      <Lamp name={name} />
      {may('administer', cluster) && <Forget name={name} done={done} />}
    </div>
  );
}

function PowerButton(of: { readonly want: Want; readonly name: string; readonly done: () => void }) {
  const { want, name, done } = of;
  const { label, text, cuts } = ORDERS[want];
  const [boot, setBoot] = useState(want === 'boot' ? 'network' : '');
  return (
    <Order
      label={label}
      command={commandFor(want, name, boot)}
      title={`${label}: ${name}`}
      danger={cuts}
      give={async () => {
        await ask('POST /v1/power', { body: bodyOf(want, [name], boot) });
        done();
      }}
    >
      <p>{text}</p>
      {startsAfter(want) && <BootPlace value={boot} set={setBoot} must={want === 'boot'} />}
      <p class="dim">
        The order ends when the machine itself is heard, or with a name that says what did not happen.
      </p>
    </Order>
  );
}

function Forget({ name, done }: { readonly name: string; readonly done: () => void }) {
  return (
    <Order
      label="Accept its certificate"
      command={commandOf(['power', 'forget', name])}
      title={`Accept the BMC of ${name} as it is`}
      danger
      give={async () => {
        await ask('DELETE /v1/machines/:name/bmc', { params: { name } });
        done();
      }}
    >
      <p>
        The next certificate that it shows counts, and a log-in that it refused twice is tried again. Make
        sure first that there is a reason, such as a new board.
      </p>
    </Order>
  );
}

function Lamp({ name }: { readonly name: string }) {
  const [seconds, setSeconds] = useState('60');
  return (
    <Order
      label="Light the lamp"
      command={commandOf(['machine', 'identify', name], { '--seconds': seconds })}
      title={`Light the lamp of ${name}`}
      give={() =>
        ask('POST /v1/machines/:name/identify', { params: { name }, body: { seconds: Number(seconds) } })
      }
    >
      <p>It is found by its lamp in its rack. 0 puts the lamp out.</p>
      <TextField label="Seconds, at most 255" value={seconds} set={setSeconds} required />
    </Order>
  );
}
