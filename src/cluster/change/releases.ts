/**
 * Keeps what founded clusters run: the release that their machines may have, and what agents report
 * of each machine. It is durable, so that a change is compared with what runs even when nobody has
 * polled since the boot host started.
 */
import { z } from 'zod';
import type { AgentFacts } from '../../agent/wire/facts.ts';
import type { Log } from '../../base/log.ts';
import { KEYS } from '../../store/keys.ts';
import { MAX_OPERATIONS, type Store } from '../../store/store.ts';
import { addressOf, type ClusterMachine } from '../model/resolved-cluster.ts';
import { sameRelease } from '../resolve/mixed.ts';
import {
  type Fixed,
  fixedOf,
  type Release,
  type Releases,
  type RunningMachine,
  releaseOf,
} from '../resolve/release.ts';

const texts = z.record(z.string(), z.string());

const release = z.strictObject({ version: z.string(), versions: texts, images: texts });

/** `release/CLUSTER` in the store. */
const releaseRecord = z.strictObject({
  v: z.literal(1),
  release,
  former: release.optional(),
  fixed: z.strictObject({
    services: z.array(z.string()),
    pods: z.array(z.string()),
    dnsDomain: z.string(),
    cni: z.string(),
    runtime: z.string(),
    etcdTopology: z.string(),
    endpoint: z.string(),
    virtualAddresses: z.array(z.string()),
  }),
});

/** `running/CLUSTER/MACHINE` in the store. */
const machineRecord = z.strictObject({
  v: z.literal(1),
  serves: z.boolean(),
  versions: texts,
  image: z.string().optional(),
  dataDisk: z.string().optional(),
  address: z.string().optional(),
  member: z.boolean().optional(),
  macs: z.array(z.string()).optional(),
});

interface Founded {
  readonly release: Release;
  readonly former?: Release;
  readonly fixed: Fixed;
}

/**
 * Reads the records. One that cannot be read counts as absent and is logged: the next poll of a
 * member writes it again.
 */
export async function openReleases({
  store,
  log,
}: {
  readonly store: Store;
  readonly log: Log;
}): Promise<Releases> {
  const founded = new Map<string, Founded>();
  const machines = new Map<string, Map<string, RunningMachine>>();

  const machinesOf = (cluster: string): Map<string, RunningMachine> => {
    const known = machines.get(cluster) ?? new Map<string, RunningMachine>();
    machines.set(cluster, known);
    return known;
  };

  for (const { key, value } of (await store.list(KEYS.release.prefix())).records) {
    const [cluster] = KEYS.release.parse(key) ?? [];
    const read = readJson(value, releaseRecord);
    if (cluster === undefined || read === undefined) log.warn({ key }, 'a stored record cannot be read');
    else {
      const { v: _, ...known } = read;
      founded.set(cluster, known as unknown as Founded);
    }
  }
  for (const { key, value } of (await store.list(KEYS.running.prefix())).records) {
    const [cluster, machine] = KEYS.running.parse(key) ?? [];
    const read = readJson(value, machineRecord);
    if (cluster === undefined || machine === undefined || read === undefined)
      log.warn({ key }, 'a stored record cannot be read');
    else {
      const { v: _, ...known } = read;
      machinesOf(cluster).set(machine, known as RunningMachine);
    }
  }

  const writeRelease = async (cluster: string, next: Founded): Promise<void> => {
    const put = JSON.stringify({ v: 1, ...next });
    const before = founded.get(cluster);
    if (before !== undefined && JSON.stringify({ v: 1, ...before }) === put) return;
    founded.set(cluster, next);
    await store.commit([{ key: KEYS.release.key(cluster), put }]);
  };

  const hear = async (cluster: string, machine: string, next: RunningMachine): Promise<void> => {
    const known = machinesOf(cluster);
    const put = JSON.stringify({ v: 1, ...next });
    const before = known.get(machine);
    if (before !== undefined && JSON.stringify({ v: 1, ...before }) === put) return;
    known.set(machine, next);
    await store.commit([{ key: KEYS.running.key(cluster, machine), put }]);
  };

  return {
    of(cluster) {
      const known = founded.get(cluster);
      return known && { ...known, machines: machinesOf(cluster) };
    },
    clusterOf: (machine) => [...founded.keys()].find((cluster) => machinesOf(cluster).has(machine)),

    async heard(resolved, machine, facts) {
      const { name } = resolved;
      await hear(name, machine.name, merged(machinesOf(name).get(machine.name), machine, facts));
      const before = founded.get(name);
      if (before === undefined) {
        if (machine.roles.includes('etcd'))
          await writeRelease(name, { release: releaseOf(resolved), fixed: fixedOf(resolved) });
      } else await writeRelease(name, { ...before, fixed: accepted(before.fixed, fixedOf(resolved)) });
    },

    async settle(cluster, release) {
      const before = founded.get(cluster);
      if (before === undefined || sameRelease(before.release, release)) return;
      await writeRelease(cluster, { ...before, former: before.release, release });
    },

    async forget(cluster, machine) {
      if (machinesOf(cluster).delete(machine))
        await store.commit([{ key: KEYS.running.key(cluster, machine), delete: true }]);
    },

    async reset(cluster) {
      const known = [...machinesOf(cluster).keys()];
      if (!founded.delete(cluster) && known.length === 0) return;
      machines.delete(cluster);
      const keys = [KEYS.release.key(cluster), ...known.map((one) => KEYS.running.key(cluster, one))];
      for (let from = 0; from < keys.length; from += MAX_OPERATIONS)
        await store.commit(keys.slice(from, from + MAX_OPERATIONS).map((key) => ({ key, delete: true })));
    },
  };
}

/**
 * What is known of a machine after a poll. A program that does not run now keeps its version: it is
 * what will run again.
 */
function merged(
  before: RunningMachine | undefined,
  machine: ClusterMachine,
  { runs, image, dataSelector, disk, inventory, etcd }: AgentFacts,
): RunningMachine {
  const { roles } = machine;
  const ofEtcd = roles.includes('etcd');
  const member = ofEtcd && (before?.member === true || etcd.wal === 'present');
  const macs = inventory?.cards.map(({ mac }) => mac) ?? before?.macs;
  const hasData = disk.state === 'ours' && disk.mounted;
  const dataDisk = hasData ? dataSelector : before?.dataDisk;
  const booted = image ?? before?.image;
  return {
    serves: roles.includes('control-plane') || ofEtcd,
    versions: { ...before?.versions, ...runs },
    ...(booted !== undefined && { image: booted }),
    ...(dataDisk !== undefined && { dataDisk }),
    // The other members of etcd know a member by the address that it was founded or added with.
    ...((member || !ofEtcd) && {
      address: (member && before?.member && before.address) || addressOf(machine),
    }),
    ...(member && { member }),
    ...(macs !== undefined && { macs }),
  };
}

/** The settings after a change that a person accepted; all others never change. */
const accepted = (was: Fixed, { services, pods, cni, endpoint, virtualAddresses }: Fixed): Fixed => ({
  ...was,
  services,
  pods,
  cni,
  endpoint,
  virtualAddresses,
});

function readJson<T>(text: string, schema: z.ZodType<T>): T | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
