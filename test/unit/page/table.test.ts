/** Tables that operators paste. */
import { expect, test } from 'vitest';
import { machinesFromCsv } from '../../../src/cli/import/csv.ts';
import { machinesFrom } from '../../../src/page/register/table.ts';

const CSV = `name,mac,address,profile,cluster,serial,uuid,labels
node-1,52:54:00:aa:00:01 52:54:00:aa:00:02,10.0.0.1,worker,blue,S1,,rack=a unit=1
"node-2",52:54:00:aa:00:03,,,,"S,""2""",,
`;

test('a pasted table makes the same documents as `muster import csv`', () => {
  const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
  expect(plain(machinesFrom(CSV))).toEqual({ ok: true, machines: plain(machinesFromCsv(CSV)) });
});

test('cells of a spreadsheet are separated by tabs', () => {
  expect(machinesFrom('name\tmac\nnode-1\t52:54:00:aa:00:01\n')).toMatchObject({
    machines: [{ metadata: { name: 'node-1' }, spec: { macs: ['52:54:00:aa:00:01'] } }],
  });
});

test.each([
  ['', /heading/],
  ['name,mac', /at least one row/],
  ['name,color\na,b', /"color" is not a column/],
  ['name,profile\na,b', /no column "mac"/],
  ['name,mac\na,b,c', /Row 2/],
])('%j is refused with what to change', (text, fault) => {
  const read = machinesFrom(text);
  expect(read.ok ? '' : read.fault).toMatch(fault);
});
