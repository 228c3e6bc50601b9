/**
 * Judges what was observed of a cluster: one finding per line, with a remedy for each fault. Pure.
 */
import { duration, spanText } from '../../base/duration.ts';
import { firstFew } from '../../base/first-few.ts';
import { leafOf } from '../../pki/hierarchy.ts';
import type { IssuedCertificate } from '../../pki/records.ts';
import { certificateView } from '../../pki/views.ts';
import { CLIENT, nodeOf, SERVING } from '../joining/decide.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { bad, type Finding, good } from './finding.ts';
import type { ApiSeen, ApiServerSeen, KubernetesSeen, NodeSeen, RequestSeen } from './observe.ts';
import { isGood, type Probed } from './probe.ts';
import {
  type Circumstances,
  type Ended,
  lastWords,
  restartedBy,
  SYSTEM,
  unlessRestarted,
  versionsOf,
} from './under-way.ts';

/**
 * A node's lease that is older than this is a fault. kubelet renews it every 10 s, and controllers
 * tolerate 40 s.
 */
const NODE_LEASE = duration('40s');
/**
 * A leader's lease that is older than this is a fault. The lease lasts 15 s, and then another
 * instance takes it over.
 */
const LEADER_LEASE = duration('30s');
/** A request for a certificate that waits longer than this is a fault; approvers take seconds. */
const CSR_WAITS = duration('2m');

/** What is known of a machine's agent. */
export interface MachineSeen {
  readonly name: string;
  /** Whether the agent was heard recently enough that its machine counts as running. */
  readonly heard: boolean;
  /** It counts as running because it was before this server started, and was not heard since. */
  readonly supposed?: boolean | undefined;
  /** Whether the agent was ever heard. */
  readonly known: boolean;
  /** Why its agent cannot work: it would be held at its boot, or waits for an approval. */
  readonly stopped?: { readonly code: string; readonly text: string } | undefined;
  readonly hold?: { readonly code: string; readonly text: string } | undefined;
  /** Why an operator put it in quarantine. */
  readonly quarantine?: { readonly text: string } | undefined;
  readonly alarm?: { readonly code: string; readonly text: string } | undefined;
}

/**
 * A finding for each machine that is not heard, held or in alarm, and one for all others together.
 */
export function judgeMachines(
  machines: readonly MachineSeen[],
  circumstances: Circumstances = {},
): readonly Finding[] {
  const found = machines.flatMap((one) => judgeMachine(one, circumstances));
  const faulty = new Set(found.map(({ subject }) => subject));
  const others = machines.filter(({ name }) => !faulty.has(name));
  const supposed = others.filter((one) => one.supposed);
  const well = others.length - supposed.length;
  const says = [
    ...(well > 0 ? [`${well} ${well === 1 ? 'is' : 'are'} heard, and none is held`] : []),
    ...(supposed.length > 0
      ? [`${firstFew(supposed.map(({ name }) => name))} not heard yet since the server started`]
      : []),
  ];
  return [...found, ...(says.length > 0 ? [good('machine', 'all others', says.join('; '))] : [])];
}

function judgeMachine(
  { name, heard, known, stopped, hold, alarm, quarantine }: MachineSeen,
  circumstances: Circumstances,
): readonly Finding[] {
  const explain = `muster explain ${name}`;
  if (quarantine)
    return [bad('machine', name, `in quarantine: ${quarantine.text}`, `muster machine release ${name}`)];
  if (alarm) return [bad('machine', name, `alarm ${alarm.code}: ${alarm.text}`, explain)];
  if (stopped && !heard)
    return [bad('machine', name, `not heard (${stopped.code}): ${stopped.text}`, explain)];
  if (!known) return [bad('machine', name, 'its agent has never been heard', `power it on; ${explain}`)];
  if (!heard) {
    const last = hold ? `; it was held before (${hold.code}): ${hold.text}` : '';
    const fix = `${hold ? `${explain}; if it has no power, ` : ''}power it on; muster events ${name} shows when it was heard last`;
    return [
      unlessRestarted(circumstances, SYSTEM, bad('machine', name, `its agent is not heard${last}`, fix)),
    ];
  }
  return hold ? [bad('machine', name, `held (${hold.code}): ${hold.text}`, explain)] : [];
}

