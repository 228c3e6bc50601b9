/**
 * iPXE scripts, as text. Pure.
 *
 * Every command here exists in the iPXE of 2019 that Debian 12 ships and QEMU's card ROMs carry
 * (git 36a4c85: `chain`, `set`, `inc`, `iseq`, `isset`, `goto`, `sleep`, `echo`, `kernel`,
 * `initrd`, `imgfree`, `dhcp`, `boot`, `sanboot`, `reboot`, `cpuid`, `exit`; not `poweroff`,
 * `params`, `time`). A line that fails ends a script at once, hence `||` after everything that may
 * fail, `sleep` included: Ctrl-C on the console interrupts it. What machines or people wrote comes
 * in only through {@link say} and {@link kernelCommandLine}.
 */
import type { Millis } from '../../base/duration.ts';
import type { Asset } from '../../resources/kinds.ts';
import { type KERNEL_ARGUMENTS, machinePath } from '../http/routes.ts';
import { say } from './console.ts';
import { kernelCommandLine } from './kernel-arguments.ts';

/**
 * Interfaces that a script asks after: iPXE numbers them from net0; an absent one is an empty text.
 */
const ASKED_INTERFACES = 8;
/**
 * Attempts at fetching something; the pauses between double from 1 s: 1+2+4+8+16+32+64 s, about two
 * minutes in all.
 */
const ATTEMPTS = 8;
/**
 * A held machine asks again after 5, 10, 20, 40, 40 … s: soon after the operator acts, and not
 * often for a whole rack.
 */
const HOLD_FIRST_SECONDS = 5;
const HOLD_LONGEST_SECONDS = 40;
/**
 * A held machine that gets no answer this often in a row (20 minutes) starts over from its
 * firmware.
 */
const HOLD_ATTEMPTS = 30;
/** How long a failure stays on the console before the machine starts over. */
const FAILURE_SECONDS = 30;

/**
 * Where a script's further requests go. `baseUrl` without a slash at its end, e.g.
 * `http://10.77.0.1:8080`.
 */
export interface ScriptBase {
  readonly baseUrl: string;
  /** The boot session's id. */
  readonly session: string;
}

/**
 * What iPXE is asked: keys are the query parameters of the script route (`asked.ts` reads them).
 * `netX` is the interface that booted. Addresses as `52-54-00-…` and the UUID need no encoding.
 * Texts that a vendor typed are URI-encoded by iPXE, though not `&` and `;`, which it takes for
 * parts of a query: so they come last, in this order.
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

/** How a script ends that cannot go on. */
const STARTING_OVER = [
  say(`this machine starts over in ${FAILURE_SECONDS} seconds`),
  `sleep ${FAILURE_SECONDS} ||`,
  'reboot ||',
  // no reboot in this iPXE: a non-zero exit lets the firmware try its next entry (0 lands some in
  // their setup)
  'exit 1',
].join('\n');

/**
 * The last resort of a script: say so, leave time to read it, start over from the firmware, where
 * all is fresh.
 */
function startOver(label: string, what: string): string[] {
  return [`:${label}`, say(what), STARTING_OVER];
}

/**
 * `command`, tried {@link ATTEMPTS} times with doubling pauses; then on to `failed`. Goes on at the
 * next line. Without `comesBack` the command that works replaces the script and the next line is
 * only for failures.
 */
function retried(label: string, command: string, what: string, failed: string, comesBack = true): string[] {
  return [
    'set muster-try:int32 1',
    'set muster-pause:int32 1',
    `:${label}`,
    comesBack ? `${command} && goto ${label}-done ||` : `${command} ||`,
    // written out, not through say(): the number is a setting
    `echo Muster: attempt \${muster-try} of ${ATTEMPTS} failed: ${what} ||`,
    `iseq \${muster-try} ${ATTEMPTS} && goto ${failed} ||`,
    'inc muster-try ||',
    'sleep ${muster-pause} ||',
    'inc muster-pause ${muster-pause} ||',
    `goto ${label}`,
    ...(comesBack ? [`:${label}-done`] : []),
  ];
}

