/**
 * What a booting machine gets: two pure functions. {@link judge} says what its script will do
 * (boot, disk, hold) or that it is ignored; {@link decide} says what its DHCP answer is, given how
 * far its software can go. Unknown machines go the same way as known ones, up to a script that only
 * waits: so the reason stands on their console.
 */

import type { Mac } from '../../base/mac.ts';
import type { Reason } from '../../events/event.ts';
import type { Selection } from '../../machines/select.ts';
import type { NetworkSpec } from '../../resources/kinds.ts';
import type { BootClient, BootStage } from '../client.ts';
import { loaderFor, suits } from '../firmware/loaders.ts';
import { type BootDecision, type DecisionReason, REASONS, type ReasonCode } from './decision.ts';

/** After this many boots without a ready report between, the machine is held. */
export const BOOT_LIMIT = 5;

export function reason(code: ReasonCode, particulars?: string): DecisionReason {
  return { code, text: particulars === undefined ? REASONS[code] : `${REASONS[code]} ${particulars}` };
}

/** What is known of the machine that asks. */
export type Recognised =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'conflict'; readonly machines: readonly string[] }
  | {
      readonly kind: 'known';
      readonly selection: Selection;
      readonly bootsWithoutReady: number;
      /** Its agent was heard so lately that it cannot be the one that boots. */
      readonly alive?: boolean;
    };

/**
 * What the script's verdict needs beyond that. `undefined` means: not looked at (DHCP does not ask
 * for it).
 */
export interface Readiness {
  /** The machine's processor; undefined when it did not say. */
  readonly arch?: 'x86_64' | 'aarch64' | undefined;
  /** Of the profile's image: its processor, or why it cannot be booted. */
  readonly image?: { readonly arch: 'x86_64' | 'aarch64' } | { readonly missing: string } | undefined;
  /** Why the configuration does not render. */
  readonly configFault?: string | undefined;
  /** A loader that a document demands and that is not installed. */
  readonly loaderMissing?: string | undefined;
}

export type Verdict = Exclude<BootDecision, { kind: 'loader' }>;

/** What the machine's script does. Total and deterministic. */
export function judge(machine: Recognised, readiness: Readiness = {}): Verdict {
  const hold = (code: ReasonCode, particulars?: string): Verdict => ({
    kind: 'hold',
    reason: reason(code, particulars),
  });
  if (machine.kind === 'unknown') return hold('unknown_machine');
  if (machine.kind === 'conflict')
    return hold(
      'identity_conflict',
      machine.machines.length === 1
        ? `It has UUID and serial of ${machine.machines[0]}, but none of the addresses known of it.`
        : `They are ${machine.machines.join(', ')}.`,
    );
  const { selection } = machine;
  if (selection.kind === 'none') return hold('no_profile');
  if (selection.kind === 'missing') return hold('profile_missing', `It is "${selection.profile}".`);
  const { profile } = selection;
  const boot = profile.spec.boot ?? 'image';
  if (boot === 'ignore') return { kind: 'ignore', reason: reason('profile_ignores', `(${profile.name})`) };
  if (machine.alive) return hold('alive');
  if (boot === 'hold') return hold('profile_holds', `(${profile.name})`);
  if (boot === 'disk') return { kind: 'disk', reason: reason('profile_disk', `(${profile.name})`) };
  if (machine.bootsWithoutReady >= BOOT_LIMIT)
    return hold('boot_loop', `(${machine.bootsWithoutReady} boots)`);
  const image = profile.spec.image;
  if (image === undefined) return hold('image_missing', `Profile "${profile.name}" names no image.`);
  if (readiness.image !== undefined) {
    if ('missing' in readiness.image) return hold('image_missing', readiness.image.missing);
    if (readiness.arch !== undefined && readiness.arch !== readiness.image.arch)
      return hold('arch_mismatch', `(image ${image}: ${readiness.image.arch}, machine: ${readiness.arch})`);
  }
  if (readiness.loaderMissing !== undefined)
    return hold('loader_missing', `It is "${readiness.loaderMissing}".`);
  if (readiness.configFault !== undefined) return hold('config_invalid', readiness.configFault);
  return { kind: 'script', profile: profile.name, image, reason: reason('boots_profile') };
}

