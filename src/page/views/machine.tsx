/** One machine: its boot, console, configuration, facts, events, and why it gets what it gets. */

import type { Shown } from '../../api/shown.ts';
import { CONDITIONS } from '../../machines/condition.ts';
import type { MachineSpec } from '../../resources/kinds.ts';

import { place } from '../base/place.ts';
import { moment } from '../base/times.ts';
import { allRows } from '../fleet/machines.ts';
import { troubleOf } from '../fleet/row.ts';
import { MachineActions } from '../machine/actions.tsx';
import { Configuration } from '../machine/configuration.tsx';
import { Consoles } from '../machine/console.tsx';
import { Inventory } from '../machine/inventory.tsx';
import { LifeCard } from '../machine/life.tsx';
import { Power } from '../machine/power.tsx';
import { BootTimeline } from '../machine/timeline.tsx';
import { Why } from '../machine/why.tsx';
import { Badge, Link } from '../parts/badge.tsx';
import { EventRows } from '../parts/event-list.tsx';
import { Facts } from '../parts/facts.tsx';
import { commands, Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Scrolled } from '../parts/scrolled.tsx';
import { openTab, Tabs } from '../parts/tabs.tsx';
import { useResource } from '../parts/use.ts';

const TABS = [
  ['timeline', 'Timeline'],
  ['console', 'Console'],
  ['power', 'Power'],
  ['why', 'Why'],
  ['configuration', 'Configuration'],
  ['plan', 'Plan'],
  ['facts', 'Facts'],
  ['events', 'Events'],
] as const;

export function Machine() {
  const [, name = ''] = place.value.path;
  const { value, error, reload } = useResource(
    'GET /v1/:kind/:name',
    { params: { kind: 'machines', name } },
    ({ subject }) => subject === name || subject === `Machine/${name}`,
  );
  const cluster = allRows.value.find((row) => row.name === name)?.cluster || undefined;
  if (error !== undefined)
    return (
      <>
        <h1>{name}</h1>
        <ProblemNote error={error} />
      </>
    );
  if (value === undefined) return <Loading what={name} />;
  const { status } = value;
  const trouble = troubleOf(status);
  const condition = status.condition?.word ?? 'registered';
  const hasBmc = (value.spec as MachineSpec | undefined)?.bmc !== undefined;
  const missing = [...(cluster === undefined ? ['plan'] : []), ...(hasBmc ? [] : ['power'])];
  const tabs = TABS.filter(([key]) => !missing.includes(key));
  const tab = openTab(tabs);
  return (
    <>
      <header class="head">
        <h1>{name}</h1>
        <Badge tone={CONDITIONS[condition].tone}>{condition}</Badge>
        {status.since && <span class="dim">since {moment(status.since)}</span>}
        {cluster && (
          <span>
            in <Link to={['clusters', cluster]}>{cluster}</Link>
          </span>
        )}
        <MachineActions machine={value} cluster={cluster} done={reload} />
      </header>
      {trouble && <p class={`note ${trouble.tone}`}>{commands(trouble.text)}</p>}
      <Tabs label={`Views of ${name}`} tabs={tabs} />
      {tab === 'timeline' && <BootTimeline name={name} />}
      {tab === 'console' && <Consoles name={name} cluster={cluster} hasBmc={hasBmc} />}
      {tab === 'power' && <Power name={name} cluster={cluster} />}
      {tab === 'why' && <Why name={name} />}
      {tab === 'configuration' && <Configuration name={name} />}
      {tab === 'plan' && <Plan name={name} />}
      {tab === 'facts' && <MachineFacts machine={value} />}
      {tab === 'events' && <MachineEvents name={name} />}
    </>
  );
}

function Plan({ name }: { readonly name: string }) {
  const { value, error } = useResource('GET /v1/machines/:name/plan', { params: { name } }, ({ kind }) =>
    kind.startsWith('document.'),
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="the plan" />;
  return (
    <>
      <p class="dim">What its agent does, line by line. Contents of secret files are not shown.</p>
      <Scrolled label="Plan" text={value.plan} />
    </>
  );
}

function MachineFacts({ machine }: { readonly machine: Shown }) {
  const { status, metadata } = machine;
  const spec = machine.spec as MachineSpec | undefined;
  const { seen, agent, origin } = status;
  const labels = Object.entries(metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return (
    <div class="cards">
      <section class="card">
        <h2>Document</h2>
        {spec === undefined ? (
          <p class="dim">None: the machine was only seen.</p>
        ) : (
          <Facts
            facts={[
              ['Hardware addresses', spec.macs.join(', ')],
              ['Pool', spec.pool],
              ['Serial number', spec.serial],
              ['UUID', spec.uuid],
              ['Profile', status.profile ?? spec.profile],
              ['Fixed addresses', spec.addresses?.join(', ')],
              ['Labels', labels.join(', ')],
              [
                'Kept in',
                origin?.from === 'file' ? `${origin.at.file}, line ${origin.at.line}` : origin && 'the store',
              ],
              ['Edit', <Link to={['documents', 'Machine', metadata.name]}>show the document</Link>],
            ]}
          />
        )}
      </section>
      {spec && <LifeCard name={metadata.name} />}
      <section class="card">
        <h2>Seen on the network</h2>
        <Facts
          facts={[
            ['Manufacturer', seen?.manufacturer],
            ['Product', seen?.product],
            ['Serial number', seen?.serial],
            ['UUID', seen?.uuid],
            ['Asset tag', seen?.assetTag],
            ['Architecture', [seen?.arch, seen?.firmware].filter(Boolean).join(', ')],
            ['Hardware addresses', seen?.macs.join(', ')],
            ['Network', seen?.network],
            ['Address', status.lease ?? seen?.address],
            ['First seen', status.firstSeen && moment(status.firstSeen)],
            ['Last seen', status.lastSeen && moment(status.lastSeen)],
            ['Boots without success', status.bootsWithoutReady],
          ]}
        />
      </section>
      <Inventory name={metadata.name} />
      <section class="card">
        <h2>Agent and trust</h2>
        <Facts
          facts={[
            ['Agent', agent && `version ${agent.version}, since ${moment(agent.since)}`],
            ['Reached step', agent?.step],
            ['Waits for', agent?.hold?.text],
            ['Boot disk', agent?.bootDisk?.text],
            ['Must show before its certificate', status.trust && JSON.stringify(status.trust)],
            ['TPM', status.tpm && 'recorded: only this TPM gets its certificates'],
          ]}
        />
      </section>
      {status.logTail && (
        <section class="card">
          <h2>Log of the boot that failed</h2>
          <p class="dim">The machine sent it; nobody checked it.</p>
          <Scrolled label="Log" text={status.logTail} />
        </section>
      )}
    </div>
  );
}

function MachineEvents({ name }: { readonly name: string }) {
  const { value, error } = useResource(
    'GET /v1/events',
    { query: { subject: name } },
    ({ subject }) => subject === name,
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="events" />;
  if (value.items.length === 0) return <Empty title="Nothing happened yet" />;
  return (
    <div class="tall">
      <EventRows events={value.items.toReversed()} />
    </div>
  );
}
