/**
 * Decides what a booting machine gets, with two pure functions. {@link judge} decides what its
 * script does (boot, disk, hold), or that the machine is ignored. {@link decide} decides its DHCP
 * answer, given what its software can do. Unknown machines are led to a script as well, which only
 * waits and shows the reason on their console.
 */

import type { Mac } from '../../base/mac.ts';
import type { Reason } from '../../events/event.ts';
import type { Install, Life } from '../../machines/machine.ts';
import type { Recognition } from '../../machines/recognition.ts';
import type { Selection } from '../../machines/select.ts';
import type { NetworkSpec } from '../../resources/kinds.ts';
import type { BootClient, BootStage } from '../client.ts';
import { loaderFor, suits } from '../firmware/loaders.ts';
import { type BootDecision, type DecisionReason, REASONS, type ReasonCode } from './decision.ts';

/** A machine that booted this many times without reporting ready is held. */
export const BOOT_LIMIT = 5;

/** A reason from the table, with its particulars appended. */
export function reason(code: ReasonCode, particulars?: string): DecisionReason {
  return { code, text: particulars === undefined ? REASONS[code] : `${REASONS[code]} ${particulars}` };
}

/** Machines that the identity fits, or the one whose document contradicts it. */
export interface Conflict {
  readonly kind: 'conflict';
  readonly machines: readonly string[];
  readonly contradicted?: true;
}

/** The conflict that recognition found. */
export const conflictOf = ({
  matches,
  contradicted,
}: Extract<Recognition, { kind: 'conflict' }>): Conflict => ({
  kind: 'conflict',
  machines: matches.map(({ name }) => name).sort(),
  ...(contradicted && { contradicted }),
});

/** What is known about the machine that asks. */
export type Recognised =
  | {
      readonly kind: 'unknown';
      /** The Image that its network gives to unknown machines. */
      readonly discovery?: string | undefined;
      /** Discovery boots since it last asked from the discovery system. */
      readonly bootsWithoutWord?: number;
      /** The machine whose document has its serial number. */
      readonly serialOf?: string | undefined;
    }
  | Conflict
  | {
      readonly kind: 'known';
      readonly selection: Selection;
      readonly bootsWithoutReady: number;
      /** Why an operator put it in quarantine. */
      readonly quarantine?: string | undefined;
      /** It is not in use; absent: it is. */
      readonly life?: Life | undefined;
      /** The Image of the discovery system on its network. */
      readonly discovery?: string | undefined;
      /** How far the installation on its disk has come. */
      readonly install?: Install | undefined;
      /** It got this image once already, and its boot disk has one that worked. */
      readonly tried?: boolean;
      /** The machine's agent was heard so recently that the machine cannot be booting now. */
      readonly alive?: boolean;
    };

/**
 * Further facts for the verdict about a script. DHCP leaves them undefined: they are not checked.
 */
export interface Readiness {
  /** The machine's processor; undefined when it is not known. */
  readonly arch?: 'x86_64' | 'aarch64' | undefined;
  /** The processor of the profile's image, or why it cannot be booted. */
  readonly image?:
    | { readonly arch: 'x86_64' | 'aarch64'; readonly disk?: boolean }
    | { readonly missing: string }
    | undefined;
  /** Why the configuration does not render. */
  readonly configFault?: string | undefined;
  /** A loader that a document demands and that is not installed. */
  readonly loaderMissing?: string | undefined;
}

export type Verdict = Exclude<BootDecision, { kind: 'loader' }>;

const hold = (code: ReasonCode, particulars?: string): Verdict => ({
  kind: 'hold',
  reason: reason(code, particulars),
});

