/**
 * Units that are made after the first configuration, and the units that are to start after them.
 * systemd orders only what is queued together: a unit with `After=kubelet.service` starts at once
 * while there is no kubelet.service yet.
 */
import type { NodeConfig, NodeUnit } from '../resources/nodeconfig.ts';

const DROP_IN = '50-muster-wants.conf';

/** The units of `late` that this unit names in `After=`, in its own text or a drop-in. */
function startsAfter({ contents = '', dropins = [] }: NodeUnit, late: readonly string[]): readonly string[] {
  const texts = [contents, ...dropins.map((dropin) => dropin.contents)];
  const named = texts.flatMap((text) =>
    [...text.matchAll(/^After=(.*)$/gm)].flatMap(([, names]) => names!.trim().split(/\s+/)),
  );
  return late.filter((name) => named.includes(name));
}

/**
 * Changes enabled units that are to start after a late unit: the late unit wants them, instead of
 * the target that they name. They start with it, in the order that they ask for, and again when it
 * is restarted. Returns `config` itself when there is no such unit.
 */
export function behindLateUnits(config: NodeConfig, late: readonly string[]): NodeConfig {
  const units = config.units ?? [];
  const wants = new Map<string, string[]>(late.map((name) => [name, []]));
  const kept = units.map((unit): NodeUnit => {
    const awaited = unit.enabled === true && !unit.mask ? startsAfter(unit, late) : [];
    if (awaited.length === 0) return unit;
    for (const name of awaited) wants.get(name)!.push(unit.name);
    const { enabled: _, ...rest } = unit;
    return rest;
  });
  const wanted = [...wants].filter(([, names]) => names.length > 0);
  if (wanted.length === 0) return config;
  const dropins = new Map(
    wanted.map(([name, names]) => [name, { name: DROP_IN, contents: `[Unit]\nWants=${names.join(' ')}\n` }]),
  );
  const own = new Set(kept.map(({ name }) => name));
  return {
    ...config,
    units: [
      ...kept.map((unit) => {
        const dropin = dropins.get(unit.name);
        return dropin ? { ...unit, dropins: [...(unit.dropins ?? []), dropin] } : unit;
      }),
      ...[...dropins].flatMap(([name, dropin]) => (own.has(name) ? [] : [{ name, dropins: [dropin] }])),
    ],
  };
}
