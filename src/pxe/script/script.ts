/**
 * Writes iPXE scripts. Pure.
 *
 * Every command exists in the iPXE of 2019 that Debian 12 and QEMU's card ROMs have (git 36a4c85:
 * `chain`, `set`, `inc`, `iseq`, `isset`, `goto`, `sleep`, `echo`, `kernel`, `initrd`, `imgfree`,
 * `dhcp`, `boot`, `sanboot`, `reboot`, `cpuid`, `exit`; not `poweroff`, `params`, `time`). A line
 * that fails ends the script, so `||` follows every command that may fail, `sleep` included, which
 * Ctrl-C interrupts. Texts from documents and machines pass {@link say} or {@link
 * kernelCommandLine}.
 */
import type { Millis } from '../../base/duration.ts';
import type { Mac } from '../../base/mac.ts';
import type { Asset } from '../../resources/kinds.ts';
import { type KERNEL_ARGUMENTS, machinePath } from '../http/routes.ts';
import { say } from './console.ts';
import { kernelCommandLine } from './kernel-arguments.ts';

/**
 * Number of interfaces that a script sends. iPXE numbers them from net0; an absent one is empty.
 */
const ASKED_INTERFACES = 8;
/** Attempts to fetch a file. The pauses double from 1 s: about two minutes in all. */
const ATTEMPTS = 8;
/**
 * A held machine asks again after 5, 10, 20, 40, 40 … s, so a rack of held machines is little load.
 */
const HOLD_FIRST_SECONDS = 5;
const HOLD_LONGEST_SECONDS = 40;
/** A held machine reboots after this many requests without an answer (20 minutes). */
const HOLD_ATTEMPTS = 30;
/** How long a failure is shown on the console before the machine reboots. */
const FAILURE_SECONDS = 30;

/** Where a script that asks sends its requests. */
interface AskingBase {
  /** Without a slash at its end, e.g. `http://10.77.0.1:8080`. */
  readonly baseUrl: string;
  /** Public name of the boot session. */
  readonly boot: string;
}

/**
 * The settings that iPXE sends, by query parameter of the script route (`../http/asked.ts` reads
 * them). `netX` is the interface that booted. Addresses (`52-54-00-…`) and the UUID need no
 * encoding. iPXE encodes the texts that a vendor typed, but not `&` and `;` in them, so these come
 * last.
 */
const QUESTIONS: Readonly<Record<string, string>> = {
  mac: '${netX/mac:hexhyp}',
  macs: Array.from({ length: ASKED_INTERFACES }, (_, n) => `\${net${n}/mac:hexhyp}`).join(','),
  uuid: '${uuid}',
  arch: '${muster-arch}',
  platform: '${platform}',
  serial: '${serial:uristring}',
  manufacturer: '${manufacturer:uristring}',
  product: '${product:uristring}',
  asset: '${asset:uristring}',
};

/** The end of a script that cannot continue. */
const STARTING_OVER = [
  say(`this machine starts over in ${FAILURE_SECONDS} seconds`),
  `sleep ${FAILURE_SECONDS} ||`,
  'reboot ||',
  // An iPXE without `reboot`: after a non-zero exit the firmware tries its next boot entry (after
  // 0, some firmware opens its setup).
  'exit 1',
].join('\n');

/** Lines that print a failure, leave time to read it, and reboot. */
function startOver(label: string, what: string): string[] {
  return [`:${label}`, say(what), STARTING_OVER];
}

/**
 * Lines that try `command` {@link ATTEMPTS} times with doubling pauses, and then go to `failed`.
 * After success the script continues after these lines. `returns` is false for a command that
 * replaces the script when it succeeds.
 */
function retried(label: string, command: string, what: string, failed: string, returns = true): string[] {
  return [
    'set muster-try:int32 1',
    'set muster-pause:int32 1',
    `:${label}`,
    returns ? `${command} && goto ${label}-done ||` : `${command} ||`,
    // Not through say(), because the number is an iPXE setting.
    `echo Muster: attempt \${muster-try} of ${ATTEMPTS} failed: ${what} ||`,
    `iseq \${muster-try} ${ATTEMPTS} && goto ${failed} ||`,
    'inc muster-try ||',
    'sleep ${muster-pause} ||',
    'inc muster-pause ${muster-pause} ||',
    `goto ${label}`,
    ...(returns ? [`:${label}-done`] : []),
  ];
}

/**
 * A script that sends what iPXE knows about the machine to `url`, and runs the script that it gets.
 */
