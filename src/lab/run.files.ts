/**
 * One run of a scenario, from an empty namespace to a result. Must be called inside the namespace
 * (namespace.files.ts).
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { load } from 'js-yaml';
import type { EventView } from '../api/times.ts';
import { systemClock } from '../base/clock.ts';
import { messageOf } from '../base/error-text.ts';
import { MusterError } from '../base/errors.ts';
import type { EtcdClient } from '../cluster/joining/user-credentials.ts';
import { startVirtualBmc } from './bmc/virtual-bmc.server.ts';
import { openClusters } from './clusters.ts';
import { verdictOf } from './expectations.ts';
import { withFacts } from './facts.ts';
import { type BuiltImage, buildImage } from './images.files.ts';
import { accelerator } from './kvm.files.ts';
import { type Box, diskFile, makeBox } from './machine.files.ts';
import { type BootHost, startBootHost } from './muster.files.ts';
import { hostProcess } from './namespace.files.ts';
import { type HostPage, passOn } from './page.socket.ts';
import { play } from './play.files.ts';
import { type Running, untilAborted } from './process.files.ts';
import { openRack, type Rack } from './rack.files.ts';
import { type LabResult, resultOf, resultText, stepLine } from './report.ts';
import { bootNic, diskOf, readScenario, type Scenario } from './scenario.ts';
import { capture, makeSegments, makeTaps, startDnsmasq, startRouter } from './segment.files.ts';
import type { Step } from './steps.ts';
import { addArtifacts, ofGivenVersion } from './supplies.files.ts';

interface LabOptions {
  /** The root directory of the checkout or of the installation. */
  readonly project: string;
  /** The directory in which images are built and kept; undefined for the default. */
  readonly imageCache: string | undefined;
  /**
   * How many machines may boot at the same time; undefined derives it from the number of
   * processors.
   */
  readonly parallel: number | undefined;
  /** Prints progress. */
  readonly say: (text: string) => void;
  /** Where the host's browsers reach the boot host's page; undefined: nowhere. */
  readonly page: HostPage | undefined;
  /** Whether everything is kept running at the end until the signal comes. */
  readonly keep: boolean;
  readonly signal: AbortSignal;
}

/**
 * Reads and checks a scenario.
 *
 * @throws {MusterError} E_UNREADABLE when the file cannot be read, E_YAML when it is not YAML,
 * E_SCHEMA when it is not a scenario.
 */
export async function loadScenario(file: string): Promise<Scenario> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new MusterError('E_UNREADABLE', `${file}: ${messageOf(cause)}`, { cause });
  }
  let value: unknown;
  try {
    value = load(text);
  } catch (cause) {
    throw new MusterError('E_YAML', `${file}: ${messageOf(cause)}`, { cause });
  }
  return readScenario(value, file);
}

/**
 * The environment variable with the directories of built images by name, set outside the namespace.
 */
const IMAGES = 'MUSTER_LAB_IMAGES';

/** The environment of the command inside the namespace, which tells it where the images are. */
export const settingsOf = (images: ReadonlyMap<string, BuiltImage>): Record<string, string> => ({
  [IMAGES]: JSON.stringify([...images]),
});

/**
 * The images of a scenario. Missing images are built outside the namespace, because a process
 * inside cannot reach a package mirror.
 *
 * @throws {MusterError} E_BUILD when a build fails.
 */
export async function prepareImages(
  scenario: Scenario,
  options: Pick<LabOptions, 'project' | 'imageCache' | 'say' | 'signal'>,
): Promise<ReadonlyMap<string, BuiltImage>> {
  const handed = process.env[IMAGES];
  if (handed !== undefined) return new Map(JSON.parse(handed) as [string, BuiltImage][]);
  const built = new Map<string, BuiltImage>();
  // The probe is always needed, because the check of KVM boots it.
  for (const name of new Set([...scenario.images, 'probe' as const]))
    built.set(
      name,
      await buildImage(name, {
        project: options.project,
        cache: options.imageCache,
        say: (line) => options.say(`${line}\n`),
        signal: options.signal,
      }),
    );
  return built;
}

/**
 * Runs the scenario. Failed expectations are in the result and are not thrown.
 *
 * @throws {MusterError} E_LAB_TOOL or E_LAB_SERVE when the rack itself cannot be built.
 */
