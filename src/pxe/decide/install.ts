/**
 * Answers a machine that installs a system on its disk (`home: disk`): which disk, what is written
 * there and in which order, and how far it has come. images/discovery/install.sh carries it out.
 *
 * A disk with data is written only after an operator released it by its serial number, or when this
 * installation began there: that is durable before the machine may write, and the machine continues
 * only on a disk that shows the traces of it.
 */
import { createHash } from 'node:crypto';
import { type DiskLayout, LAYOUT_FAULTS, layOut, readPieces } from '../../artifacts/disk-layout.ts';
import { setBounded } from '../../base/aged.ts';
import type { Millis } from '../../base/duration.ts';
import { plainAddress } from '../../base/ip.ts';
import type { Reason } from '../../events/event.ts';
import { pickInstallDisk } from '../../machines/data-disk.ts';
import { printable } from '../../machines/identity.ts';
import { type InventoryDisk, readInventory } from '../../machines/inventory.ts';
import type { Install } from '../../machines/machine.ts';
import type { Member } from '../../machines/roster.ts';
import { CONFIG_TIMEOUT, type LiveSession } from '../../machines/sessions.ts';
import { serialWord } from '../../resources/disk-spec.ts';
import { type DiskImage, isDiskImage } from '../assets/assets.ts';
import type { ConfigAsked, InstallAnswer, InstallAsked } from '../boot.ts';
import type { BootContext } from './boot-context.ts';
import { faultText } from './boot-script.ts';
import { configurationOf, speaksFor } from './machine-reports.ts';

/** The steps of an installation, in the order in which the machine carries them out. */
export const INSTALL_STEPS = ['pick', 'check', 'clear', 'write', 'verify', 'seed', 'first'] as const;
type InstallStep = (typeof INSTALL_STEPS)[number];
const STATES = ['begin', 'progress', 'end'] as const;

/** Why an installation does not go on, where the layout has not said it; with what ends it. */
const REFUSALS = {
  disk_unfit: 'No disk is the one that installDisk means.',
  disk_has_data: 'The disk has data that nobody has released.',
  disk_in_use: 'Something uses the disk.',
  disk_faulty: 'The disk does not give back what was written to it.',
  config_invalid: "The machine's configuration does not render.",
  install_failed: 'A step failed.',
} as const;
export type InstallRefusal = keyof typeof REFUSALS | (typeof LAYOUT_FAULTS)[number];
const isRefusal = (code: string): code is InstallRefusal =>
  Object.hasOwn(REFUSALS, code) || (LAYOUT_FAULTS as readonly string[]).includes(code);

/** How many layouts are kept; one that was dropped is made again. */
const MAX_LAYOUTS = 32;
/** Characters of what a machine says of a failure. */
const MAX_SAID = 300;
const MAX_LIST_OCTETS = 16 * 1024 * 1024;

interface Installing {
  readonly live: LiveSession;
  readonly member: Member;
  readonly image: DiskImage;
}

/** The disk that a session installs on. */
interface Target {
  readonly serial: string;
  readonly bytes: number;
  readonly sector: number;
}

export interface Installs {
  /** Takes what an installing machine says, and answers what it does next. */
  say(id: string, asked: InstallAsked): Promise<InstallAnswer>;
  /** The list of what is written, one extent a line; undefined for another session or address. */
  list(id: string, asked: ConfigAsked): Promise<string | undefined>;
  /** The octets of one extent. */
  extent(id: string, at: number, asked: ConfigAsked): Promise<Buffer | undefined>;
}

/** Makes the part of the boot service that installs. */
export const createInstalls = (context: BootContext): Installs => new BootInstalls(context);

class BootInstalls implements Installs {
  readonly #context: BootContext;
  readonly #targets = new WeakMap<LiveSession, Target>();
  readonly #layouts = new Map<string, DiskLayout>();

  constructor(context: BootContext) {
    this.#context = context;
  }

  say(id: string, asked: InstallAsked): Promise<InstallAnswer> {
    const of = this.#installing(id, asked.peer);
    if (of === undefined) return Promise.resolve({ do: 'gone' });
    const { roster, clock } = this.#context;
    roster.sessions.touch(of.live);
    roster.sessions.expect(of.live, (clock.monotonic() + CONFIG_TIMEOUT) as Millis);
    const [first = ''] = asked.text.split('\n', 1);
    const [name = '', state = '', ...rest] = first.split(' ');
    const said = printable(rest.join(' '), MAX_SAID);
    if (name === 'pick') return this.#pick(of, asked);
    if (name === 'failed') return this.#refuse(of, isRefusal(state) ? state : 'install_failed', said);
    if (!INSTALL_STEPS.some((one) => one === name) || !STATES.some((one) => one === state))
      return Promise.resolve({ do: 'unknown' });
    return this.#step(of, name as InstallStep, state, said);
  }

