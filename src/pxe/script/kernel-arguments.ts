/** The kernel command line in a boot script. */
import { type Fault, MusterError } from '../../base/errors.ts';
import { kernelArgumentFault, MAX_COMMAND_LINE } from '../../base/kernel-argument.ts';

/**
 * Joins kernel arguments into a command line.
 *
 * @throws {MusterError} E_KERNEL_ARGUMENT when iPXE cannot pass one of them, or when the line is
 * longer than kernels accept.
 */
export function kernelCommandLine(list: readonly string[]): string {
  const faults = list.flatMap((argument, index): Fault[] => {
    const why = kernelArgumentFault(argument);
    if (why === undefined) return [];
    return [
      { code: 'E_KERNEL_ARGUMENT', path: `kernelArguments[${index}]`, message: `"${argument}": ${why}` },
    ];
  });
  if (faults.length > 0) throw new MusterError('E_KERNEL_ARGUMENT', faults[0]!.message, { faults });
  const line = list.join(' ');
  if (line.length > MAX_COMMAND_LINE)
    throw new MusterError(
      'E_KERNEL_ARGUMENT',
      `the kernel command line is ${line.length} characters long; kernels accept ${MAX_COMMAND_LINE}`,
    );
  return line;
}
