/** All clusters, and one cluster. */
import type { Shown } from '../../api/shown.ts';
import { CLUSTER_CONDITIONS } from '../../cluster/health/condition.ts';
import type { ClusterSpec } from '../../resources/kinds.ts';

import { place } from '../base/place.ts';
import { Change } from '../cluster/change.tsx';
import { Health, Members } from '../cluster/health.tsx';
import { ClusterOrders } from '../cluster/orders.tsx';
import { Snapshots } from '../cluster/snapshots.tsx';
import { allRows } from '../fleet/machines.ts';
import { Badge, Link } from '../parts/badge.tsx';
import { commands, Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { openTab, Tabs } from '../parts/tabs.tsx';
import { useResource } from '../parts/use.ts';

const aboutClusters = ({ subject, kind }: { readonly subject: string; readonly kind: string }): boolean =>
  subject.startsWith('Cluster/') || kind.startsWith('cluster.');

export function Clusters() {
  const [, name] = place.value.path;
  return name === undefined ? <AllClusters /> : <OneCluster name={name} />;
}

function AllClusters() {
  const { value, error } = useResource('GET /v1/:kind', { params: { kind: 'clusters' } }, aboutClusters);
  return (
    <>
      <header class="head">
        <h1>Clusters</h1>
      </header>
      <ProblemNote error={error} />
      {value === undefined && error === undefined && <Loading what="clusters" />}
      {value?.items.length === 0 && (
        <Empty title="There is no cluster yet">
          {commands('A Cluster document names the machines of one. `docs/first-cluster.md` shows the way.')}
        </Empty>
      )}
      <ul class="cards">
        {value?.items.map((cluster) => (
          <ClusterCard key={cluster.metadata.name} cluster={cluster} />
        ))}
      </ul>
    </>
  );
}

/** What is so of the cluster now; what is wrong, as its title. */
const HealthBadge = ({ health }: { readonly health: Shown['status']['health'] }) =>
  health ? (
    <span title={health.text ?? CLUSTER_CONDITIONS[health.word].about}>
      <Badge tone={CLUSTER_CONDITIONS[health.word].tone}>{health.word}</Badge>
    </span>
  ) : null;

function ClusterCard({ cluster: { metadata, spec, status } }: { readonly cluster: Shown }) {
  const { kubernetes } = (spec ?? {}) as ClusterSpec;
  const machines = allRows.value.filter((row) => row.cluster === metadata.name);
  const ready = machines.filter(({ condition }) => condition === 'ready').length;
  return (
    <li class="card">
      <h2>
        <Link to={['clusters', metadata.name]}>{metadata.name}</Link>
      </h2>
      <p>
        <HealthBadge health={status.health} />{' '}
        {kubernetes ? `Kubernetes ${kubernetes.version}` : 'without Kubernetes'}
      </p>
      <p class="dim">
        {kubernetes &&
          `${kubernetes.controlPlanes.length} control planes, ${kubernetes.workers?.length ?? 0} workers; `}
        {ready} of {machines.length} machines ready
      </p>
    </li>
  );
}

const TABS = [
  ['members', 'Members'],
  ['health', 'Health'],
  ['change', 'Change'],
  ['snapshots', 'Snapshots'],
] as const;

function OneCluster({ name }: { readonly name: string }) {
  const { value, error, reload } = useResource(
    'GET /v1/:kind/:name',
    { params: { kind: 'clusters', name } },
    aboutClusters,
  );
  if (error !== undefined)
    return (
      <>
        <h1>{name}</h1>
        <ProblemNote error={error} />
      </>
    );
  if (value === undefined) return <Loading what={name} />;
  const { kubernetes } = (value.spec ?? {}) as ClusterSpec;
  const tab = openTab(TABS);
  return (
    <>
      <header class="head">
        <h1>{name}</h1>
        <HealthBadge health={value.status.health} />
        {kubernetes && (
          <span class="dim">
            Kubernetes {kubernetes.version} at {kubernetes.endpoint}
          </span>
        )}
        <span class="push">
          <Link to={['keys', name]}>Keys</Link> · <Link to={['documents', 'Cluster', name]}>Document</Link>
        </span>
      </header>
      {kubernetes && <ClusterOrders cluster={name} version={kubernetes.version} done={reload} />}
      <Tabs label={`Views of ${name}`} tabs={TABS} />
      {tab === 'members' && <Members cluster={name} />}
      {tab === 'health' && <Health cluster={name} />}
      {tab === 'change' && (
        <>
          <Change cluster={name} />
          <Change cluster={name} of={`${name}.agents`} />
        </>
      )}
      {tab === 'snapshots' && <Snapshots cluster={name} />}
    </>
  );
}