  async list(id: string, asked: ConfigAsked): Promise<string | undefined> {
    const found = await this.#current(id, asked);
    return found && listText(found.layout);
  }

  async extent(id: string, at: number, asked: ConfigAsked): Promise<Buffer | undefined> {
    const found = await this.#current(id, asked);
    const extent = found?.layout.extents.find((one) => one.at === at);
    if (found === undefined || extent === undefined) return undefined;
    const { layout, of } = found;
    return layout.made.get(at) ?? this.#context.readAsset(of.image.disk.sha256, at, extent.octets);
  }

  /** The machine that installs in this session, if the request comes from an address of it. */
  #installing(id: string, peer: string): Installing | undefined {
    const { roster, catalog } = this.#context;
    const live = roster.sessions.get(id);
    const member = live && roster.get(live.session.machine);
    const { quarantine, life } = member?.status ?? {};
    if (!live?.given || !member?.entry || quarantine !== undefined || life !== undefined) return undefined;
    if (!roster.sessions.isLive(live) || roster.sessions.current(member.name) !== live) return undefined;
    const image = catalog.get('Image', live.session.image ?? '')?.document.spec;
    if (!isDiskImage(image) || !speaksFor(this.#context, live, plainAddress(peer))) return undefined;
    return { live, member, image };
  }

  /** What is installed in this session, once the machine has named its disks. */
  async #current(id: string, asked: ConfigAsked) {
    const of = this.#installing(id, asked.peer);
    const target = of && this.#targets.get(of.live);
    const layout = of && target && (await this.#layout(of, target, asked.baseUrl));
    return layout && 'extents' in layout ? { of, layout } : undefined;
  }

  async #layout({ live, image }: Installing, target: Target, baseUrl: string) {
    const known = this.#layouts.get(live.session.id);
    if (known !== undefined) return known;
    const { readAsset, assets } = this.#context;
    const rendered = configurationOf(this.#context, live, baseUrl);
    if (rendered?.ok !== true)
      return { code: 'config_invalid' as const, text: rendered ? faultText(rendered.faults) : 'no boot' };
    const { disk, pieces } = image;
    const size = assets.find(disk.sha256)?.size;
    const list = await readAsset(pieces.sha256, 0, MAX_LIST_OCTETS);
    const hashes = list && readPieces(list.toString('latin1'));
    if (size === undefined || hashes === undefined)
      return {
        code: 'image_changed' as const,
        text: 'the boot host lacks the image or the list of its pieces',
      };
    const made = await layOut({
      size,
      pieces: hashes,
      read: async (at, octets) => (await readAsset(disk.sha256, at, octets)) ?? Buffer.alloc(0),
      disk: target,
      seed: rendered.value.files as Readonly<Record<string, string>>,
    });
    if ('extents' in made) setBounded(this.#layouts, live.session.id, made, MAX_LAYOUTS);
    return made;
  }

  /** Records a step. `why`: the installation does not go on. */
  #note({ member, live }: Installing, fields: Readonly<Record<string, string>>, why?: Reason): void {
    this.#context.events.record({
      kind: 'machine.install',
      subject: member.name,
      session: live.session.id,
      ...(why && { reason: why }),
      fields,
    });
  }

  async #refuse(of: Installing, code: InstallRefusal, text: string): Promise<InstallAnswer> {
    const { live, member } = of;
    const why = code in REFUSALS ? `${REFUSALS[code as keyof typeof REFUSALS]} ` : '';
    const reason = { code, text: `${why}${text[0]?.toUpperCase() ?? ''}${text.slice(1)}.` };
    if (member.status.reason?.text !== reason.text || !isRefused(member)) {
      this.#context.roster.move(member, 'failed', { session: live.session.id, reason });
      this.#note(of, { step: 'refused', state: 'end' }, reason);
      await this.#context.roster.commit([member], [live]);
    }
    return { do: 'wait', code, text: reason.text };
  }

  /** Chooses the disk of those that the machine has, and says what may become of it. */
  async #pick(of: Installing, { text, baseUrl }: InstallAsked): Promise<InstallAnswer> {
    const { live, member } = of;
    const { roster } = this.#context;
    const { install } = member.status;
    if (isWritten(install)) return { do: 'reboot' };
    const wanted = wantedDisk(this.#context, member, live);
    if (wanted === undefined)
      return this.#refuse(of, 'disk_unfit', 'no document has an installDisk for the machine');
    const choice = pickInstallDisk(readInventory(text)?.disks ?? [], wanted);
    if (!choice.ok) return this.#refuse(of, 'disk_unfit', choice.text);
    const { disk } = choice;
    const serial = serialWord(choice.serial);
    const target = { serial, bytes: disk.bytes, sector: sectorOf(text, disk) };
    this.#targets.set(live, target);
    this.#layouts.delete(live.session.id);
    const layout = await this.#layout(of, target, baseUrl);
    if (!('extents' in layout))
      return this.#refuse(of, layout.code, `${layout.text} (${disk.name}, serial ${serial})`);
    if (member.status.phase === 'booting') roster.move(member, 'kernel', { session: live.session.id });
    roster.sessions.mark(live, 'kernel');
    // A machine whose installation goes on does not boot in vain.
    roster.change(member, { bootsWithoutReady: 0 });
    if (!isRefused(member)) this.#note(of, { step: 'pick', state: 'end', disk: serial });
    roster.saveLater(live);
    const mode = modeOf(install, serial, of.image);
    return { do: 'disk', name: disk.name, serial, mode, sha256: hashOf(listText(layout)) };
  }

  /** Takes the report of a step. What permits to write is durable before the answer. */
  async #step(of: Installing, name: InstallStep, state: string, rest: string): Promise<InstallAnswer> {
    const { live, member, image } = of;
    const { roster, clock } = this.#context;
    const serial = this.#targets.get(live)?.serial;
    if (serial === undefined) return { do: 'again' };
    const { install } = member.status;
    if (isWritten(install)) return name === 'first' && state === 'end' ? { do: 'reboot' } : { do: 'again' };
    if (state !== 'progress' && !(name === 'check' && isRefused(member)))
      this.#note(of, { step: name, state, disk: serial, ...(rest && { found: rest }) });
    if (name === 'check') return { do: 'go' };
    const keep = async (next: Install): Promise<void> => {
      roster.change(member, { install: next });
      await roster.commit([member], [live]);
    };
    const begun = { at: clock.now(), image: image.disk.sha256, disk: serial };
    if (name === 'clear' && state === 'begin') {
      if (isRefused(member)) roster.move(member, 'kernel', { session: live.session.id });
      await keep({ ...begun, state: 'writing', ...(install?.released && { released: install.released }) });
      return { do: 'go' };
    }
    if (install?.state !== 'writing' || install.disk !== serial) return { do: 'again' };
    if (name === 'clear') {
      const { released: _, ...without } = install;
      await keep(without);
    } else if (name === 'first' && state === 'end') {
      await keep({ ...begun, state: 'written' });
      return { do: 'reboot' };
    } else roster.change(member, { install: { ...install, step: rest ? `${name} ${rest}` : name } });
    return { do: 'go' };
  }
}

