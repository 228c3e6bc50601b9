/** A machine's first-boot configuration as the API and the command line show it. Pure. */
import type { Provenance, Rendered } from '../ignition/rendered.ts';

export interface MachineConfiguration {
  readonly machine: string;
  readonly format: Rendered['format'];
  readonly files: Rendered['files'];
  readonly kernelArguments: readonly string[];
  readonly merged: Rendered['merged'];
  /** Path in `merged` → origin of the value. */
  readonly provenance: Readonly<Record<string, Provenance>>;
}

/** Converts a rendered configuration to what is shown. */
export function shownConfiguration(machine: string, rendered: Rendered): MachineConfiguration {
  const { format, files, kernelArguments, merged, provenance } = rendered;
  return {
    machine,
    format,
    files,
    kernelArguments,
    merged,
    provenance: Object.fromEntries(provenance),
  };
}
