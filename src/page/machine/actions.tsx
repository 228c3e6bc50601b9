/** What an operator can do with one machine; each order says first what it does. */
import { useState } from 'preact/hooks';
import type { Shown } from '../../api/shown.ts';
import type { Fault } from '../../base/errors.ts';
import { commandOf, MACHINE_ACTS } from '../base/acts.ts';
import { ask } from '../base/http.ts';
import { go } from '../base/place.ts';
import { may } from '../base/session.ts';
import { changed } from '../fleet/machines.ts';
import { Choice, TextField } from '../parts/field.tsx';
import { commands, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useResource } from '../parts/use.ts';
import { LifeOrders } from './life.tsx';

interface ActionsProps {
  readonly machine: Shown;
  readonly cluster: string | undefined;
  readonly done: () => void;
}

export function MachineActions({ machine, cluster, done }: ActionsProps) {
  const { alarm, quarantine, life } = machine.status;
  const [operate, administer] = [may('operate', cluster), may('administer', cluster)];
  return (
    <div class="line push">
      {operate && <Accept machine={machine} done={done} />}
      {operate && alarm && <Rearm machine={machine} done={done} />}
      {administer &&
        (quarantine ? <Release machine={machine} done={done} /> : <Hold machine={machine} done={done} />)}
      {administer && machine.spec && <LifeOrders name={machine.metadata.name} life={life} done={done} />}
      {may('administer') && <Delete machine={machine} />}
    </div>
  );
}

interface ActProps {
  readonly machine: Shown;
  readonly done: () => void;
}

function Accept({ machine, done }: ActProps) {
  const { name } = machine.metadata;
  const profiles = useResource(may('view') ? 'GET /v1/:kind' : undefined, { params: { kind: 'profiles' } });
  const [profile, setProfile] = useState('');
  return (
    <Order
      label={MACHINE_ACTS.accept}
      command={commandOf(['machine', 'accept', name], { '--profile': profile })}
      title={`Accept ${name}`}
      give={async () => {
        await ask('POST /v1/machines/:name/accept', {
          params: { name },
          body: profile === '' ? {} : { profile },
        });
        changed([name]);
        done();
      }}
    >
      <p>
        {machine.spec === undefined
          ? 'The machine gets a document and may boot. Register offers a name and a cluster for it.'
          : 'The machine may try to boot again: its count of boots without success begins at 0.'}
      </p>
      <Choice
        label="Profile"
        value={profile}
        set={setProfile}
        choices={[
          ['', 'as it is'],
          ...(profiles.value?.items ?? []).map(({ metadata }) => [metadata.name, metadata.name] as const),
        ]}
      />
    </Order>
  );
}

function Rearm({ machine, done }: ActProps) {
  const { name } = machine.metadata;
  const [keep, setKeep] = useState(false);
  return (
    <Order
      label={MACHINE_ACTS.rearm}
      command={commandOf(['machine', 'rearm', name], { '--keep': keep })}
      title={`End the alarm of ${name}`}
      danger
      give={async () => {
        await ask('POST /v1/machines/:name/rearm', { params: { name }, query: { keep } });
        changed([name]);
        done();
      }}
    >
      <p>{machine.status.alarm?.text}</p>
      <p>
        Its certificate ends, and the next system that asks with its ticket gets another one. Find out first
        who the other system is.
      </p>
      <label class="check">
        <input type="checkbox" checked={keep} onChange={() => setKeep(!keep)} />
        Keep its certificate: the system that has it now is the right one
      </label>
    </Order>
  );
}

function Hold({ machine, done }: ActProps) {
  const { name } = machine.metadata;
  const [reason, setReason] = useState('');
  return (
    <Order
      label={MACHINE_ACTS.quarantine}
      command={commandOf(['machine', 'quarantine', name], { '--reason': reason })}
      title={`Put ${name} in quarantine`}
      danger
      give={async () => {
        await ask('POST /v1/machines/:name/quarantine', { params: { name }, body: { reason } });
        changed([name]);
        done();
      }}
    >
      <p>
        Use this when the machine may be in somebody else's hands. It gets nothing from the boot host any
        more, and its certificate is revoked. What it knows already stays valid until the keys are rotated.
      </p>
      <TextField label="Reason" value={reason} set={setReason} required />
    </Order>
  );
}

function Release({ machine, done }: ActProps) {
  const { name } = machine.metadata;
  return (
    <Order
      label={MACHINE_ACTS.release}
      command={commandOf(['machine', 'release', name])}
      title={`End the quarantine of ${name}`}
      give={async () => {
        await ask('POST /v1/machines/:name/release', { params: { name } });
        changed([name]);
        done();
      }}
    >
      <p>{machine.status.quarantine?.text}</p>
      <p>The machine may boot again. Its old certificate stays revoked.</p>
    </Order>
  );
}

function Delete({ machine }: { readonly machine: Shown }) {
  const { name } = machine.metadata;
  return (
    <Order
      label={machine.spec === undefined ? 'Forget' : 'Delete'}
      command={commandOf(['delete', 'machine', name])}
      title={`${machine.spec === undefined ? 'Forget' : 'Delete'} ${name}`}
      danger
      give={async () => {
        await ask('DELETE /v1/:kind/:name', { params: { kind: 'machines', name } });
        changed([name]);
        go(['fleet']);
      }}
    >
      <p>
        {machine.spec === undefined
          ? 'What was seen of it is forgotten. It appears again when it boots the next time.'
          : 'Its document is removed, and its certificate is revoked. Its disks are not changed.'}
      </p>
      <DeletePreview name={name} />
    </Order>
  );
}

/** What the server says about the deletion, without doing it. */
function DeletePreview({ name }: { readonly name: string }) {
  const [state, setState] = useState<{ warnings?: readonly Fault[]; error?: unknown }>({});
  useState(() =>
    ask('DELETE /v1/:kind/:name', { params: { kind: 'machines', name }, query: { dryRun: true } }).then(
      ({ warnings }) => setState({ warnings }),
      (error: unknown) => setState({ error }),
    ),
  );
  if (state.error !== undefined) return <ProblemNote error={state.error} />;
  if (!state.warnings?.length) return null;
  return (
    <ul class="note warn">
      {state.warnings.map(({ message }) => (
        <li key={message}>{commands(message)}</li>
      ))}
    </ul>
  );
}