function asking(url: string, baseUrl: string): string {
  const query = Object.entries(QUESTIONS)
    .map(([key, setting]) => `${key}=${setting}`)
    .join('&');
  return [
    '#!ipxe',
    say(`asking ${baseUrl} what this machine boots`),
    // a BIOS build of iPXE calls itself i386 on every processor
    'set muster-arch ${buildarch}',
    'iseq ${buildarch} i386 && cpuid --ext 29 && set muster-arch x86_64 ||',
    // --replace: scripts that call each other for hours must not nest
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
 * First script of a session: constant text; asks iPXE who it is and chains to the session's own
 * script.
 */
export function startScript(base: ScriptBase): string {
  return asking(`${base.baseUrl}${machinePath('script', { session: base.session })}`, base.baseUrl);
}

/**
 * As {@link startScript} for a machine that came without a session, e.g. from an iPXE that is
 * configured by hand.
 */
export function entryScript(base: { readonly baseUrl: string }): string {
  return asking(`${base.baseUrl}${machinePath('anyScript')}`, base.baseUrl);
}

export interface BootScriptInput extends ScriptBase {
  /** Names, for the console. */
  readonly machine: string;
  readonly profile: string;
  readonly image: string;
  readonly kernel: Asset;
  readonly initrds: readonly Asset[];
  readonly root?: Asset | undefined;
  /**
   * The image's, the profile's and the rendered configuration's, in this order; a later one wins
   * with the kernel.
   */
  readonly kernelArguments: readonly string[];
  /** The server's wall-clock time. */
  readonly time: Millis;
}

/** URL of an image's file. */
export function assetUrl(baseUrl: string, asset: Asset, fallbackName: string): string {
  return `${baseUrl}${machinePath('asset', { sha256: asset.sha256, name: asset.name ?? fallbackName })}`;
}

/**
 * The script that boots an image: kernel and initrds by HTTP, each retried by itself, then `boot`.
 * The initrds get names of our own, repeated as `initrd=`, because a UEFI kernel opens them by name
 * through iPXE's file system (and each must be there). Throws E_KERNEL_ARGUMENT ({@link
 * kernelCommandLine}).
 */
export function bootScript(input: BootScriptInput): string {
  const { baseUrl, session } = input;
  const initrds = input.initrds.map((asset, index) => ({
    name: `initrd${index}.img`,
    url: assetUrl(baseUrl, asset, 'initrd'),
  }));
  const sessionUrl = `${baseUrl}${machinePath('report', { session }).replace(/\/report$/, '')}`;
  const ours: Readonly<Record<keyof typeof KERNEL_ARGUMENTS, string | undefined>> = {
    'muster.url': sessionUrl,
    'muster.root': input.root && assetUrl(baseUrl, input.root, 'root'),
    'muster.root.sha256': input.root?.sha256,
    'muster.time': String(Math.floor(input.time / 1000)),
    // filled in by iPXE: the interface that it booted from
    BOOTIF: undefined,
  };
  const line = kernelCommandLine([
    ...initrds.map((initrd) => `initrd=${initrd.name}`),
    ...Object.entries(ours).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`])),
    ...input.kernelArguments,
  ]);
  const kernel = `kernel --name vmlinuz ${assetUrl(baseUrl, input.kernel, 'kernel')} BOOTIF=01-\${netX/mac:hexhyp} ${line}`;
  return [
    '#!ipxe',
    say(`${input.machine} boots ${input.image} as ${input.profile}`),
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

/** Stands for a command that is put in later; no script has it. */
const HERE = '\0';
const surroundings = new Map<string, readonly string[]>();

/**
 * {@link retried} as one text, on to `failed`. What is around the command is made once, for all
 * machines.
 */
function loading(label: string, what: string, command: string): string {
  let around = surroundings.get(label);
  if (around === undefined) {
    around = retried(label, HERE, what, 'failed').join('\n').split(HERE);
    surroundings.set(label, around);
  }
  return around.join(command);
}

export interface HoldScriptInput extends ScriptBase {
  /** The name under which operators find the machine. */
  readonly machine: string;
  /** Who it is, e.g. its MAC, product and serial: shown beside the name. */
  readonly identity: string;
  /** Why it is held. */
  readonly reason: string;
  /** The command that ends it. */
  readonly remedy: string;
  /** When it is known to be over: asked first after so long. */
  readonly againInSeconds?: number;
}

/**
 * Says on the console who the machine is, why it waits and what ends that; waits; asks again.
 * Before it asks it renews its address: iPXE never does by itself, and an address that a held
 * machine goes on using after its short lease could by then be another machine's.
 */
export function holdScript(input: HoldScriptInput): string {
  const start = `${input.baseUrl}${machinePath('start', { session: input.session })}`;
  return [
    '#!ipxe',
    'imgfree ||',
    say(`this machine is ${input.machine} (${input.identity})`),
    say(`it waits: ${input.reason}`),
    say(`to go on: ${input.remedy}`),
    ...(input.againInSeconds === undefined
      ? []
      : [
          `echo Muster: asking again in ${input.againInSeconds} seconds ||`,
          `sleep ${input.againInSeconds} ||`,
          'dhcp netX ||',
          `chain --autofree --replace ${start} ||`,
        ]),
    // a setting outlives the script: the pause grows from one answer to the next
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
    ...startOver('unanswered', `${input.baseUrl} does not answer any more`),
    '',
  ].join('\n');
}

/**
 * Leaves the machine to what is on its disk. BIOS: the first disk's boot sector through iPXE
 * itself, because many ROMs reboot or fall back to the network when a boot ROM returns; if that
 * fails, return. UEFI: `exit 1`, so that the firmware takes the next entry of its boot order; exit
 * status 0 counts as "booted" and lands some firmware in its setup (tinkerbell#984,
 * netboot.xyz#1276), and chainloading a vendor's EFI path from here breaks by vendor and Secure
 * Boot (foreman#9123, #10126).
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
