/**
 * The lists of values in test/golden/component-values against the real components, each started
 * with Muster's own final flags beside etcd and an API server. All values of one version take half
 * an hour on two processors. Needs MUSTER_ARTIFACTS: test/artifacts.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ARTIFACTS } from '../artifacts.ts';
import { JUDGED, type Value, valuesOf } from '../unit/cluster/components/component-values.ts';
import { ValueJudge } from './value-judge.ts';

/** So many components run at the same time. */
const AT_ONCE = 4;

describe.skipIf(ARTIFACTS === undefined)('with the binaries of Kubernetes', () => {
  let judge: ValueJudge;

  beforeAll(async () => {
    judge = await ValueJudge.open();
  }, 180_000);

  afterAll(() => judge.close());

  test.each(JUDGED)(
    '%s starts or ends with each value as the list says',
    { timeout: 3_600_000 },
    async (name) => {
      const version = name === 'etcd' ? '3.6' : judge.minor;
      const listed = valuesOf(name).flatMap(({ value, known }): [Value, string][] => {
        const of = known.get(version);
        return of === undefined ? [] : [[value, of.component]];
      });
      const differ: string[] = [];
      const next = listed[Symbol.iterator]();
      const worker = async (): Promise<void> => {
        for (const [value, says] of next) {
          const { starts, words } = await judge.judge(name, value);
          if (starts !== (says === 'starts'))
            differ.push(`${JSON.stringify(value)}: not "${says}"; ${words}`);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      expect(differ).toEqual([]);
    },
  );
});
