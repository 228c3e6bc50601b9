/** Prevents the accidental deletion of Images that Profiles name. */
import { type Fault, MusterError } from '../base/errors.ts';
import type { Catalog, Target } from '../resources/catalog.ts';

/**
 * Checks that no remaining Profile names an Image that is to be deleted, because its machines would
 * be held at their next boot.
 *
 * @throws {MusterError} E_REFERENCE with a fault for each such Image
 */
export function checkImagesInUse(targets: readonly Target[], catalog: Pick<Catalog, 'get' | 'list'>): void {
  const deleted = new Set(targets.map(({ kind, name }) => `${kind}/${name}`));
  const faults = targets.flatMap(({ kind, name }): Fault[] => {
    if (kind !== 'Image' || catalog.get(kind, name) === undefined) return [];
    const users = catalog
      .list('Profile')
      .map(({ document }) => document)
      .filter(({ metadata, spec }) => spec.image === name && !deleted.has(`Profile/${metadata.name}`))
      .map(({ metadata }) => `Profile/${metadata.name}`);
    if (users.length === 0) return [];
    const message = `Image/${name} is named by ${users.join(', ')}, whose machines would be held at their next boot; change that first, or add --force`;
    return [{ code: 'E_REFERENCE', message }];
  });
  if (faults.length > 0) throw new MusterError('E_REFERENCE', faults[0]!.message, { faults });
}
