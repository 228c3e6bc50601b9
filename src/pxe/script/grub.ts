/**
 * Writes scripts for GRUB, which shim starts where Secure Boot is on. Pure.
 *
 * They carry out the same decisions as the iPXE scripts of `script.ts`. Every command exists in
 * the signed network GRUB of Debian 13 (2.12), whose HTTP takes a port in `(http,ADDRESS:PORT)`,
 * which that of Debian 12 (2.06) does not. GRUB has no `||`: a command that fails is the condition
 * of an `if`.
 */
import { type Fault, MusterError } from '../../base/errors.ts';
import { machinePath } from '../http/routes.ts';
import { consoleText } from './console.ts';
import { assetUrl, type BootScriptInput, bootArguments, type HoldScriptInput } from './script.ts';

/** How long a held machine, or one that could not boot, waits before it starts over. */
const PAUSE_SECONDS = 30;

/** A word that GRUB takes as it is. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
/** Muster's words on the machine's console. */
const say = (text: string): string => `echo ${quoted(`Muster: ${consoleText(text)}`)}`;
/** `http://10.77.0.1:8080/x` as GRUB names it. */
const grubPath = (url: string): string => quoted(url.replace(/^http:\/\/([^/]+)/, '(http,$1)'));

const startingOver = [
  say(`this machine starts over in ${PAUSE_SECONDS} seconds`),
  `sleep ${PAUSE_SECONDS}`,
  'reboot',
  '',
];

/** What GRUB loads first by TFTP: it asks for the machine's own script. */
export function grubConfig(httpPort: number): string {
  const path = machinePath('grubScript');
  return [
    `configfile "(http,$net_default_server:${httpPort})${path}?mac=$net_default_mac&arch=$grub_cpu&platform=efi"`,
    'echo "Muster: $net_default_server gave no boot script; is this network known to muster serve?"',
    ...startingOver,
  ].join('\n');
}

/** The name under which GRUB asks for {@link grubConfig}. */
export const GRUB_CONFIG = 'grub.cfg';

/** What could not be loaded. `kernel`: GRUB has it checked by shim before it accepts it. */
export const LOADED_BY_GRUB = ['kernel', 'initrd'] as const;
export type LoadedByGrub = (typeof LOADED_BY_GRUB)[number];

/**
 * The script that boots an image. A file that cannot be loaded is reported: GRUB asks for another
 * script in the session, which it gets by {@link grubRefusedScript}.
 *
 * @throws {MusterError} E_KERNEL_ARGUMENT for an argument that GRUB cannot pass
 */
export function grubBootScript(input: BootScriptInput): string {
  const { baseUrl, session, machine, image, profile } = input;
  const words = bootArguments(input, `01-${input.mac.replaceAll(':', '-')}`);
  checkQuotes(words);
  const kernel = grubPath(assetUrl(baseUrl, input.kernel, 'kernel'));
  const initrds = input.initrds.map((asset) => grubPath(assetUrl(baseUrl, asset, 'initrd')));
  const failed = (what: LoadedByGrub): string =>
    `configfile ${grubPath(`${baseUrl}${machinePath('grubRefused', { session, what })}`)}`;
  return [
    say(`${machine} boots ${image}${profile === undefined ? '' : ` as ${profile}`}`),
    `if linux ${[kernel, ...words.map(quoted)].join(' ')} ; then`,
    ...(initrds.length === 0
      ? ['  boot']
      : [`  if initrd ${initrds.join(' ')} ; then boot ; fi`, `  ${failed('initrd')}`]),
    'fi',
    failed('kernel'),
    ...startingOver,
  ].join('\n');
}

/** GRUB writes a backslash before each quote, which the kernel would keep. */
function checkQuotes(words: readonly string[]): void {
  const faults = words
    .filter((word) => /["'\\]/.test(word))
    .map((word): Fault => ({ code: 'E_KERNEL_ARGUMENT', message: `"${word}": GRUB cannot pass quotes` }));
  if (faults.length > 0) throw new MusterError('E_KERNEL_ARGUMENT', faults[0]!.message, { faults });
}

/** How the report begins that a file could not be loaded; the file follows. */
export const REFUSED_BY_GRUB = 'loader: GRUB could not load the';

/** What a machine is told when its report was taken that a file could not be loaded. */
export function grubRefusedScript(what: LoadedByGrub): string {
  return [say(`the ${what} was refused, or did not load; the boot host knows`), ...startingOver].join('\n');
}

/** The script of a held machine: it says why, and starts over. */
export function grubHoldScript({ machine, identity, reason, remedy }: HoldScriptInput): string {
  return [
    say(`this machine is ${machine} (${identity})`),
    say(`it waits: ${reason}`),
    say(`to continue: ${remedy}`),
    ...startingOver,
  ].join('\n');
}

/** The script that leads to the disk: the firmware tries its next boot entry. */
export const grubDiskScript = (input: { readonly machine: string; readonly reason: string }): string =>
  [say(`${input.machine} boots from its disk: ${input.reason}`), 'exit 1', ''].join('\n');