function asking(url: string, baseUrl: string): string {
  const query = Object.entries(QUESTIONS)
    .map(([key, setting]) => `${key}=${setting}`)
    .join('&');
  return [
    '#!ipxe',
    say(`asking ${baseUrl} what this machine boots`),
    // A BIOS build of iPXE says i386 on every processor.
    'set muster-arch ${buildarch}',
    'iseq ${buildarch} i386 && cpuid --ext 29 && set muster-arch x86_64 ||',
    // --replace: scripts that chain to each other for hours must not nest.
    ...retried(
      'ask',
      `chain --autofree --replace ${url}?${query}`,
      'no boot script from the server',
      'unanswered',
      false,
    ),
    ...startOver(
      'unanswered',
      `${baseUrl} gave no boot script; is muster serve running and this network known to it?`,
    ),
    '',
  ].join('\n');
}

/**
 * First script of a session: sends what iPXE knows about the machine to the session's script URL.
 */
export function startScript({ baseUrl, boot }: AskingBase): string {
  return asking(`${baseUrl}${machinePath('script', { boot })}`, baseUrl);
}

/**
 * As {@link startScript}, for a machine without a session, e.g. with an iPXE that was configured by
 * hand.
 */
export function entryScript(base: { readonly baseUrl: string }): string {
  return asking(`${base.baseUrl}${machinePath('anyScript')}`, base.baseUrl);
}

export interface BootScriptInput {
  /** Without a slash at its end, e.g. `http://10.77.0.1:8080`. */
  readonly baseUrl: string;
  /**
   * Id of the boot session. Only this script tells it: whoever has it may ask for the machine's
   * configuration and report for it, where the address that they come from allows that.
   */
  readonly session: string;
  /** The hardware address that boots. */
  readonly mac: Mac;
  /** Names of machine, profile and image, for the console. The discovery system has no profile. */
  readonly machine: string;
  readonly profile?: string;
  readonly image: string;
  readonly kernel: Asset;
  readonly initrds: readonly Asset[];
  readonly root?: Asset | undefined;
  /** The machine has a boot disk, from which the root image is mounted. */
  readonly bootDisk?: boolean;
  /**
   * The arguments of image, profile and rendered configuration, in this order. When two conflict,
   * kernels use the later one.
   */
  readonly kernelArguments: readonly string[];
  /** The server's wall-clock time; undefined while it is in doubt. */
  readonly time: Millis | undefined;
}

/** URL of an image's file. The name in it is for people. */
export function assetUrl(baseUrl: string, asset: Asset, fallbackName: string): string {
  return `${baseUrl}${machinePath('asset', { sha256: asset.sha256, name: asset.name ?? fallbackName })}`;
}

/**
 * The kernel arguments of a boot: Muster's, then those of image, profile and configuration. A
 * loader that knows its interface by a variable writes BOOTIF itself.
 */
