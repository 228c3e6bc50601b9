/** Restores a cluster's etcd whose quorum is lost for good: what it would do, then the order. */
import { useState } from 'preact/hooks';
import type { Answer, Body } from '../../api/operations.ts';
import { commandOf } from '../base/acts.ts';
import { namesIn } from '../base/grants.ts';
import { ask } from '../base/http.ts';
import { moment } from '../base/times.ts';
import { Choice, TextField } from '../parts/field.tsx';
import { Order } from '../parts/order.tsx';
import { Preview } from '../parts/preview.tsx';
import { useResource } from '../parts/use.ts';

type Snapshot = Answer<'GET /v1/clusters/:name/backups'>['items'][number];

interface RestoreProps {
  readonly cluster: string;
  /** Undefined: from the data of a member. */
  readonly snapshot?: Snapshot;
  readonly done: () => void;
}

export function Restore(props: RestoreProps) {
  const { cluster, snapshot, done } = props;
  const [member, setMember] = useState('');
  const [without, setWithout] = useState('');
  const [confirm, setConfirm] = useState('');
  const abandoned = namesIn(without);
  const body: Body<'POST /v1/clusters/:name/restore'> = {
    confirm: cluster,
    without: abandoned,
    ...(snapshot && { backup: snapshot.id }),
    ...(member !== '' && { member }),
  };
  const order = (dryRun: boolean, given: typeof body) =>
    ask('POST /v1/clusters/:name/restore', {
      params: { name: cluster },
      body: given,
      ...(dryRun && ({ query: { dryRun } } as object)),
    });
  const words = abandoned.length === 0 ? [] : ['--without', ...abandoned];
  return (
    <Order
      label={snapshot ? 'Restore' : 'Restore from a member'}
      title={`Restore etcd of ${cluster}`}
      danger
      wide
      command={commandOf(['cluster', 'restore', cluster, ...words], {
        ...(snapshot ? { '--backup': snapshot.id, '--on': member } : { '--from': member }),
        '--confirm': confirm,
      })}
      give={async () => {
        await order(false, { ...body, confirm });
        setConfirm('');
        done();
      }}
    >
      <p>
        Only when the quorum is lost for good.{' '}
        {snapshot
          ? `Everything that was written after ${moment(snapshot.takenAt)} is lost. Data of a member are newer: restore from those where one has any.`
          : 'Writes that this member had not received are lost, and the disks of the others cannot be used any more, even if they come back.'}{' '}
        Data on disks are kept.
      </p>
      <Fields {...props} member={member} setMember={setMember} without={without} setWithout={setWithout} />
      {(snapshot || member !== '') && (
        <Preview
          of={`${member} ${without}`}
          look={() => order(true, body)}
          taken="The boot host would begin it now, as a new founding."
        />
      )}
      <TextField label={`Type ${cluster} to confirm`} value={confirm} set={setConfirm} required />
    </Order>
  );
}

interface FieldsProps extends RestoreProps {
  readonly member: string;
  readonly setMember: (name: string) => void;
  readonly without: string;
  readonly setWithout: (names: string) => void;
}

function Fields({ cluster, snapshot, member, setMember, without, setWithout }: FieldsProps) {
  const { value } = useResource('GET /v1/clusters/:name/founding', { params: { name: cluster } });
  const none = snapshot ? 'the first that can' : 'choose one';
  return (
    <div class="line">
      <Choice
        label={snapshot ? 'On member' : 'From member'}
        value={member}
        set={setMember}
        choices={[
          ['', none],
          ...(value?.members ?? []).map(({ name, health, silent }) => {
            const about = [health, silent && 'silent'].filter(Boolean).join(', ');
            return [name, about === '' ? name : `${name} (${about})`] as const;
          }),
        ]}
      />
      <TextField
        label="Abandon"
        value={without}
        set={setWithout}
        hint="Silent members that never come back. Be sure that they run nowhere."
        autocomplete="off"
      />
    </div>
  );
}
