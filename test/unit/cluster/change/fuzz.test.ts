/** Damaged metrics: the counters of an API server are numbers, or there are none. */
import { expect, test } from 'vitest';
import { sampleOf } from '../../../../src/cluster/change/rotation/rehearsal.ts';
import { damagedTexts, INPUTS } from '../../fuzzing.ts';

const METRICS = `# TYPE authentication_attempts counter
authentication_attempts{result="error"} 7
authentication_attempts{result="success"} 1.2e+06
apiserver_tls_handshake_errors_total 4
process_start_time_seconds 1.76422394562e+09
`;

test('damaged metrics of an API server are read as finite numbers or not at all', async () => {
  let read = 0;
  await damagedTexts('metrics', [METRICS], (text) => {
    const sample = sampleOf(text);
    if (sample === undefined) return;
    read++;
    for (const value of Object.values(sample)) expect(value).toSatisfy(Number.isFinite);
  });
  expect(read).toBeGreaterThan(INPUTS / 200);
});
