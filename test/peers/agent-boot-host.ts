/**
 * A boot host with a cluster and its listener for agents on loopback; openssl and curl play the
 * machines.
 */
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { AGENT_BUNDLE, type AgentBundle } from '../../src/agent/scripts/bundle.ts';
import type { PlannedPoll } from '../../src/agent/serve/agent-api.ts';
import { openAgents } from '../../src/agent/serve/agents.ts';
import type { AgentSettings } from '../../src/agent/serve/layer.ts';
import { withSecrets } from '../../src/agent/serve/secret-plan.ts';
import type { AgentFacts } from '../../src/agent/wire/facts.ts';
import type { Plan } from '../../src/agent/wire/plan.ts';
import type { AgentIdentity, AgentPlanner } from '../../src/agent/wire/protocol.ts';
import { createRevisionClaims, type RevisionClaims } from '../../src/agent/wire/revision-claim.ts';
import type { ManualClock } from '../../src/base/clock.ts';
import type { Mac } from '../../src/base/mac.ts';
import { type ClusterAgents, createBuilds } from '../../src/cluster/change/agents/builds.ts';
import { agentUpgrade } from '../../src/cluster/change/agents/kind.ts';
import { type ChangeOrders, createChangeOrders } from '../../src/cluster/change/change-orders.ts';
import { type Changes, openChanges } from '../../src/cluster/change/changes.ts';
import { anyKind } from '../../src/cluster/change/kind.ts';
import { followClusters } from '../../src/cluster/resolve/resolved-clusters.ts';
import type { SecretUsers } from '../../src/machines/secret-users.ts';
import type { GivenSecrets } from '../../src/pki/given-secrets.ts';
import type { Pki } from '../../src/pki/pki.ts';
import { openSecrets } from '../../src/pki/secrets.ts';
import { newVaultKey, type Vault, vaultFrom } from '../../src/pki/vault.ts';
import type { ScriptAnswer } from '../../src/pxe/boot.ts';
import { NOBODY } from '../unit/agent/nobody.ts';
import { QUIET_CHANGES } from '../unit/cluster/quiet.ts';
import * as boot from '../unit/pxe/boot/world.ts';

export const CP1_MAC = '52:54:00:aa:00:11' as Mac;
export const CP2_MAC = '52:54:00:aa:00:12' as Mac;
/** The address from which curl sends its requests. */
export const LOOPBACK = '127.0.0.1';

export const CLUSTER = [
  boot.NETWORK,
  boot.IMAGE,
  boot.WORKER,
  boot.machine('cp1', [CP1_MAC], { profile: 'worker', addresses: ['10.77.0.11'] }),
  boot.machine('cp2', [CP2_MAC], { profile: 'worker', addresses: ['10.77.0.12'] }),
  boot.machine('alone', [boot.MAC3], { profile: 'worker' }),
  boot.document('Cluster', 'one', {
    kubernetes: { version: '1.36', endpoint: 'api.one.test', controlPlanes: ['cp1', 'cp2'] },
  }),
];

export interface Answer {
  readonly status: number;
  /** In lower case. */
  readonly headers: string;
  /** Status line and headers as they came. */
  readonly text: string;
  readonly body: Buffer;
}

