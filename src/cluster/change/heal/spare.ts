/** Which machine takes the place of a lost one. Pure. */
import { whyNotExchanged } from '../../../machines/life/exchange.ts';
import type { MachineStatus } from '../../../machines/machine.ts';
import type { MachineSpec } from '../../../resources/kinds.ts';
import type { SparesSpec } from '../../../resources/spares-spec.ts';
import { HEALS } from './order.ts';

/** A machine with a document, as the choice of a spare sees it. */
export interface Candidate {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: MachineSpec;
  /** Its document is one of the API, which Muster may change. */
  readonly isOfApi: boolean;
  readonly status: Pick<MachineStatus, 'life' | 'quarantine' | 'alarm' | 'firstSeen' | 'seen'>;
  readonly cluster: string | undefined;
  readonly hasBmc: boolean;
}

export const isSelected = ({ labels }: Pick<Candidate, 'labels'>, { selector }: SparesSpec): boolean =>
  Object.entries(selector.labels).every(([label, value]) => labels[label] === value);

/** Why a machine cannot take the place of another one; undefined when it can. */
export function whyUnfit(spare: Candidate, lost: Candidate): string | undefined {
  const { status, cluster } = spare;
  if (spare.name === lost.name) return 'it is the lost machine itself';
  if (cluster !== undefined) return `it is a machine of ${cluster}`;
  if (status.life !== undefined) return `it is ${status.life.state}`;
  if (status.quarantine ?? status.alarm) return 'Muster gives it nothing (`muster explain` says why)';
  if (status.firstSeen === undefined) return 'it never booted from the network';
  if (!spare.isOfApi || !lost.isOfApi)
    return `the document of ${(spare.isOfApi ? lost : spare).name} belongs to a file, which Muster does not change`;
  const [arch, wanted] = [status.seen.arch, lost.status.seen.arch];
  if (arch !== undefined && wanted !== undefined && arch !== wanted)
    return `it is ${arch}, and not ${wanted}`;
  return whyNotExchanged(lost.spec, spare.spec);
}

/** The spare that takes the place of a machine: one that a BMC starts, if there is one. */
export function spareFor(
  lost: Candidate,
  settings: SparesSpec,
  all: readonly Candidate[],
): Candidate | undefined {
  const fit = all.filter((one) => isSelected(one, settings) && whyUnfit(one, lost) === undefined);
  return fit.find(({ hasBmc }) => hasBmc) ?? fit[0];
}

/** How many machines were replaced by themselves, and wait for somebody to look at them. */
export const replacedBy = (settings: SparesSpec, all: readonly Candidate[]): number =>
  all.filter((one) => isSelected(one, settings) && one.status.life?.by === HEALS).length;