/** Decides what the machine's script does. */
export function judge(machine: Recognised, readiness: Readiness = {}): Verdict {
  if (machine.kind === 'unknown') return judgeUnknown(machine, readiness);
  if (machine.kind === 'conflict' && machine.contradicted)
    return hold('identity_contradicted', `The document is that of ${machine.machines.join(', ')}.`);
  if (machine.kind === 'conflict')
    return hold(
      'identity_conflict',
      machine.machines.length === 1
        ? `It has the UUID and serial of ${machine.machines[0]}, but none of its known addresses.`
        : `They are ${machine.machines.join(', ')}.`,
    );
  if (machine.quarantine !== undefined) return hold('quarantined', machine.quarantine);
  if (machine.life?.state === 'wiping') return judgeOrdered(machine, readiness, 'wipes');
  if (machine.life?.state === 'testing') return judgeOrdered(machine, readiness, 'tests');
  if (machine.life?.state === 'rescue') return judgeOrdered(machine, readiness, 'rescues');
  if (machine.life) return hold('not_in_use', `It is ${machine.life.state}: ${machine.life.text}`);
  const { selection } = machine;
  if (selection.kind === 'none')
    return selection.awaiting === undefined
      ? hold('no_profile')
      : hold('no_inventory', `(${selection.awaiting.join(', ')})`);
  if (selection.kind === 'missing') return hold('profile_missing', `It is "${selection.profile}".`);
  const { profile } = selection;
  const boot = profile.spec.boot ?? 'image';
  if (boot === 'ignore') return { kind: 'ignore', reason: reason('profile_ignores', `(${profile.name})`) };
  if (machine.alive) return hold('alive');
  if (boot === 'hold') return hold('profile_holds', `(${profile.name})`);
  if (boot === 'disk') return { kind: 'disk', reason: reason('profile_disk', `(${profile.name})`) };
  const onDisk = profile.spec.home === 'disk';
  const { state, disk } = machine.install ?? {};
  const fromDisk = (): Verdict => ({
    kind: 'disk',
    reason: reason('installed', `(${profile.name}, disk ${disk})`),
  });
  if (onDisk && state === 'installed') return fromDisk();
  if (machine.tried)
    return { kind: 'disk', reason: reason('way_back', `(${profile.spec.image}, ${profile.name})`) };
  if (machine.bootsWithoutReady >= BOOT_LIMIT)
    return hold('boot_loop', `(${machine.bootsWithoutReady} boots)`);
  if (onDisk && state === 'written') return fromDisk();
  const image = profile.spec.image;
  if (image === undefined) return hold('image_missing', `Profile "${profile.name}" names no image.`);
  if (readiness.image !== undefined) {
    if ('missing' in readiness.image) return hold('image_missing', readiness.image.missing);
    const { disk: ofDisk = false } = readiness.image;
    if (ofDisk !== onDisk)
      return hold(
        'home_unfit',
        onDisk
          ? `Profile "${profile.name}" has home: disk, and image "${image}" is not that of a disk.`
          : `Image "${image}" is that of a disk, and profile "${profile.name}" does not have home: disk.`,
      );
    if (readiness.arch !== undefined && readiness.arch !== readiness.image.arch)
      return hold('arch_mismatch', `(image ${image}: ${readiness.image.arch}, machine: ${readiness.arch})`);
  }
  if (readiness.loaderMissing !== undefined)
    return hold('loader_missing', `It is "${readiness.loaderMissing}".`);
  if (readiness.configFault !== undefined) return hold('config_invalid', readiness.configFault);
  return {
    kind: 'script',
    profile: profile.name,
    image,
    reason: reason(onDisk ? 'installs' : 'boots_profile'),
  };
}

/** A machine on a network that no document knows. */
export const unknownOn = (
  network: { readonly discovery?: string } | undefined,
  bootsWithoutWord = 0,
): Extract<Recognised, { kind: 'unknown' }> => ({
  kind: 'unknown',
  discovery: network?.discovery,
  bootsWithoutWord,
});

/** Decides what a machine gets that no document knows. */
function judgeUnknown(
  { discovery, bootsWithoutWord = 0, serialOf }: Extract<Recognised, { kind: 'unknown' }>,
  { image, arch }: Readiness,
): Verdict {
  const whose =
    serialOf === undefined
      ? undefined
      : `Its serial number is that of ${serialOf}, whose document lists none of its addresses.`;
  const unknown = (particulars = whose): Verdict => hold('unknown_machine', particulars);
  if (discovery === undefined) return unknown();
  if (bootsWithoutWord >= BOOT_LIMIT)
    return unknown(
      `It booted the discovery system ${bootsWithoutWord} times, which never asked for anything.`,
    );
  if (image !== undefined) {
    if ('missing' in image) return unknown(`It cannot boot the discovery system: ${image.missing}`);
    if (arch !== undefined && arch !== image.arch)
      return unknown(`The discovery system is for ${image.arch}, the machine is ${arch}.`);
  }
  return { kind: 'discovery', image: discovery, reason: reason('discovers') };
}