const isWritten = (install: Install | undefined): boolean =>
  install?.state === 'written' || install?.state === 'installed';

/** Whether the disk may have data: it was released, or this installation has begun there. */
function modeOf(install: Install | undefined, serial: string, { disk }: DiskImage) {
  if (install?.released === serial) return 'released';
  const begun = install?.state === 'writing' && install.disk === serial && install.image === disk.sha256;
  return begun ? 'claimed' : 'blank';
}

/** Whether its last attempt was refused: it asks again every few seconds. */
const isRefused = ({ status }: Member): boolean => status.phase === 'failed';

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** One extent a line: where, how many octets, SHA-256, part. */
const listText = ({ extents }: DiskLayout): string =>
  extents.map(({ at, octets, sha256, part }) => `${at} ${octets} ${sha256} ${part}\n`).join('');

/** The size of the sectors of a disk, from the line `sector NAME OCTETS`. */
function sectorOf(text: string, { name }: InventoryDisk): number {
  const line = text.split('\n').find((one) => one.startsWith(`sector ${name} `));
  return Number(line?.split(' ')[2] ?? Number.NaN);
}

/** The disk that the documents mean. */
function wantedDisk({ catalog }: BootContext, member: Member, { session }: LiveSession) {
  const profile = catalog.get('Profile', session.profile ?? '')?.document.spec;
  return member.entry?.document.spec.installDisk ?? profile?.installDisk;
}
