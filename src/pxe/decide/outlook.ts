/** Why machines would be held, as far as that is known without rendering a configuration. */
import type { Reason } from '../../events/event.ts';
import type { ImageSpec } from '../../resources/kinds.ts';
import { assetsOf } from '../assets/assets.ts';
import type { BootContext } from './boot-context.ts';
import { judge } from './decide.ts';
import { verdictOnUnknown } from './discovery.ts';
import { imageState } from './image-state.ts';
import { selectionOf } from './selection.ts';

/**
 * Why the machine would be held if it booted now; undefined when it would not be, as far as is
 * known without rendering its configuration. Fast enough for a list of ten thousand machines.
 */
export function outlook(context: BootContext, name: string): Reason | undefined {
  const member = context.roster.get(name);
  if (member === undefined) return undefined;
  const { seen, bootsWithoutReady, quarantine, life } = member.status;
  if (member.entry === undefined) {
    const network = context.servedNetworks().find(({ name: one }) => one === seen.network);
    return verdictOnUnknown(context, network, seen, bootsWithoutReady).reason;
  }
  const selection = selectionOf(context, member, seen.network);
  const { discovery } = context.servedNetworks().find(({ name: one }) => one === seen.network) ?? {};
  const known = { kind: 'known', selection, bootsWithoutReady, life, discovery } as const;
  const machine = { ...known, quarantine: quarantine?.text };
  const outline = judge(machine);
  if (outline.kind !== 'script') return outline.kind === 'hold' ? outline.reason : undefined;
  const verdict = judge(machine, {
    arch: seen.arch,
    image: imageState(context, outline.image),
  });
  return verdict.kind === 'hold' ? verdict.reason : undefined;
}

/** The image that a machine would boot; undefined when its profile names none that exists. */
export function wantedImage(
  context: Pick<BootContext, 'roster' | 'profiles' | 'catalog' | 'inventories'>,
  name: string,
): { readonly name: string; readonly root?: string } | undefined {
  const member = context.roster.get(name);
  if (member === undefined) return undefined;
  const selection = selectionOf(context, member, member.status.seen.network);
  const { boot = 'image', image } = selection.kind === 'selected' ? selection.profile.spec : {};
  const found = boot === 'image' && image !== undefined ? context.catalog.get('Image', image) : undefined;
  if (found === undefined || image === undefined) return undefined;
  const root = found.document.spec.root?.sha256;
  return { name: image, ...(root !== undefined && { root }) };
}

/** The hashes of an image's files that are not here. */
export const missingFiles = ({ assets }: Pick<BootContext, 'assets'>, image: ImageSpec): readonly string[] =>
  assetsOf(image).filter((sha256) => assets.find(sha256) === undefined);