/** Decides what a machine gets that is ordered to boot the discovery system. */
function judgeOrdered(
  { discovery, bootsWithoutReady, alive }: Extract<Recognised, { kind: 'known' }>,
  { image, arch }: Readiness,
  code: 'wipes' | 'tests' | 'rescues',
): Verdict {
  if (alive) return hold('alive');
  if (discovery === undefined) return hold('not_in_use', `${REASONS[code]} Its network names none.`);
  if (bootsWithoutReady >= BOOT_LIMIT) return hold('boot_loop', `(${bootsWithoutReady} boots)`);
  if (image !== undefined) {
    if ('missing' in image) return hold('image_missing', image.missing);
    if (arch !== undefined && arch !== image.arch)
      return hold('arch_mismatch', `(image ${discovery}: ${image.arch}, machine: ${arch})`);
  }
  return { kind: 'discovery', image: discovery, reason: reason(code) };
}

/** What the DHCP decision depends on. */
export interface BootFacts {
  readonly stage: BootStage;
  readonly archCode?: number | undefined;
  readonly family?: BootClient['family'];
  readonly mode: NetworkSpec['dhcp']['mode'];
  readonly verdict: Verdict;
  readonly installed: (loader: string) => boolean;
  /** `pxe.loader` of machine, vendor class or network. */
  readonly loaderOverride?: string | undefined;
  /** This session's loader has had time to run, so the client may be that loader. */
  readonly loaderRan: boolean;
}

/**
 * Decides the DHCP answer: `loader` for firmware; the verdict (as a script's URL) for an iPXE that
 * can fetch scripts; `ignore` where no boot file helps. It cannot loop, because an iPXE gets a
 * loader at most once in a session.
 *
 * @example
 * decide({ stage: 'pxe', archCode: 7, mode: 'server', verdict, installed, loaderRan: false });
 * // { kind: 'loader', loader: 'ipxe.efi', reason: { code: 'chainload', text: … } }
 */
export function decide(asked: BootFacts): BootDecision {
  const { loaderOverride } = asked;
  const fits = loaderOverride === undefined || suits(loaderOverride, asked.archCode ?? supposedArch(asked));
  const facts = fits ? asked : { ...asked, loaderOverride: undefined };
  const ignore = (code: ReasonCode, particulars?: string): BootDecision => ({
    kind: 'ignore',
    reason: reason(code, particulars),
  });
  if (facts.stage === 'none') return ignore('not_a_boot_client');
  if (facts.mode === 'off') return ignore('network_off');
  if (facts.verdict.kind === 'ignore') return facts.verdict;
  switch (facts.stage) {
    case 'pxe':
    case 'http':
      return load(facts, 'chainload');
    case 'ipxe-tftp':
      return facts.loaderRan ? ignore('loader_loop') : load(facts, 'chainload');
    case 'ipxe': {
      if (facts.loaderOverride !== undefined && !facts.loaderRan) {
        const decision = load(facts, 'chainload');
        if (decision.kind === 'loader') return decision;
      }
      return facts.verdict.kind === 'script' || facts.verdict.kind === 'discovery'
        ? { ...facts.verdict, reason: reason('fetch_script') }
        : facts.verdict;
    }
  }
}

function load(facts: BootFacts, code: ReasonCode): BootDecision {
  const found = loaderFor(facts.archCode ?? supposedArch(facts), {
    installed: facts.installed,
    leaves: facts.verdict.kind === 'disk',
    fromIpxe: facts.stage === 'ipxe' || facts.stage === 'ipxe-tftp',
    override: facts.loaderOverride,
  });
  if (found.ok) return { kind: 'loader', loader: found.loader, reason: reason(code) };
  const particulars =
    found.why === 'arch_unsupported'
      ? `(option 93: ${facts.archCode ?? 'none'})`
      : `(${found.wanted.join(' or ')})`;
  return { kind: 'ignore', reason: reason(found.why, particulars) };
}

/**
 * The option 93 code to assume for a client that sends none: x86 BIOS, or x64 UEFI for HTTP boot.
 * U-Boot and the Raspberry Pi are unknown.
 */