export async function runScenario(asked: Scenario, options: LabOptions): Promise<LabResult> {
  const scenario = await ofGivenVersion(asked);
  const directory = join(options.project, '.cache/lab', scenario.name);
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const images = await prepareImages(scenario, options);
  const probe = images.get('probe')!;
  const diskSystem = { kernel: join(probe.directory, 'kernel'), initrd: join(probe.directory, 'initrd') };
  const accel = await accelerator({
    cacheFile: join(options.project, '.cache/lab/accelerator'),
    ...diskSystem,
  });
  const parallel = options.parallel ?? Math.max(2, Math.min(8, availableParallelism()));
  options.say(`${scenario.name}: ${scenario.about.trim()}\n`);
  options.say(
    `  ${scenario.machines.length} machines, ${accel === 'kvm' ? 'KVM' : `emulation, ${scenario.together ? scenario.machines.length : parallel} booting at a time`}; logs in ${directory}\n`,
  );

  const boxes = new Map<string, Box>();
  const stopping: Stop[] = [];
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), scenario.limit);
  const signal = AbortSignal.any([options.signal, limit.signal]);
  try {
    await startNetwork(scenario, { project: options.project, directory }, stopping);
    await makeBoxes(scenario, { directory, accel, boxes, diskSystem }, stopping);
    const before = new Map<string, string[]>();
    for (const name of untouched(scenario)) before.set(name, await boxes.get(name)!.diskHashes());

    let kept = false;
    const rack = openRack({
      boxes,
      machines: scenario.machines,
      parallel: scenario.together ? scenario.machines.length : parallel,
      patienceMs: scenario.patience,
      captureFile: join(directory, 'main.pcap'),
      // Further steps of the machines of a kept rack would move the link off the screen.
      onStep: (at, machine, step) => kept || options.say(stepLine(at, machine, step)),
      signal,
    });
    stopping.unshift(() => rack.close());
    await startBmcs(scenario, rack, stopping);
    const host = await startBootHost({
      project: options.project,
      directory,
      documents: withFacts(scenario.documents, [...scenario.expect, ...checksOf(scenario.steps)]),
      pagePort: options.page?.port,
      onEvent: (event) => rack.event(event),
    });
    stopping.unshift(() => host.stop());
    const page = options.page && (await showPage(options.page, host, stopping));
    if (page) options.say(page);
    await allTaken(host);
    await addImages(
      scenario.images.map((name) => images.get(name)!),
      host,
    );
    await addArtifacts(scenario, host, { project: options.project, say: options.say });
    const clusters = openClusters({
      clock: systemClock,
      credentials: (cluster) => etcdClient(host, cluster),
      opened: (cluster) => rack.clusterSeen(cluster),
      signal,
    });
    stopping.unshift(() => clusters.close());
    const verdicts = await play(scenario, { rack, host, clusters, say: options.say, signal });
    if (limit.signal.aborted)
      verdicts.push({
        text: `ends within ${scenario.limit / 1000} s`,
        ok: false,
        detail: 'the scenario was still running',
      });
    await settle(scenario, rack, host, boxes, { before, keep: options.keep });
    for (const expectation of scenario.expect)
      verdicts.push(verdictOf(expectation, rack.observed.get(expectation.machine)!));
    const result = resultOf(scenario.name, rack.seconds(), [...rack.observed.values()], verdicts);
    await writeFile(join(directory, 'result.json'), `${JSON.stringify(result, undefined, 2)}\n`);
    options.say(resultText(result, [...rack.observed.values()]));
    kept = options.keep;
    if (kept) await untilInterrupted(directory, page, options);
    return result;
  } finally {
    clearTimeout(timer);
    for (const stop of stopping) await stop().catch(() => {});
    for (const box of boxes.values()) await box.discard().catch(() => {});
    // The images are in the cache; a copy in every run's folder would fill the disk.
    await rm(join(directory, 'state/assets'), { recursive: true, force: true });
  }
}

/** A function that is called at the end of a run, in the order of the list. */
type Stop = () => Promise<unknown>;

/**
 * Makes the segments and starts the capture, the router and, if the scenario asks for it, dnsmasq.
 */
async function startNetwork(
  scenario: Scenario,
  places: { readonly project: string; readonly directory: string },
  stopping: Stop[],
): Promise<void> {
  const { project, directory } = places;
  await makeSegments(scenario);
  const background: Running[] = [];
  stopping.push(async () => {
    for (const one of background) await one.stop();
  });
  background.push(await capture(join(directory, 'main.pcap'), join(directory, 'tcpdump.log')));
  background.push(await startRouter(project, join(directory, 'router.log')));
  if (scenario.dnsmasq) background.push(await startDnsmasq(scenario, places));
}

/** Puts all machines of the scenario into `boxes`, switched off. */
async function makeBoxes(
  scenario: Scenario,
  places: Omit<Parameters<typeof makeBox>[1], 'taps' | 'copied'> & { readonly boxes: Map<string, Box> },
  stopping: Stop[],
): Promise<void> {
  const { boxes, ...rest } = places;
  for (const [number, machine] of scenario.machines.entries()) {
    const copied = machine.disks.map(({ copyOf, serial }) => {
      const found = copyOf === undefined ? undefined : diskOf(scenario, copyOf, serial);
      return found === undefined ? undefined : diskFile(rest.directory, copyOf!, found);
    });
    const box = await makeBox(machine, { ...rest, taps: await makeTaps(machine, number), copied });
    boxes.set(machine.name, box);
    stopping.push(() => box.powerOff());
  }
}

