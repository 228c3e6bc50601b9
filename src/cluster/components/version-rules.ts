/** The versions that a component emulates, or with which it stays compatible. */

import { minorOf } from '../model/versions.ts';
import { type Flag, type FlagRule, isTrue, rule } from './flag-rule.ts';

const COMPONENTS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;

/** How many minor versions a component can go back. */
const BACK = 3;

/** The number after "1." of a text like "1.35" or "kube=v1.35"; undefined where it has none. */
function numberIn(text: string): number | undefined {
  const [, number] = /^(?:\s*kube\s*=)?\s*v?1\.(0|[1-9][0-9]*)(?:\.0)?\s*$/.exec(text) ?? [];
  return number === undefined ? undefined : Number(number);
}

const emulated = (flag: Flag, own: number): number => numberIn(flag('emulated-version')) ?? own;

function rangeFault(value: string, least: number, most: number): string | undefined {
  if (value === '') return undefined;
  const parts = value.split(',');
  if (parts.length > 1) return 'write one version; all components here are "kube"';
  const number = numberIn(value);
  return number !== undefined && number >= least && number <= most
    ? undefined
    : `"${value}" is not a version from 1.${least} to 1.${most}`;
}

export const VERSIONS: readonly FlagRule[] = COMPONENTS.flatMap((component) => {
  const at = rule(component);
  const ownOf = (version: string): number => Number(minorOf(version).split('.')[1]);
  const forward: FlagRule['fault'] = (value, flag, { versions }) => {
    const own = ownOf(versions[component]);
    return isTrue(value) && emulated(flag, own) === own
      ? 'it needs an emulated-version that is older than the program'
      : undefined;
  };
  return [
    at('emulated-version', (value, _, { versions }) => {
      const own = ownOf(versions[component]);
      return rangeFault(value, own - BACK, own);
    }),
    at('min-compatibility-version', (value, flag, { versions }) => {
      const own = ownOf(versions[component]);
      return rangeFault(value, own - BACK, emulated(flag, own));
    }),
    at('emulation-forward-compatible', forward),
    at('runtime-config-emulation-forward-compatible', forward),
  ];
});