function supposedArch({ stage, family }: Pick<BootFacts, 'stage' | 'family'>): number | undefined {
  if (family !== undefined) return undefined;
  return stage === 'http' ? 16 : 0;
}

/** The machine that a remedy is for. */
interface Remedied {
  readonly subject: string;
  /** The subject is the name of a machine in the roster; only such a machine can be accepted. */
  readonly recorded: boolean;
  readonly mac?: Mac | undefined;
}

/**
 * What an operator does to end the state that a reason names; undefined when there is nothing to
 * do. Its commands can be run as written, except for PROFILE, and MAC where it is not known.
 */
export function remedy(why: Reason, { subject, recorded, mac }: Remedied): string | undefined {
  switch (why.code as ReasonCode) {
    case 'unknown_machine':
    case 'discovers':
    case 'no_profile':
      return recorded
        ? `muster machine accept ${subject} --profile PROFILE`
        : `muster machine add ${mac ?? 'MAC'} --profile PROFILE`;
    case 'no_inventory':
      return `add a Profile that selects ${subject} without inventory and boots an agent, which reports it, or muster machine accept ${subject} --profile PROFILE`;
    case 'alive':
      return `nothing if ${subject} is rebooting: it continues within a minute; otherwise something else uses its identity (muster events ${subject})`;
    case 'boot_loop':
      return `muster machine accept ${subject}`;
    case 'way_back':
      return `correct the image of its profile, or muster machine accept ${subject}, which tries it again`;
    case 'address_mismatch':
      return `boot it by DHCP, or list its address under addresses in the Machine document ${subject}`;
    case 'mac_unlisted':
      return `add ${mac ?? 'the address that it boots from'} to macs in the Machine document ${subject}`;
    case 'quarantined':
      return `muster machine release ${subject}, once you know that it is yours again`;
    case 'not_in_use':
      return `muster machine life ${subject} shows what may be ordered`;
    case 'profile_missing':
      return 'create the profile, or name another one in the Machine document';
    case 'image_missing':
      return 'muster image build debian or muster image add; it then continues by itself';
    case 'profile_holds':
    case 'profile_ignores':
      return `change boot in the profile, or give ${subject} another profile`;
    case 'config_invalid':
      return `muster render ${subject} shows the fault; correct the document`;
    case 'identity_conflict':
      return `list this machine's addresses in one Machine document only (muster ${recorded || mac ? `explain ${recorded ? subject : mac}` : 'get machines'})`;
    case 'identity_contradicted':
      return `if the board was replaced, correct uuid and serial in the Machine document, or leave them out; if the network card moved, take its address out of macs there (muster explain ${recorded ? subject : (mac ?? 'MAC')})`;
    case 'arch_mismatch':
      return 'give it a profile whose image is for its architecture';
    case 'loader_missing':
      return 'install the loader in the loader directory (Debian: package ipxe), then systemctl reload muster: it reads the directory again';
    case 'arch_unsupported':
      return 'name a loader that it can run with pxe.loader in its Machine document';
    case 'loader_loop':
      return 'install a loader with HTTP, or name another one with pxe.loader';
    case 'network_off':
      return 'set dhcp.mode of the Network document';
    case 'home_unfit':
      return 'correct home or image of the profile (muster image add NAME --disk FILE makes an image of a disk)';
    case 'rescues':
    case 'tests':
      return `muster machine call-off ${subject} ends that`;
    case 'boots_profile':
    case 'wipes':
    case 'installs':
    case 'installed':
    case 'chainload':
    case 'fetch_script':
    case 'not_a_boot_client':
    case 'profile_disk':
      return undefined;
  }
}

/**
 * The name under which a client gets its loader: a bare name for firmware that uses TFTP, a URL for
 * an iPXE and for HTTP boot.
 */
export function loaderFile(
  client: Pick<BootClient, 'stage'>,
  loader: string,
  server: string,
  port: number,
): string {
  if (client.stage === 'http') return `http://${server}:${port}/loaders/${encodeURIComponent(loader)}`;
  // VirtualBox's iPXE cannot boot from siaddr and a bare name (quirk ipxe-needs-url).
  if (client.stage === 'ipxe' || client.stage === 'ipxe-tftp') return `tftp://${server}/${loader}`;
  return loader;
}
