/** Previews and looks of a rotation in this process, with machines whose evidence is complete. */
import type { Evidence, ListenerName } from '../src/agent/wire/evidence.ts';
import { probeName } from '../src/agent/wire/evidence.ts';
import type { AgentFacts } from '../src/agent/wire/facts.ts';
import { ManualClock } from '../src/base/clock.ts';
import { duration, type Millis } from '../src/base/duration.ts';
import { silentLog } from '../src/base/log.ts';
import { createChangeOrders } from '../src/cluster/change/change-orders.ts';
import { openChanges } from '../src/cluster/change/changes.ts';
import { anyKind } from '../src/cluster/change/kind.ts';
import { listenersOf } from '../src/cluster/change/rotation/evidence.ts';
import { rotationOrders } from '../src/cluster/change/rotation/prepare.ts';
import { rotation } from '../src/cluster/change/rotation/rotation.ts';
import type { FoundingStatus } from '../src/cluster/etcd/status.ts';
import { resolveCluster } from '../src/cluster/resolve/resolve.ts';
import { MEMBERS, orderOf } from '../src/lab/simulated/documents.files.ts';
import { openPki } from '../src/pki/pki.ts';
import { newVaultKey, vaultFrom } from '../src/pki/vault.ts';
import { openMemoryStore } from '../src/store/memory.ts';
import { QUIET_CHANGES } from '../test/unit/cluster/quiet.ts';

const NAME = 'rack';
const ALL = { kind: 'rotation', keysets: ['all'] };

/** A founded cluster with this many machines, whose keys can be rotated. */
export async function openRotations(machines: number) {
  const orders = Array.from({ length: machines }, (_, n) => orderOf(n));
  const { resolved, faults } = resolveCluster(
    NAME,
    {
      version: '1.36',
      endpoint: '10.92.0.250',
      networks: { machines: ['10.92.0.0/16'], pods: ['10.128.0.0/9'] },
      controlPlanes: orders.slice(0, MEMBERS).map(({ name }) => name),
      workers: orders.slice(MEMBERS).map(({ name }) => name),
    },
    orders.map(({ name, address }) => ({ name, addresses: [address] })),
  );
  if (resolved === undefined) throw new Error(faults.map(({ fault }) => fault.message).join('\n'));
  const [store, clock] = [openMemoryStore(), new ManualClock(Date.now() as Millis)];
  const pki = openPki({ store, clock, vault: vaultFrom(newVaultKey(), 'bench') });
  await pki.found(NAME);
  const clusters = { get: () => ({ resolved, faults: [] }) as never };
  const kubes = () => () => Promise.reject(new Error('no API server'));
  const storedValues = () => Promise.reject(new Error('no etcd'));
  const founding = async () => ({ record: { founded: { at: 0, by: 'cp1' } } }) as unknown as FoundingStatus;
  const kind = anyKind({
    ...rotation({ pki, clusters, clock, kubes, storedValues }),
    ...rotationOrders({ pki, clusters, founding, clock }),
  });
  const events = { record: () => {} } as never;
  const changes = await openChanges({
    ...{ ...QUIET_CHANGES, store, clock, log: silentLog, events, clusters, kinds: [kind] },
    settled: () => true,
  });
  const rotations = createChangeOrders(changes);
  return {
    /** Seconds of one preview. */
    async preview(): Promise<number> {
      const began = performance.now();
      const { steps } = await rotations.preview(NAME, ALL);
      if (steps.length === 0) throw new Error('the preview has no steps');
      return (performance.now() - began) / 1000;
    },
    /** Milliseconds of one look at the step in which every machine trusts both generations. */
    async look(): Promise<number> {
      await rotations.begin(NAME, { ...ALL, keysets: ['ca'] }, 'bench');
      await changes.look(NAME);
      clock.advance(duration('6s'));
      const ca = (await pki.keysets(NAME)).get('ca')!;
      const answers = new Map(ca.trusted.map(({ id }) => [probeName('ca', id), 'accepted' as const]));
      for (const { name, roles } of resolved.machines) {
        const listeners = new Map(listenersOf(roles).map((one: ListenerName) => [one, { answers }]));
        const evidence: Evidence = { listeners, programs: new Map(), tokens: new Map() };
        const since = clock.monotonic();
        changes.heard(NAME, name, { facts: { evidence } as AgentFacts, since, applied: true });
      }
      const began = performance.now();
      await changes.look(NAME);
      const took = performance.now() - began;
      const shown = Object.keys(changes.record(NAME)!.evidence).length;
      if (shown !== machines) throw new Error(`${shown} machines have shown evidence`);
      return took;
    },
    close: () => changes.close(),
  };
}