/** Starts the BMCs of the machines that have one. */
async function startBmcs({ machines }: Scenario, rack: Rack, stopping: Stop[]): Promise<void> {
  for (const { name, bmc, manufacturer, product, serial = '', uuid, nics } of machines) {
    if (!bmc) continue;
    const macs = nics.map(({ mac }) => mac);
    const identity = { manufacturer, product, serial, macs, ...(uuid !== undefined && { uuid }) };
    const started = await startVirtualBmc({ ...bmc, identity, answersSearches: true }, rack.driven(name));
    stopping.unshift(() => started.close());
  }
}

/**
 * Lets the host's browsers reach the page. Resolves with a text that has a one-time link, which is
 * secret.
 *
 * @throws {MusterError} E_LAB_SERVE when there is no link.
 */
async function showPage(page: HostPage, host: BootHost, stopping: Stop[]): Promise<string> {
  stopping.unshift(passOn(page, page.port));
  const { code, out, err } = await host.muster(['operator', 'add', 'lab', '--role', 'admin']);
  if (code !== 0) throw new MusterError('E_LAB_SERVE', `muster operator add: ${err.trim()}`);
  return `the page (the link works once and makes you its administrator; the certificate is Muster's own):\n  ${out.trim()}\n`;
}

async function untilInterrupted(
  directory: string,
  page: string | undefined,
  options: LabOptions,
): Promise<void> {
  const target = `$(pgrep -P ${hostProcess()})`;
  // nsenter starts in the root directory of the mount namespace, so the path is absolute.
  const muster = join(options.project, 'bin/muster');
  options.say(
    `kept: logs in ${directory}; look around with\n  nsenter --all --target ${target} ${muster} get machines\n${page ?? ''}Ctrl-C ends it\n`,
  );
  await untilAborted(options.signal);
}

/** Machines of which the scenario expects that their disks were not written to. */
const untouched = ({ expect, steps }: Scenario): ReadonlySet<string> =>
  new Set(
    [...expect, ...checksOf(steps)].flatMap(({ machine, disksUntouched }) =>
      disksUntouched ? [machine] : [],
    ),
  );

/** @throws {MusterError} E_LAB_SERVE while the cluster has no keys. */
async function etcdClient(host: BootHost, cluster: string): Promise<EtcdClient> {
  const words = ['cluster', 'etcd-client', cluster, '--user', 'lab', '-o', 'json'];
  const { code, out, err } = await host.muster(words);
  if (code !== 0) throw new MusterError('E_LAB_SERVE', `muster ${words.join(' ')}: ${err.trim()}`);
  return JSON.parse(out) as EtcdClient;
}

const checksOf = (steps: readonly Step[]) => steps.flatMap((step) => (step.check ? [step.check] : []));

/**
 * Adds images as an operator does, with `muster image add`.
 *
 * @throws {MusterError} E_LAB_SERVE when the command fails.
 */
async function addImages(images: readonly BuiltImage[], host: BootHost): Promise<void> {
  for (const image of images) {
    const { code, err } = await host.muster(['image', 'add', '--from', image.directory]);
    if (code !== 0)
      throw new MusterError('E_LAB_SERVE', `muster image add --from ${image.directory}: ${err.trim()}`);
  }
}

/**
 * Fails the run when the server refuses a document, because waits that need the document would
 * never end.
 *
 * @throws {MusterError} E_LAB_SERVE with the reason of the refusal.
 */
async function allTaken(host: BootHost): Promise<void> {
  const { out } = await host.muster(['events', '-o', 'json']);
  const refused = (JSON.parse(out) as EventView[]).find(({ kind }) => kind === 'document.invalid');
  if (refused)
    throw new MusterError('E_LAB_SERVE', `a document of the scenario is refused: ${refused.reason?.text}`);
}

/** Notes the leases, switches all machines off unless they are kept, and hashes the disks again. */
async function settle(
  scenario: Scenario,
  rack: Rack,
  host: BootHost,
  boxes: ReadonlyMap<string, Box>,
  { before, keep }: { readonly before: ReadonlyMap<string, string[]>; readonly keep: boolean },
): Promise<void> {
  const leases = await host.leases().catch(() => []);
  await rack.close();
  for (const machine of scenario.machines) {
    const seen = rack.observed.get(machine.name)!;
    const card = bootNic(machine)!.mac;
    const lease = leases.find(({ mac, state }) => mac === card && state !== 'offered');
    if (lease) seen.lease = lease.address;
    const box = boxes.get(machine.name)!;
    // With --keep the disks are read while the machine runs. Only QEMU writes to them.
    if (!keep) await box.powerOff();
    const hashes = before.get(machine.name);
    if (hashes === undefined) continue;
    const after = await box.diskHashes();
    seen.disks = after.map((hash, index) => ({ before: hashes[index]!, after: hash }));
  }
}