/** The findings about API servers, nodes, leaders' leases and requests for certificates. */
export function judgeKubernetes(
  resolved: ResolvedCluster,
  seen: KubernetesSeen,
  circumstances: Circumstances = {},
): readonly Finding[] {
  const known = typeof seen.api === 'object';
  // The only control plane may restart.
  const restarts = seen.apiservers.every(
    ({ machine }) => restartedBy(circumstances, machine, 'kube-apiserver') !== undefined,
  );
  const unknown = `nothing is known of nodes and leases: ${typeof seen.api === 'string' ? seen.api : 'no API server is ready'}`;
  return [
    ...seen.apiservers.map((one) => judgeApiServer(resolved, one, circumstances)),
    ...(known ? judgeApi(resolved, seen.api as ApiSeen, circumstances) : []),
    ...(!known && restarts ? [good('node', resolved.name, unknown)] : []),
    ...(!known && !restarts ? [bad('node', resolved.name, unknown, 'see the lines of the API servers')] : []),
  ];
}

function judgeApiServer(
  resolved: ResolvedCluster,
  { machine, version = '', ready, says }: ApiServerSeen,
  circumstances: Circumstances,
): Finding {
  const expected = versionsOf(resolved, circumstances, machine, 'kube-apiserver');
  if (!ready) {
    const fix = `muster explain ${machine}; on it: crictl logs of kube-apiserver`;
    const words = lastWords(circumstances.ended?.(machine), 'kube-apiserver');
    const found = bad('apiserver', machine, `not ready: ${says ?? 'unknown'}${words}`, fix);
    return unlessRestarted(circumstances, 'kube-apiserver', found);
  }
  return expected.includes(version)
    ? good('apiserver', machine, `ready, ${version}`)
    : bad(
        'apiserver',
        machine,
        `ready, but ${version} instead of ${expected[0]}`,
        `muster cluster plan ${machine}`,
      );
}

function judgeApi(resolved: ResolvedCluster, api: ApiSeen, circumstances: Circumstances): readonly Finding[] {
  const expected = resolved.machines.filter(({ roles }) => roles.some((role) => role !== 'etcd'));
  const strangers = api.nodes.filter(({ name }) => !expected.some((one) => one.name === name));
  return [
    ...expected.map(({ name }) =>
      judgeNode(
        resolved,
        name,
        api.nodes.find((node) => node.name === name),
        circumstances,
      ),
    ),
    ...strangers.map(({ name }) =>
      circumstances.leaving?.has(name)
        ? good('node', name, 'it is being taken out of the cluster')
        : bad(
            'node',
            name,
            "it is not in the Cluster's document",
            `muster cluster remove-node ${resolved.name} ${name}, or kubectl delete node ${name}`,
          ),
    ),
    ...['kube-controller-manager', 'kube-scheduler'].map((name) => judgeLeader(api, name)),
    judgeRequests(resolved, api),
  ];
}

function judgeNode(
  resolved: ResolvedCluster,
  name: string,
  node: NodeSeen | undefined,
  circumstances: Circumstances,
): Finding {
  const { change, leaving } = circumstances;
  if (leaving?.has(name)) return good('node', name, 'it is being taken out of the cluster');
  const expected = versionsOf(resolved, circumstances, name, 'kubelet');
  const explain = `muster explain ${name}`;
  const words = nodeWords(circumstances.ended?.(name));
  if (!node) return bad('node', name, `it has not registered${words}`, explain);
  const away = (says: string) =>
    unlessRestarted(circumstances, 'kubelet', bad('node', name, `${says}${words}`, explain));
  if (!node.ready) return away(`not ready: ${node.says}`);
  if (node.leaseAge === undefined || node.leaseAge > NODE_LEASE)
    return away(`its lease was not renewed for ${ageOf(node.leaseAge)}`);
  if (!expected.includes(node.version))
    return bad(
      'node',
      name,
      `kubelet ${node.version} instead of ${expected[0]}`,
      `muster cluster plan ${name}`,
    );
  if (!node.cordoned) return good('node', name, `ready, ${node.version}`);
  return change !== undefined && node.cordonedBy === change.id
    ? good('node', name, `ready, ${node.version}, cordoned by the ${change.kind}, which takes it back`)
    : bad('node', name, 'ready, but cordoned', `kubectl uncordon ${name}`);
}

/** Programs without which no node is ready, what the others need first. */
const UNDER_NODES = ['containerd', 'crio', 'haproxy', 'kubelet'] as const;

const nodeWords = (ended: Ended | undefined): string => {
  const program = UNDER_NODES.find((one) => ended?.[one] !== undefined);
  return program === undefined ? '' : `; ${program} ended and wrote: ${ended![program]}`;
};

