import { readFileSync } from 'node:fs';
import path from 'node:path';
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import { METRICS, type MetricName } from '../../../src/base/metrics.ts';
import { DHCP_OUTCOMES } from '../../../src/pxe/dhcp/outcomes.ts';

const directory = path.join(import.meta.dirname, '../../../examples/observability');
const read = (name: string): string => readFileSync(path.join(directory, name), 'utf8');

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }[];
}
const rules = (load(read('muster.rules.yaml')) as Rules).groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(read('grafana-dashboard.json')) as {
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
};
const expressions: readonly (readonly [string, string])[] = [
  ...rules.map(({ alert, expr }) => [alert, expr] as const),
  ...dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [title, expr] as const)),
];

test.each(expressions)('%s asks only for metrics and labels that exist', (_name, expr) => {
  const asked = [...expr.matchAll(/\b(muster_[a-z_]+)(?:\{([^}]*)\})?/g)];
  if (!expr.includes('up{')) expect(asked.length).toBeGreaterThan(0);
  for (const [, full, selector = ''] of asked) {
    const name = (full as string).replace(/_bucket$/, '') as MetricName;
    expect(Object.keys(METRICS)).toContain(name);
    expect(METRICS[name].type === 'histogram').toBe(full !== name);
    const labels = [...selector.matchAll(/([a-z]+)(?:=|!=|=~|!~)"/g)].map((match) => match[1]);
    for (const label of labels) expect(['instance', ...METRICS[name].labels]).toContain(label);
  }
  for (const [, outcome] of expr.matchAll(/muster_dhcp_packets_total\{outcome="([a-z_]+)"\}/g))
    expect(Object.keys(DHCP_OUTCOMES)).toContain(outcome);
});

test('every alert has a summary, a description and a severity', () => {
  expect(rules.length).toBeGreaterThan(10);
  for (const rule of rules)
    expect(rule).toMatchObject({
      labels: { severity: expect.stringMatching(/^(warning|critical)$/) },
      annotations: { summary: expect.stringMatching(/\.$/), description: expect.stringMatching(/\.$/) },
    });
});
