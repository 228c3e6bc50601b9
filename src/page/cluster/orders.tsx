/** What an operator can do with one cluster: its version, its machines. */
import { useState } from 'preact/hooks';
import type { Body } from '../../api/operations.ts';
import { commandOf } from '../base/acts.ts';
import { ask, part, request } from '../base/http.ts';
import { saveFile } from '../base/save.ts';
import { may } from '../base/session.ts';
import { allRows, changed } from '../fleet/machines.ts';
import { CommandLine } from '../parts/command-line.tsx';
import { Choice, TextField } from '../parts/field.tsx';
import { NotYours } from '../parts/not-yours.tsx';
import { Order } from '../parts/order.tsx';
import { BeginChange } from './begin-change.tsx';

interface ClusterProps {
  readonly cluster: string;
  readonly done: () => void;
}

/** What the buttons say, for those who may not press them. */
const ORDERS = [
  ['operate', 'Add a machine'],
  ['administer', 'Upgrade', 'Roll', 'Remove a machine', 'Kubeconfig'],
] as const;

export function ClusterOrders({ cluster, version, done }: ClusterProps & { readonly version: string }) {
  return (
    <div class="line push">
      {may('administer', cluster) && <Upgrade cluster={cluster} version={version} />}
      {may('administer', cluster) && <Roll cluster={cluster} />}
      {may('operate', cluster) && <AddMachines cluster={cluster} done={done} />}
      {may('administer', cluster) && <RemoveMachines cluster={cluster} done={done} />}
      {may('administer', cluster) && <Kubeconfig cluster={cluster} />}
      <NotYours cluster={cluster} orders={ORDERS} />
    </div>
  );
}

function Upgrade({ cluster, version }: { readonly cluster: string; readonly version: string }) {
  const [to, setTo] = useState('');
  const [soak, setSoak] = useState('');
  return (
    <BeginChange
      cluster={cluster}
      label="Upgrade"
      title={`Upgrade ${cluster}`}
      begin="Begin the upgrade"
      order={to === '' ? undefined : { kind: 'upgrade', to, ...(soak !== '' && { soak }) }}
      command={commandOf(['cluster', 'upgrade', cluster], { '--to': to, '--soak': soak })}
    >
      <div class="line">
        <TextField
          label="To version"
          value={to}
          set={setTo}
          placeholder={version}
          hint={`It runs ${version}. One minor version at a time.`}
          required
        />
        <TextField
          label="Soak"
          value={soak}
          set={setSoak}
          placeholder="24h"
          hint="For so long the new version behaves as the old one, and can be taken back."
        />
      </div>
    </BeginChange>
  );
}

function Roll({ cluster }: { readonly cluster: string }) {
  const [outdated, setOutdated] = useState(true);
  const [now, setNow] = useState(false);
  return (
    <BeginChange
      cluster={cluster}
      label="Roll"
      title={`Restart machines of ${cluster}, one after the other`}
      begin="Begin the roll"
      order={{ kind: 'roll', machines: [], outdated, now }}
      command={commandOf(['cluster', 'roll', cluster], { '--outdated': outdated, '--now': now })}
    >
      <label class="check">
        <input type="checkbox" checked={outdated} onChange={() => setOutdated(!outdated)} />
        Only machines that run another image than they would boot
      </label>
      <label class="check">
        <input type="checkbox" checked={now} onChange={() => setNow(!now)} />
        Also outside of the maintenance windows
      </label>
    </BeginChange>
  );
}

function Kubeconfig({ cluster }: { readonly cluster: string }) {
  return (
    <Order
      label="Kubeconfig"
      title={`Kubeconfig for ${cluster}`}
      command={commandOf(['kubeconfig', cluster])}
      give={async () => {
        const answer = await request('POST', `/v1/clusters/${part(cluster)}/kubeconfig`, { json: {} });
        saveFile(`${cluster}.kubeconfig`, await answer.text(), 'application/yaml');
      }}
    >
      <p>
        It has a new certificate in your name, with which you are an administrator of the cluster for 12
        hours; nobody can end it before. The file is secret. Point kubectl at it:
      </p>
      <CommandLine text={`export KUBECONFIG=$PWD/${cluster}.kubeconfig`} />
      <p class="dim">The event cluster.kubeconfig notes who made it and until when it counts.</p>
    </Order>
  );
}

type Role = NonNullable<Body<'POST /v1/clusters/:name/add-node'>['role']>;

function AddMachines({ cluster, done }: ClusterProps) {
  const [machine, setMachine] = useState('');
  const [role, setRole] = useState<Role>('worker');
  const flag = role === 'control-plane' ? '--control-plane' : '--etcd';
  return (
    <Order
      label="Add a machine"
      title={`Add a machine to ${cluster}`}
      command={commandOf(
        ['cluster', 'add-node', cluster, machine],
        role === 'worker' ? {} : { [flag]: true },
      )}
      give={async () => {
        const body = { machines: [machine], role };
        await ask('POST /v1/clusters/:name/add-node', { params: { name: cluster }, body });
        changed([machine]);
        done();
      }}
    >
      <MachineChoice label="Machine" value={machine} set={setMachine} choices={freeMachines()} />
      <Choice
        label="Role"
        value={role}
        set={(chosen) => setRole(chosen as Role)}
        choices={[
          ['worker', 'worker'],
          ['control-plane', 'control plane'],
          ['etcd', 'member of an external etcd'],
        ]}
      />
      <p class="dim">It joins when it boots, or at once if it runs with an agent.</p>
    </Order>
  );
}

function RemoveMachines({ cluster, done }: ClusterProps) {
  const [machine, setMachine] = useState('');
  const [replacement, setReplacement] = useState('');
  const [clear, setClear] = useState(false);
  const own = allRows.value.filter((row) => row.cluster === cluster).map(({ name }) => name);
  return (
    <Order
      label="Remove a machine"
      title={`Remove a machine from ${cluster}`}
      danger
      command={commandOf(['cluster', 'remove-node', cluster, machine], {
        '--replace-with': replacement,
        '--clear': clear,
      })}
      give={async () => {
        const replacements = replacement === '' ? [] : [replacement];
        const body = { machines: [machine], replacements, clear };
        await ask('POST /v1/clusters/:name/remove-node', { params: { name: cluster }, body });
        changed([machine]);
        done();
      }}
    >
      <p>Its Node is drained and deleted, and its member leaves etcd if the quorum allows.</p>
      <MachineChoice label="Machine" value={machine} set={setMachine} choices={own} />
      <MachineChoice
        label="Replace it with"
        value={replacement}
        set={setReplacement}
        choices={freeMachines()}
        none="none"
      />
      <label class="check">
        <input type="checkbox" checked={clear} onChange={() => setClear(!clear)} />
        Delete the data of the cluster on its data disks
      </label>
    </Order>
  );
}

/** Machines that have a document and no cluster. */
const freeMachines = (): readonly string[] =>
  allRows.value.filter((row) => !row.cluster && !row.unknown).map(({ name }) => name);

interface MachineChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly set: (value: string) => void;
  readonly choices: readonly string[];
  /** What an empty choice says; without it one has to be chosen. */
  readonly none?: string;
}
const MachineChoice = ({ label, value, set, choices, none = 'choose one' }: MachineChoiceProps) => (
  <Choice
    label={label}
    value={value}
    set={set}
    choices={[['', none], ...choices.map((name) => [name, name] as const)]}
  />
);
