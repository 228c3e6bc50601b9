/** Which files images and artifacts need, and which of them the boot host has. Pure. */
import type { ArtifactView } from '../../api/operations/artifacts.ts';
import type { AssetView } from '../../api/operations/assets.ts';
import type { ImageSpec } from '../../resources/kinds.ts';

/** A file of an image, by the name that people give it. */
export interface Part {
  readonly part: string;
  readonly sha256: string;
}

/** The files that an image is made of. */
export function partsOf({ kernel, initrds = [], root, disk, pieces }: ImageSpec): readonly Part[] {
  const one = (part: string, asset: { readonly sha256: string } | undefined): readonly Part[] =>
    asset === undefined ? [] : [{ part, sha256: asset.sha256 }];
  return [
    ...one('kernel', kernel),
    ...initrds.flatMap((asset, n) => one(initrds.length > 1 ? `initrd ${n + 1}` : 'initrd', asset)),
    ...one('root', root),
    ...one('disk', disk),
    ...one('pieces', pieces),
  ];
}

export interface ImageLine {
  readonly name: string;
  readonly os: string;
  readonly arch: string;
  /** The octets of those of its files that are there. */
  readonly size: number;
  readonly missing: readonly Part[];
}

/** One line for each image. */
export function imageLines(
  images: readonly { readonly metadata: { readonly name: string }; readonly spec: ImageSpec }[],
  assets: readonly Pick<AssetView, 'sha256' | 'size'>[],
): readonly ImageLine[] {
  const sizes = new Map(assets.map(({ sha256, size }) => [sha256, size]));
  return images.map(({ metadata: { name }, spec }) => {
    const parts = partsOf(spec);
    const here = new Set(parts.map(({ sha256 }) => sha256));
    return {
      name,
      os: [spec.os, spec.version].filter(Boolean).join(' '),
      arch: spec.arch,
      size: [...here].reduce((sum, sha256) => sum + (sizes.get(sha256) ?? 0), 0),
      missing: parts.filter(({ sha256 }) => !sizes.has(sha256)),
    };
  });
}

/** What lacks a file: `kernel of image debian-13`, `binary/kubelet/…`. */
export function lackedBy(
  sha256: string,
  images: readonly ImageLine[],
  artifacts: readonly Pick<ArtifactView, 'name' | 'missing'>[],
): readonly string[] {
  return [
    ...images.flatMap(({ name, missing }) =>
      missing.filter((part) => part.sha256 === sha256).map(({ part }) => `${part} of image ${name}`),
    ),
    ...artifacts.filter(({ missing }) => missing.includes(sha256)).map(({ name }) => name),
  ];
}
