/** A change through the API, checked against what is in force. */
import { expect, test } from 'vitest';
import { MusterError } from '../../../src/base/errors.ts';
import { plan, wantedOf } from '../../../src/resources/apply.ts';
import { CatalogView } from '../../../src/resources/catalog-view.ts';
import type { Document } from '../../../src/resources/kinds.ts';

const document = (kind: string, name: string, spec: object) => ({
  apiVersion: 'muster/v1',
  kind,
  metadata: { name },
  spec,
});

/** A view in which these documents are in force. */
function viewOf(...values: readonly object[]): CatalogView {
  const view = new CatalogView();
  view.put(
    wantedOf(values).map(({ document }) => ({
      kind: document.kind,
      name: document.metadata.name,
      entry: { document, origin: { from: 'api', revision: 1 } },
    })),
  );
  return view;
}

/** The messages with which these documents cannot be deleted together. */
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

test('of several deleted documents, only the one that is referenced is named', () => {
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

test('an address names no network: every deleted network may be the one that it needs', () => {
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
