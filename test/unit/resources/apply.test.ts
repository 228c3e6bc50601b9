/** Checks of a change through the API against the documents in force. */
import { expect, test } from 'vitest';
import { MusterError } from '../../../src/base/errors.ts';
import { plan, readValues } from '../../../src/resources/apply.ts';
import { CatalogView } from '../../../src/resources/catalog-view.ts';
import type { Document } from '../../../src/resources/kinds.ts';

const document = (kind: string, name: string, spec: object) => ({
  apiVersion: 'muster/v1',
  kind,
  metadata: { name },
  spec,
});

/** A catalogue in which these documents are in force. */
function viewOf(...values: readonly object[]): CatalogView {
  const view = new CatalogView();
  view.put(
    readValues(values).documents.map(({ document }) => ({
      kind: document.kind,
      name: document.metadata.name,
      entry: { document, origin: { from: 'api', revision: 1 } },
    })),
  );
  return view;
}

/** Messages of the faults that refuse the deletion of these documents together. */
function refusedDeletion(view: CatalogView, ...drop: readonly Document[]): readonly string[] {
  try {
    plan(view, { drop }, () => [], undefined);
  } catch (error) {
    if (error instanceof MusterError && error.faults) return error.faults.map(({ message }) => message);
    throw error;
  }
  return [];
}

const machine = (name: string, mac: string, more: object = {}) =>
  document('Machine', name, { macs: [`52:54:00:00:00:${mac}`], ...more });

test('when several documents are deleted, only the one that is referenced is named in the fault', () => {
  const view = viewOf(
    document('Profile', 'worker', { boot: 'disk' }),
    document('Profile', 'm', { boot: 'disk' }),
    machine('m', '01', { profile: 'worker' }),
  );
  const profiles = view.list('Profile').map(({ document }) => document);
  expect(refusedDeletion(view, ...profiles)).toEqual([
    'Profile/worker is named by Machine/m; change or delete that first',
  ]);
});

test('a machine with an address in a deleted network is reported for every deleted network, because the address names none', () => {
  const view = viewOf(
    document('Network', 'a', { subnet: '10.1.0.0/24', dhcp: { mode: 'proxy' } }),
    document('Network', 'b', { subnet: '10.2.0.0/24', dhcp: { mode: 'proxy' } }),
    machine('m', '01', { addresses: ['10.1.0.9'] }),
  );
  const networks = view.list('Network').map(({ document }) => document);
  expect(refusedDeletion(view, ...networks)).toEqual([
    'Network/a or Network/b holds an address of Machine/m; change or delete that first',
  ]);
});
