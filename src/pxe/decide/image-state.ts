/** Whether an image can be booted from here. */
import type { Asset, ImageSpec } from '../../resources/kinds.ts';
import { isDiskImage } from '../assets/assets.ts';
import type { BootContext } from './boot-context.ts';
import type { Readiness } from './decide.ts';

/** The processor of an image, or why it cannot be booted. */
export function imageState(
  context: Pick<BootContext, 'catalog' | 'assets'>,
  name: string,
): NonNullable<Readiness['image']> {
  const image = context.catalog.get('Image', name)?.document.spec;
  if (image === undefined) return { missing: `Image "${name}" does not exist.` };
  const missing = missingAsset(context, name, image);
  return missing === undefined ? { arch: image.arch, disk: isDiskImage(image) } : { missing };
}

/** Which files of the image are not here, as a sentence; undefined when all of them are. */
function missingAsset({ assets }: Pick<BootContext, 'assets'>, name: string, image: ImageSpec) {
  const files: readonly (readonly [string, Asset])[] = [
    ['kernel', image.kernel],
    ...(image.initrds ?? []).map((asset) => ['initrd', asset] as const),
    ...(image.root ? [['root image', image.root] as const] : []),
    ...(image.disk ? [['disk', image.disk] as const] : []),
    ...(image.pieces ? [['list of pieces', image.pieces] as const] : []),
  ];
  const lacking = files.filter(([, asset]) => assets.find(asset.sha256) === undefined);
  return lacking.length === 0
    ? undefined
    : `Image "${name}" lacks its ${lacking.map(([what]) => what).join(' and ')}.`;
}
