/**
 * What would restart or power off a machine at the end of its configuration. A machine that boots
 * from the network is configured at every boot, so it would never become ready. Pure.
 */
import type { NodeUnit } from '../resources/nodeconfig.ts';
import { readUnit } from './unit-text.ts';

const PROGRAMS =
  /(?:^|[;&\n])\s*(?:sudo\s+)?(?:\/(?:usr\/)?s?bin\/)?(?:(?:reboot|poweroff|halt)(?![\w.-])|shutdown(?!\s+-c)(?![\w.-])|systemctl\s+(?:-\S+\s+)*(?:reboot|poweroff|halt|kexec|soft-reboot)\b|(?:tel)?init\s+[06]\b)/;

/** A command that decides by itself whether it restarts: `test -e /run/x && reboot`. */
const CONDITION = /\|\||(?:^|[\s;&])(?:if|case|test|until|while|\[\[?)\s/;

/** Whether a command of a shell restarts the machine, or powers it off, each time that it runs. */
export const restarts = (command: string): boolean => PROGRAMS.test(command) && !CONDITION.test(command);

const ACTIONS = /^(?:reboot|poweroff|halt|exit|soft-reboot|kexec)/;

/** Why an enabled unit restarts the machine at each boot; undefined when it does not. */
export function restartOf(
  { name, enabled, contents = '' }: NodeUnit,
  text = readUnit(contents),
): string | undefined {
  if (enabled !== true || !name.endsWith('.service')) return undefined;
  const startsAtBoot = ['WantedBy', 'RequiredBy'].some((key) => text.of('Install', key).length > 0);
  if (!startsAtBoot || /^\s*(?:Condition|Assert)\w+=/m.test(contents)) return undefined;
  const commands = ['ExecStartPre', 'ExecStart', 'ExecStartPost'].flatMap((key) => text.of('Service', key));
  const command = commands.find((one) => restarts(one.replace(/^[-@:+!]+/, '')));
  const action = text.of('Unit', 'SuccessAction').at(-1) ?? '';
  const what = command ?? (ACTIONS.test(action) ? `SuccessAction=${action}` : undefined);
  return what === undefined ? undefined : `"${what}" ${NEVER_READY}`;
}

export const NEVER_READY =
  'would restart the machine, or power it off, at each of its boots before it is ready; remove it (`muster cluster roll` reboots machines, in turns)';
