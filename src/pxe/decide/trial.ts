/**
 * A machine whose boot disk keeps a root image that worked gets another one for one boot. If its
 * agent does not get through its plan in that boot, the next one is from the disk.
 */
import { publicName } from '../../base/ids.ts';
import type { Trial } from '../../machines/machine.ts';
import type { Member } from '../../machines/roster.ts';
import type { Selection } from '../../machines/select.ts';
import type { Catalog } from '../../resources/catalog.ts';

/**
 * Whether the machine was given the image of its profile once, in another session than this one,
 * and can go back to what its boot disk keeps.
 */
export function wasTried(
  catalog: Pick<Catalog, 'get'>,
  { status: { trial, agent } }: Pick<Member, 'status'>,
  selection: Selection,
  session?: string,
): boolean {
  if (trial === undefined || selection.kind !== 'selected') return false;
  if (session !== undefined && trial.session === publicName(session)) return false;
  const { image, home = 'boot' } = selection.profile.spec;
  const root = image === undefined ? undefined : catalog.get('Image', image)?.document.spec.root?.sha256;
  return home === 'boot' && root === trial.image && agent?.kept !== undefined && agent.kept !== root;
}

/** What is noted of a boot that gives the machine this root image; undefined: it is no trial. */
export function trialOf(
  { status: { agent } }: Pick<Member, 'status'>,
  root: string | undefined,
  session: string,
): Trial | undefined {
  return root === undefined || agent?.kept === undefined || agent.kept === root
    ? undefined
    : { image: root, session: publicName(session) };
}