export interface AgentBootHost extends boot.World {
  /** Which agents machines run, and the bundle that they shall run, which tests change. */
  readonly builds: ClusterAgents;
  readonly changes: ChangeOrders;
  bundle: AgentBundle;
  readonly agents: Awaited<ReturnType<typeof openAgents>>;
  readonly pki: Pki;
  /** What machines' claims to have seen a revision are checked with. */
  claims(): Promise<RevisionClaims>;
  /** Secrets that operators give; their lines are added to every plan. */
  readonly given: GivenSecrets;
  readonly directory: string;
  /** The planner's inputs, and its answers. */
  readonly asked: { identity: AgentIdentity; facts: AgentFacts }[];
  plan: Plan;
  /** Told about every poll that was answered with a plan. */
  planned: PlannedPoll;
  /** The plan that a machine with `delivery: inline` gets. */
  inline: (machine: string) => Promise<Plan>;
  /** The settings in the last rendered configuration, by machine. */
  readonly settings: Map<string, AgentSettings>;
  /** Boots a machine until its configuration is fetched; resolves to its ticket. */
  configured(mac: Mac, address?: string): Promise<{ session: string; ticket: string }>;
  /** Makes a new key and its request. */
  key(name: string): { readonly key: string; readonly csr: string };
  /** Runs curl with Muster's CA only. */
  curl(route: string, form: Readonly<Record<string, string>>, more?: readonly string[]): Promise<Answer>;
  redeem(of: { session: string; ticket: string }, csr: string): Promise<Answer>;
  /** Polls as the machine with this key and certificate. */
  poll(key: string, certificate: string, facts?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Reports that the machine shuts down. */
  leave(key: string, certificate: string, bootid: string): Promise<Answer>;
  again(): Promise<AgentBootHost>;
  close(): Promise<void>;
}

export const FACTS = {
  agent: '1',
  bootid: 'boot-1',
  machineid: 'f'.repeat(32),
  clock: '1700000000',
  disk: 'unused',
  wal: 'absent',
  etcd: 'down',
} as const;

const run = promisify(execFile);

export async function open(
  documents: readonly object[] = CLUSTER,
  kept: { base?: boot.World; vault?: Vault; clock?: ManualClock } = {},
): Promise<AgentBootHost> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-agents-'));
  const vault = kept.vault ?? vaultFrom(newVaultKey(), 'test');
  const settings = new Map<string, AgentSettings>();
  const state = {
    plan: { lines: [], pollSeconds: 5 } as Plan,
    planned: (() => {}) as PlannedPoll,
    bundle: AGENT_BUNDLE,
    inline: (async () => ({ lines: [], pollSeconds: 0 })) as AgentBootHost['inline'],
  };
  const asked: AgentBootHost['asked'] = [];
  let agents!: AgentBootHost['agents'];
  let pki!: Pki;
  let given!: GivenSecrets;
  let users!: SecretUsers;
  let builds!: ClusterAgents;
  let changes!: Changes;
  const base = await boot.world(kept.base ? [] : documents, {
    vault,
    ...(kept.clock && { clock: kept.clock }),
    ...(kept.base && {
      store: kept.base.store,
      clock: kept.base.clock,
      assets: kept.base.assets,
      leases: kept.base.leases,
    }),
    async agents(parts) {
      ({ pki, given, secretUsers: users } = parts);
      const clusters = followClusters(parts.catalog, parts.memberships);
      builds = createBuilds({
        ...{ roster: parts.roster, clusters, unsigned: undefined },
        get bundle() {
          return state.bundle;
        },
        get changes() {
          return changes;
        },
      });
      const kinds = [anyKind(agentUpgrade(builds))];
      changes = await openChanges({ ...QUIET_CHANGES, ...parts, clusters, kinds, settled: () => undefined });
      changes.start();
      agents = await openAgents({ ...parts, made: (of) => void settings.set(of.machine, of) });
      return agents;
    },
  });
  const planner: AgentPlanner = async (identity, facts) => {
    asked.push({ identity, facts });
    return state.plan;
  };
  await agents.serve({
    ...NOBODY,
    host: LOOPBACK,
    port: 0,
    planner: withSecrets(planner, {
      given,
      users,
      configuration: (machine) => base.boot.render(machine).merged,
    }),
    inline: (machine) => state.inline(machine),
    planned: (machine, poll) => state.planned(machine, poll),
    builds,
    addresses: () => ['10.77.0.1', LOOPBACK],
    keepsDataKey: () => true,
    // All machines of the test send from loopback.
    isAt: (machine, address) => base.boot.isAt(machine, address) || (!elsewhere && address === LOOPBACK),
    configuration: base.boot.configurationFiles,
    ticketed: (session) => {
      const facts = base.boot.ticketed(session);
      // All machines of the test send from loopback.
      return (
        facts && { ...facts, addresses: new Set([...facts.addresses, ...(elsewhere ? [] : [LOOPBACK])]) }
      );
    },
  });
  let elsewhere = false;
  const ca = path.join(directory, 'ca.crt');
  fs.writeFileSync(
    ca,
    [...(await pki.keysets('_muster')).values()]
      .map(({ trusted }) => trusted.map(({ certificate }) => certificate).join(''))
      .join(''),
  );
  let answers = 0;
  const curl: AgentBootHost['curl'] = async (route, form, more = []) => {
    const out = path.join(directory, `answer-${answers++}`);
    const fields = Object.entries(form).flatMap(([name, value]) => ['--data-urlencode', `${name}=${value}`]);
    const { stdout } = await run('curl', [
      ...['-q', '-sS', '--cacert', ca, '--capath', '/nonexistent', '-D', '-', '-o', out, '--max-time', '20'],
      ...more,
      ...fields,
      `https://${LOOPBACK}:${agents.port()}${route}`,
    ]);
    return {
      status: Number(/^HTTP\/1.1 (\d+)/m.exec(stdout)![1]),
      headers: stdout.toLowerCase(),
      text: stdout,
      body: fs.existsSync(out) ? fs.readFileSync(out) : Buffer.alloc(0),
    };
  };
  const close = async () => {
    await changes.close();
    await agents.close();
    base.boot.close();
    fs.rmSync(directory, { recursive: true, force: true });
  };
  return {
    ...base,
    agents,
    pki,
    claims: async () =>
      createRevisionClaims(await openSecrets({ store: base.store, vault }).key('revisions')),
    given,
    directory,
    asked,
    settings,
    builds,
    changes: createChangeOrders(changes),
    get bundle() {
      return state.bundle;
    },
    set bundle(bundle) {
      state.bundle = bundle;
    },
    get plan() {
      return state.plan;
    },
    set plan(plan) {
      state.plan = plan;
    },
    get planned() {
      return state.planned;
    },
    set planned(planned) {
      state.planned = planned;
    },
    get inline() {
      return state.inline;
    },
    set inline(inline) {
      state.inline = inline;
    },
    async configured(mac, address) {
      elsewhere = address !== undefined;
      if (address !== undefined) base.leases.set(mac, address);
      const answer: ScriptAnswer = await base.powerOn(mac);
      const session = answer.session!.id;
      const document = base.boot.config(session, 'user-data', {
        baseUrl: 'http://10.77.0.1:8080',
        peer: base.leases.get(mac)!,
      });
      if (!document.ok) throw new Error(document.why);
      const { ticket } = settings.get(answer.session!.machine)!;
      return { session, ticket: ticket! };
    },
    key(name) {
      const key = path.join(directory, `${name}.key`);
      execFileSync('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', key]);
      const csr = execFileSync('openssl', [
        'req',
        '-new',
        '-key',
        key,
        '-subj',
        '/CN=whatever/O=system:masters',
      ]);
      return { key, csr: String(csr) };
    },
    curl,
    redeem: ({ session, ticket }, csr) => curl('/agent/redeem', { session, ticket, csr }),
    async poll(key, certificate, facts = {}) {
      const file = path.join(directory, `cert-${answers++}.crt`);
      fs.writeFileSync(file, certificate);
      return curl('/agent/poll', { ...FACTS, ...facts }, ['--cert', file, '--key', key]);
    },
    async leave(key, certificate, bootid) {
      const file = path.join(directory, `cert-${answers++}.crt`);
      fs.writeFileSync(file, certificate);
      return curl('/agent/leave', { bootid }, ['--cert', file, '--key', key]);
    },
    async again() {
      await close();
      await base.roster.close();
      await base.catalog.close();
      return open(documents, { base, vault });
    },
    close,
  };
}
