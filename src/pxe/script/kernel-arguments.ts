/** The kernel command line as iPXE hands it on. */
import { type Fault, MusterError } from '../../base/errors.ts';
import { kernelArgumentFault, MAX_COMMAND_LINE } from '../../base/kernel-argument.ts';

/**
 * The arguments as one text. Throws E_KERNEL_ARGUMENT when one cannot be passed on, or when all are
 * too long together.
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
      `the kernel command line is ${line.length} characters long; kernels take ${MAX_COMMAND_LINE}`,
    );
  return line;
}
