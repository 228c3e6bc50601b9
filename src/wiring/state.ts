/** Opens what the server stores: its store, and everything that is read from the store at start. */
import { join } from 'node:path';
import { openAgents } from '../agent/serve/agents.ts';
import { createWitness } from '../agent/serve/witness.ts';
import { type ArtifactBook, openArtifactBook } from '../artifacts/book.ts';
import type { Clock } from '../base/clock.ts';
import type { MusterError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import { openSightings } from '../bmc/sightings.ts';
import type { ServeOptions } from '../cli/serve/options.ts';
import { openSnapshotFiles, type SnapshotFiles } from '../cluster/backup/snapshot-files.files.ts';
import { openReleases } from '../cluster/change/releases.ts';
import { openJoinTokens } from '../cluster/joining/tokens.ts';
import { createJudge } from '../cluster/judge/judge.ts';
import { judgeWith } from '../cluster/judge/late-check.ts';
import { openPrograms } from '../cluster/judge/programs.files.ts';
import { runByUnit } from '../cluster/judge/unit.socket.ts';
import { openAddons } from '../cluster/objects/addons/library.ts';
import { checkWith } from '../cluster/resolve/check-documents.ts';
import { createActing } from '../events/actor.ts';
import type { EventLog } from '../events/event.ts';
import { attachEventJournal } from '../events/journal.files.ts';
import { createEventLog } from '../events/log.ts';
import { PacketLimit } from '../events/packet-limit.ts';
import { logEvents } from '../events/to-log.ts';
import { openConsoles } from '../machines/console.files.ts';
import { followMemberships } from '../machines/membership.ts';
import { openRoster } from '../machines/roster.ts';
import { followSecretUsers } from '../machines/secret-users.ts';
import { openGivenSecrets } from '../pki/given-secrets.ts';
import { openPki } from '../pki/pki.ts';
import { openSecrets, type Secrets } from '../pki/secrets.ts';
import type { Vault } from '../pki/vault.ts';
import { type Assets, openAssets } from '../pxe/assets/assets.files.ts';
import { assetsOf } from '../pxe/assets/assets.ts';
import { writeOwnLoaders } from '../pxe/assets/loaders.files.ts';
import { readSpace, reserveOf, watchSpace } from '../pxe/assets/space.files.ts';
import { openLeaseBook } from '../pxe/dhcp/leases.ts';
import { openNames } from '../pxe/names/names.ts';
import { openCatalog } from '../resources/catalog.files.ts';
import type { LateCheck } from '../resources/catalog.ts';
import { secretCheck } from '../resources/check-secrets.ts';
import { PKI_PREFIX } from '../store/keys.ts';
import { openLife } from '../store/life.ts';
import type { Store } from '../store/store.ts';
import type { Common, Outside } from './common.ts';
import { openSecurity } from './security.ts';

export type State = Awaited<ReturnType<typeof openState>>;

/** How many events the server keeps in memory. */
const EVENTS = { perSubject: 200, subjects: 50_000 } as const;

/**
 * Opens everything below the state directory, in the order in which the parts need each other.
 *
 * @param closing Closes each part at the end, the last part first.
 * @param broken Called when the store can no longer work and the server has to end.
 * @throws {MusterError} when the store, the documents or the vault's key cannot be opened.
 */
export async function openState(
  options: ServeOptions,
  common: Common,
  closing: AsyncDisposableStack,
  broken: (error: MusterError) => void,
) {
  const { clock, log, metrics, outside } = common;
  const acting = createActing();
  const limit = new PacketLimit();
  const events = createEventLog({ clock, log, metrics, acting, limit, ...EVENTS });
  const journal = await attachEventJournal({
    events,
    directory: join(options.state, 'events'),
    log,
    clock,
    metrics,
  });
  closing.defer(() => journal.close());
  closing.defer(logEvents(events, log.unredacted));
  const loaderDirectories = [writeOwnLoaders(options), ...options.loaders];
  const assets = await openAssets({ directory: join(options.state, 'assets'), loaderDirectories, log });
  // A host that stands by fetches files too.
  const sharing = await outside.shareAssets(assets, { clock, log, events });
  closing.defer(() => sharing.close());
  /** Why the disk refused the last commit; undefined while commits succeed. */
  const disk: { failure: string | undefined } = { failure: undefined };
  const store = await outside.openStore({
    path: join(options.state, 'muster.db'),
    log,
    metrics,
    broken,
    failing: (cause) => {
      disk.failure = cause;
    },
  });
  closing.defer(() => store.close());
  // Asks whether they are free while the records are read.
  const held = outside.holdAddresses(options.bootAddresses, { clock, log });
  closing.defer(() => held.close());
  const vault = await openStartVault(options, outside, store, log, closing);
  const secrets = openSecrets({ store, vault });
  const security = await openSecurity(options.state, options.auditBytes, common, { events, secrets });
  closing.defer(() => security.close());
  const artifacts = await openArtifactBook(store);
  const checkLate = judging(options, artifacts, assets);
  const of = { store, vault, secrets, events, directory: options.config, checkLate };
  const records = await openRecords(common, of, closing);
  const { catalog, memberships, secretUsers, roster, life, pki } = records;
  outside.hosts.wants(() => [
    ...catalog.list('Image').flatMap(({ document }) => assetsOf(document.spec)),
    ...artifacts.users().keys(),
  ]);
  closing.defer(watchSpace({ directory: options.state, metrics, clock, log }));
  const snapshotFiles = await openSnapshots(options.state, vault, log);
  const addons = openAddons(assets.read);
  const consoles = await openConsoles({ state: options.state, roster, clock, log, metrics });
  const agents = await openAgents({
    consoles,
    life,
    standby: options.standby,
    witness: createWitness({ security, events, log }),
    store,
    pki,
    secrets,
    catalog,
    memberships,
    secretUsers,
    roster,
    events,
    ...{ clock, log, metrics, witnesses: clock },
  });
  const { leases, given } = records;
  const names = await openNames({
    ...{ store, catalog, leases, clock, log },
    secrets: given,
    exchange: outside.exchangeNames,
  });
  closing.defer(() => names.close());
  return {
    ...records,
    names,
    acting,
    events,
    journal,
    security,
    disk,
    held,
    store,
    assets,
    artifacts,
    addons,
    secrets,
    vault,
    agents,
    consoles,
    snapshotFiles,
  };
}

/** How long a change of documents waits for the programs of its Clusters. */
const JUDGED_WITHIN_MS = 5_000;

/**
 * Reads what the store has: documents, machines, leases, keys and tokens. Touches no files but
 * those of `directory`, the configuration directory.
 */
export async function openRecords(
  common: Pick<Common, 'metrics' | 'signal'> & { readonly clock: Clock; readonly log: Log },
  of: {
    readonly store: Store;
    readonly vault: Vault;
    readonly secrets: Secrets;
    readonly events: EventLog;
    readonly directory: string | undefined;
    /** The last check of changes; without it, documents need not even render. */
    readonly checkLate: LateCheck | undefined;
  },
  closing: AsyncDisposableStack,
) {
  const { clock, log, metrics, signal } = common;
  const { store, vault, secrets, events, directory, checkLate } = of;
  const life = await openLife({ store, clock, log });
  const given = await openGivenSecrets({ store, vault, secrets, clock, log });
  const releases = await openReleases({ store, log });
  const check = checkWith(releases);
  const checkSecrets = secretCheck((name, key) => given.value(name, key) !== undefined);
  const catalog = await openCatalog({
    ...(directory !== undefined && { directory }),
    ...{ store, events, log, clock, metrics, signal },
    ...(checkLate && {
      checkLate,
      checkConfig: (...changes) => [...check(...changes), ...checkSecrets(...changes)],
    }),
  });
  closing.defer(() => catalog.close());
  const memberships = followMemberships(catalog);
  closing.defer(() => memberships.close());
  const secretUsers = followSecretUsers(catalog, memberships);
  closing.defer(() => secretUsers.close());
  const leases = await openLeaseBook({ store, clock, events, metrics });
  const sightings = openSightings({ clock, metrics });
  const roster = await openRoster({ store, catalog, events, clock, log, metrics });
  closing.defer(() => roster.close());
  const pki = openPki({ store, vault, clock });
  const tokens = await openJoinTokens({ store, secrets, clock, events, log });
  return {
    ...{ life, given, releases, catalog, memberships, secretUsers },
    ...{ leases, sightings, roster, pki, tokens },
  };
}

/** Asks the programs that this boot host has about the values of Clusters. */
function judging({ state }: ServeOptions, book: ArtifactBook, assets: Assets): LateCheck {
  const program = openPrograms({ book, assets, directory: join(state, 'judged') });
  return judgeWith(createJudge({ program, run: runByUnit(), withinMs: JUDGED_WITHIN_MS }));
}

async function openStartVault(
  options: ServeOptions,
  outside: Pick<Outside, 'startVault'>,
  store: Pick<Store, 'list'>,
  log: Log,
  closing: AsyncDisposableStack,
): Promise<Vault> {
  const own = {
    file: options.vaultKey,
    credentialsDirectory: process.env.CREDENTIALS_DIRECTORY,
    state: options.state,
    sealed: (await store.list(PKI_PREFIX)).records.length > 0,
    warn: (text: string) => log.warn({}, text),
  };
  return outside.startVault(options.signer, own, closing);
}

/** Opens the snapshots of etcd, and seals their keys with the present vault key. */
async function openSnapshots(state: string, vault: Vault, log: Log): Promise<SnapshotFiles> {
  const files = await openSnapshotFiles({
    directory: join(state, 'snapshots'),
    vault,
    room: async () => {
      const space = await readSpace(state);
      return space.free - reserveOf(space);
    },
  });
  await files.rewrap().catch((err: unknown) => {
    log.warn({ err }, 'the keys of snapshots of etcd cannot be sealed with the present vault key');
  });
  return files;
}
