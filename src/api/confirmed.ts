/** Orders that may lose data repeat the name of what they are about. Pure. */
import { MusterError } from '../base/errors.ts';

/**
 * @param what the order does, e.g. `reset`
 * @throws {MusterError} E_USAGE when `confirm` does not repeat the name
 */
export function confirmed(name: string, { confirm }: { readonly confirm?: string }, what: string): void {
  if (confirm !== name)
    throw new MusterError('E_USAGE', `to ${what} ${name}, repeat its name: {"confirm": "${name}"}`);
}
