/**
 * What a booting machine gets. A decision is a value with a reason, which is logged, counted, shown
 * by `muster explain` and compared in tests.
 */
import type { Reason } from '../../events/event.ts';

/** All reasons of decisions, for `muster explain`, events and metrics. */
export const REASONS = {
  boots_profile: 'The machine has a profile and everything it needs is there.',
  chainload: 'The firmware needs a loader that can fetch scripts over HTTP.',
  fetch_script: 'The loader can fetch its script over HTTP.',
  not_a_boot_client: 'An ordinary DHCP client: it gets an address, no boot file.',
  unknown_machine: 'No document knows this machine.',
  discovers:
    'No document knows this machine: it boots the discovery system, which reports what the machine is made of and waits until it is accepted.',
  no_profile: 'The machine has no profile and no profile selects it.',
  no_inventory:
    'No profile selects the machine yet: one that selects by inventory may fit, and the machine has not reported its inventory.',
  profile_missing: 'The profile that the machine names does not exist.',
  image_missing: 'The image that the profile names does not exist or is not complete.',
  arch_unsupported: 'No loader is known for this architecture.',
  arch_mismatch: "The image is for another architecture than the machine's.",
  profile_holds: 'The profile says hold.',
  profile_ignores: 'The profile says ignore.',
  profile_disk: 'The profile says to boot from disk.',
  way_back:
    'The machine booted the image of its profile once, and its agent did not get through its plan. It starts from its boot disk what worked before.',
  installs:
    'The profile has its system on disk, and the machine has none yet: it boots the system that installs it.',
  installed: 'The system is installed on its disk.',
  home_unfit: 'Where the profile has its system, and its image, do not fit.',
  boot_loop:
    'The machine booted too often without ever reporting ready. `muster machine accept` resets the count.',
  quarantined: 'An operator put the machine in quarantine: it gets nothing.',
  wipes: 'The disks of the machine are to be wiped: it boots the discovery system, which does that.',
  tests: 'The parts of the machine are to be tested: it boots the discovery system, which does that.',
  rescues: 'An operator wants to look at the machine: it boots the discovery system once, with SSH.',
  not_in_use: 'An operator took the machine out of use.',
  loader_loop: 'The loader that the machine got asked for a loader again: it cannot fetch a script.',
  config_invalid: "The machine's configuration does not render.",
  identity_conflict: 'The identity fits several machines.',
  identity_contradicted:
    'The hardware address is that of a Machine document, but UUID and serial number are both not: the network card is in another machine, or the board was replaced.',
  alive: 'The machine is running: its agent was heard moments ago. A request in its name gets no boot.',
  address_mismatch: "The request came from an address that is not this machine's.",
  mac_unlisted:
    'The machine boots from a hardware address that its document does not list. UUID, serial and its other interfaces name it, but do not prove it.',
  network_off: 'DHCP is off on this network.',
  loader_missing: 'The loader for this architecture is not installed on the boot host.',
} as const;

export type ReasonCode = keyof typeof REASONS;

export interface DecisionReason extends Reason {
  readonly code: ReasonCode;
}

/**
 * `ignore`: no boot file. `loader`: a file from the loader directory. `script`: a boot script that
 * boots. `discovery`: one that boots the discovery system, on an unknown machine, for a wipe, a
 * test or a rescue.
 * `disk`: one that boots from disk. `hold`: a script that waits and asks again.
 */
export type BootDecision =
  | { readonly kind: 'ignore'; readonly reason: DecisionReason }
  | { readonly kind: 'loader'; readonly loader: string; readonly reason: DecisionReason }
  | {
      readonly kind: 'script';
      readonly profile: string;
      readonly image: string;
      readonly reason: DecisionReason;
    }
  | { readonly kind: 'discovery'; readonly image: string; readonly reason: DecisionReason }
  | { readonly kind: 'disk'; readonly reason: DecisionReason }
  | { readonly kind: 'hold'; readonly reason: DecisionReason };