/** What DHCP's decision looks at. */
export interface BootFacts {
  readonly stage: BootStage;
  readonly archCode?: number | undefined;
  readonly family?: BootClient['family'];
  readonly mode: NetworkSpec['dhcp']['mode'];
  readonly verdict: Verdict;
  readonly installed: (loader: string) => boolean;
  /** `pxe.loader` of machine, vendor class or network. */
  readonly loaderOverride?: string | undefined;
  /**
   * In this session the loader was already handed out and has had time to run: what asks now may be
   * that loader.
   */
  readonly loaderRan: boolean;
}

/**
 * The DHCP decision: `loader` for firmware, the verdict itself (as a script's URL) for an iPXE that
 * can fetch scripts, `ignore` where no boot file helps. Loop-proof: in one session a loader is
 * handed to an iPXE at most once.
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
      return facts.verdict.kind === 'script'
        ? { ...facts.verdict, reason: reason('fetch_script') }
        : facts.verdict;
    }
  }
}

function load(facts: BootFacts, code: ReasonCode): BootDecision {
  const found = loaderFor(facts.archCode ?? supposedArch(facts), {
    installed: facts.installed,
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
 * Who names no architecture is what its kind of client was before there was option 93: a BIOS ROM;
 * a U-Boot may be anything.
 */
function supposedArch({ stage, family }: Pick<BootFacts, 'stage' | 'family'>): number | undefined {
  if (family !== undefined) return undefined;
  return stage === 'http' ? 16 : 0;
}

/** Whom a remedy is about. */
export interface Remedied {
  readonly subject: string;
  /** The subject is the name of a machine in the roster: only that can be accepted. */
  readonly recorded: boolean;
  readonly mac?: Mac | undefined;
}

/**
 * What ends the state that a reason names, as something to do; undefined when nothing has to be
 * done. A command in it can be run as it stands, PROFILE aside (and MAC, where it is not known).
 */
export function remedy(why: Reason, { subject, recorded, mac }: Remedied): string | undefined {
  switch (why.code as ReasonCode) {
    case 'unknown_machine':
    case 'no_profile':
      return recorded
        ? `muster machine accept ${subject} --profile PROFILE`
        : `muster machine add ${mac ?? 'MAC'} --profile PROFILE`;
    case 'alive':
      return `nothing if ${subject} is rebooting: it goes on within a minute; else somebody asks in its name (muster events ${subject})`;
    case 'boot_loop':
      return `muster machine accept ${subject}`;
    case 'address_mismatch':
      return `boot it by DHCP, or list its address under addresses in the Machine document ${subject}`;
    case 'profile_missing':
      return 'create the profile, or name another one in the Machine document';
    case 'image_missing':
      return 'muster image build debian or muster image add, then it goes on by itself';
    case 'profile_holds':
    case 'profile_ignores':
      return `change boot in the profile, or give ${subject} another profile`;
    case 'config_invalid':
      return `muster render ${subject} shows the fault; correct the document`;
    case 'identity_conflict':
      return `list this machine's addresses in one Machine document only (muster ${recorded || mac ? `explain ${recorded ? subject : mac}` : 'get machines'})`;
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
    case 'boots_profile':
    case 'chainload':
    case 'fetch_script':
    case 'not_a_boot_client':
    case 'profile_disk':
      return undefined;
  }
}

/**
 * How a client's loader file is named to it: bare for firmware by TFTP, a URL where bare names fail
 * or HTTP was asked for.
 */
export function loaderFile(
  client: Pick<BootClient, 'stage'>,
  loader: string,
  server: string,
  port: number,
): string {
  if (client.stage === 'http') return `http://${server}:${port}/loaders/${encodeURIComponent(loader)}`;
  // VirtualBox's iPXE does not put next-server and a bare name together (netboot-protocols §C.22).
  if (client.stage === 'ipxe' || client.stage === 'ipxe-tftp') return `tftp://${server}/${loader}`;
  return loader;
}