export function bootArguments(
  { baseUrl, session, root, bootDisk = false, time, kernelArguments }: BootScriptInput,
  bootif: string | undefined,
): readonly string[] {
  const ours: Readonly<Record<keyof typeof KERNEL_ARGUMENTS, string | undefined>> = {
    'muster.url': `${baseUrl}${machinePath('report', { session }).replace(/\/report$/, '')}`,
    'muster.root': root && assetUrl(baseUrl, root, 'root'),
    'muster.root.sha256': root?.sha256,
    'muster.home': root && bootDisk ? 'boot' : undefined,
    'muster.time': time === undefined ? undefined : String(Math.floor(time / 1000)),
    BOOTIF: bootif,
  };
  return [
    ...Object.entries(ours).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`])),
    ...kernelArguments,
  ];
}

/**
 * The script that boots an image: fetches kernel and initrds by HTTP, each with retries, then
 * boots. Each initrd gets a name, repeated as `initrd=`, because a UEFI kernel opens them by name
 * through iPXE's file system.
 *
 * @throws {MusterError} E_KERNEL_ARGUMENT, see {@link kernelCommandLine}.
 */
export function bootScript(input: BootScriptInput): string {
  const { baseUrl } = input;
  const initrds = input.initrds.map((asset, index) => ({
    name: `initrd${index}.img`,
    url: assetUrl(baseUrl, asset, 'initrd'),
  }));
  const line = kernelCommandLine([
    ...initrds.map((initrd) => `initrd=${initrd.name}`),
    // iPXE fills in the interface that it booted from.
    ...bootArguments(input, undefined),
  ]);
  const kernel = `kernel --name vmlinuz ${assetUrl(baseUrl, input.kernel, 'kernel')} BOOTIF=01-\${netX/mac:hexhyp} ${line}`;
  return [
    '#!ipxe',
    say(`${input.machine} boots ${input.image}${input.profile === undefined ? '' : ` as ${input.profile}`}`),
    'imgfree ||',
    loading('kernel', 'the kernel does not load', kernel),
    ...initrds.map(({ name, url }, index) =>
      loading(`initrd${index}`, `${name} does not load`, `initrd --name ${name} ${url}`),
    ),
    'boot ||',
    ...startOver(
      'failed',
      `${input.machine} could not boot ${input.image}; see muster events ${input.machine}`,
    ),
    '',
  ].join('\n');
}

/** Placeholder for the command. No script contains it. */
const HERE = '\0';
/**
 * The text before and after the command, by label. Bounded by the number of labels: `kernel`, and
 * `initrdN` up to the longest list.
 */
const memoSurroundings = new Map<string, readonly string[]>();

/** {@link retried} as one text. The lines around the command are the same for all machines. */
function loading(label: string, what: string, command: string): string {
  let around = memoSurroundings.get(label);
  if (around === undefined) {
    around = retried(label, HERE, what, 'failed').join('\n').split(HERE);
    memoSurroundings.set(label, around);
  }
  return around.join(command);
}

export interface HoldScriptInput extends AskingBase {
  /** The name by which operators find the machine. */
  readonly machine: string;
  /** For example MAC, product and serial; shown with the name. */
  readonly identity: string;
  /** Why it is held. */
  readonly reason: string;
  /** The command or change that ends the hold. */
  readonly remedy: string;
  /** Seconds until the hold ends, if that is known. The machine asks for the first time then. */
  readonly againInSeconds?: number;
}

/**
 * The script of a held machine: prints which machine it is, why it waits and what ends that, waits,
 * and asks again. Before it asks, it renews its lease, because iPXE never renews one by itself, and
 * the address could go to another machine once the short lease is over.
 */
export function holdScript(input: HoldScriptInput): string {
  const start = `${input.baseUrl}${machinePath('start', { boot: input.boot })}`;
  return [
    '#!ipxe',
    'imgfree ||',
    say(`this machine is ${input.machine} (${input.identity})`),
    say(`it waits: ${input.reason}`),
    say(`to continue: ${input.remedy}`),
    ...(input.againInSeconds === undefined
      ? []
      : [
          `echo Muster: asking again in ${input.againInSeconds} seconds ||`,
          `sleep ${input.againInSeconds} ||`,
          'dhcp netX ||',
          `chain --autofree --replace ${start} ||`,
        ]),
    // A setting outlives the script, so the pause grows from one answer to the next.
    `isset \${muster-hold} || set muster-hold:int32 ${HOLD_FIRST_SECONDS}`,
    'set muster-try:int32 1',
    ':wait',
    'echo Muster: asking again in ${muster-hold} seconds ||',
    'sleep ${muster-hold} ||',
    `iseq \${muster-hold} ${HOLD_LONGEST_SECONDS} || inc muster-hold \${muster-hold} ||`,
    'dhcp netX ||',
    `chain --autofree --replace ${start} ||`,
    'echo Muster: no answer from the server (attempt ${muster-try}) ||',
    `iseq \${muster-try} ${HOLD_ATTEMPTS} && goto unanswered ||`,
    'inc muster-try ||',
    'goto wait',
    ...startOver('unanswered', `${input.baseUrl} no longer answers`),
    '',
  ].join('\n');
}

/**
 * The script that boots the machine's disk. BIOS: iPXE itself runs the first disk's boot sector,
 * because many ROMs reboot or return to the network when a boot ROM exits. UEFI: `exit 1`, so that
 * the firmware tries the next entry of its boot order. Exit status 0 counts as booted, and some
 * firmware then opens its setup (tinkerbell#984, netboot.xyz#1276). Chainloading a vendor's EFI
 * path fails with some vendors and with Secure Boot (foreman#9123, #10126).
 */
export function diskScript(input: { readonly machine: string; readonly reason: string }): string {
  return [
    '#!ipxe',
    say(`${input.machine} boots from its disk: ${input.reason}`),
    'iseq ${platform} efi && exit 1 ||',
    'sanboot --no-describe --drive 0x80 ||',
    'exit 1',
    '',
  ].join('\n');
}