const ageOf = (age: number | undefined): string => (age === undefined ? 'ever' : spanText(age));

function judgeLeader({ leaders }: ApiSeen, name: string): Finding {
  const lease = leaders.find((one) => one.name === name);
  const fix = `on a control plane: crictl logs of ${name}`;
  if (!lease) return bad('lease', name, 'no control plane holds its lease', fix);
  return lease.age > LEADER_LEASE
    ? bad('lease', name, `${lease.holder} has not renewed it for ${spanText(lease.age)}`, fix)
    : good('lease', name, `held by ${lease.holder}`);
}

/**
 * Judges requests for certificates. Muster or kube-controller-manager decides requests of the
 * cluster's own machines; an operator decides all others.
 */
function judgeRequests(resolved: ResolvedCluster, { pending }: ApiSeen): Finding {
  const late = pending.filter(({ age }) => age > CSR_WAITS);
  const own = late.filter(
    ({ by, signer }) => nodeOf(resolved, by) !== undefined && (signer === SERVING || signer === CLIENT),
  );
  const others = late.filter((one) => !own.includes(one));
  const [first] = own;
  const [stranger] = others;
  const says = [countOf(own, "of the cluster's machines"), countOf(others, 'of others')].flat().join('; ');
  if (first) {
    const serving = first.signer === SERVING;
    const fix = serving
      ? 'Muster decides them within seconds: journalctl -u muster shows why it could not'
      : 'on a control plane: crictl logs of kube-controller-manager, which approves them';
    return bad('csr', resolved.name, says, fix);
  }
  if (stranger)
    return bad(
      'csr',
      resolved.name,
      says,
      `kubectl certificate approve ${stranger.name} if the request is right, otherwise deny it`,
    );
  return good('csr', resolved.name, `${pending.length} requests for certificates wait`);
}

const countOf = (requests: readonly RequestSeen[], whose: string): readonly string[] =>
  requests[0]
    ? [
        `${requests.length} requests for certificates ${whose} wait, the first ${requests[0].name} by ${requests[0].by}`,
      ]
    : [];

/**
 * Judges the certificates that machines use: the newest of each kind and machine. `issued`:
 * certificates of the cluster in the order of issue, and the agents' certificates in force.
 */
export function judgeCertificates(
  cluster: string,
  machines: ReadonlySet<string>,
  issued: readonly IssuedCertificate[],
  now: IssuedCertificate['notAfter'],
): readonly Finding[] {
  const newest = new Map<string, IssuedCertificate>();
  for (const one of issued) {
    const lasting = leafOf(one.leaf).roles.some((role) => role !== 'operator' && role !== 'boot-host');
    if (!machines.has(one.to) || !lasting || one.leaf === 'applier') continue;
    newest.set(`${one.to} ${one.leaf}`, one);
  }
  const all = [...newest.values()].toSorted((a, b) => a.notAfter - b.notAfter);
  const ending = all.filter((one) => certificateView(one, now).state !== 'valid');
  const [next] = all;
  if (ending.length === 0)
    return [
      good(
        'certificate',
        cluster,
        next
          ? `${all.length} are in force, the next expires in ${spanText(next.notAfter - now)}: ${next.leaf} of ${next.to}`
          : 'none was issued yet',
      ),
    ];
  return ending.map((one) =>
    bad(
      'certificate',
      one.to,
      `${one.leaf} ${datesText(one, now)}`,
      `its agent renews it: is ${one.to} heard? muster explain ${one.to}`,
    ),
  );
}

/** What is wrong with a certificate's dates. */
function datesText({ notBefore, notAfter }: IssuedCertificate, now: number): string {
  if (notBefore > now) return `is not yet valid: it begins in ${spanText(notBefore - now)}`;
  return notAfter <= now ? 'has expired' : `expires in ${spanText(notAfter - now)}`;
}

/** A finding for each probed node: whether DNS and a Service can be reached from its pods. */
export function judgeProbes(cluster: string, probes: readonly Probed[]): readonly Finding[] {
  if (probes.length === 0)
    return [bad('network', cluster, 'no node is ready to be probed', 'see the lines of the nodes')];
  return probes.map((one) => {
    if (isGood(one)) return good('network', one.node, 'DNS answers, and Services are reached');
    const { node, dns, service, says } = one;
    const what = says ?? `DNS: ${dns}; Services: ${service}`;
    return bad(
      'network',
      node,
      what,
      `kubectl -n kube-system get pods -o wide --field-selector spec.nodeName=${node}; another image for the probe: --probe-image`,
    );
  });
}
