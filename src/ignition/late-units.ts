/**
 * Units that come into being after the first configuration, and what is to start behind them.
 * systemd orders what is queued together; a unit that says `After=kubelet.service` and is started
 * while there is no kubelet.service yet starts at once.
 */
import type { NodeConfig, NodeUnit } from '../resources/nodeconfig.ts';

const DROP_IN = '50-muster-wants.conf';

/** Which of `late` the unit wants to start after, by its own text or a drop-in's. */
function startsAfter({ contents = '', dropins = [] }: NodeUnit, late: readonly string[]): readonly string[] {
  const texts = [contents, ...dropins.map((dropin) => dropin.contents)];
  const named = texts.flatMap((text) =>
    [...text.matchAll(/^After=(.*)$/gm)].flatMap(([, names]) => names!.trim().split(/\s+/)),
  );
  return late.filter((name) => named.includes(name));
}

/**
 * Enabled units that are to start after a late one are wanted by that one instead of by what they
 * say themselves: they start with it, in the order that they ask for, and again when it is started
 * anew.
 */
export function behindLateUnits(config: NodeConfig, late: readonly string[]): NodeConfig {
  const units = config.units ?? [];
  const wants = new Map<string, string[]>(late.map((name) => [name, []]));
  const kept = units.map((unit): NodeUnit => {
    const behind = unit.enabled === true && !unit.mask ? startsAfter(unit, late) : [];
    if (behind.length === 0) return unit;
    for (const name of behind) wants.get(name)!.push(unit.name);
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
