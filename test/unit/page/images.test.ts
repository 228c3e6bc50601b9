/** Which files images and artifacts lack, as the page shows it. */
import { expect, test } from 'vitest';
import { imageLines, lackedBy } from '../../../src/page/files/images.ts';

const asset = (sha256: string) => ({ sha256 });
const SPEC = {
  os: 'debian',
  version: '13',
  arch: 'x86_64',
  configFormat: 'none',
  kernel: asset('k'),
  initrds: [asset('i'), asset('i')],
  root: asset('r'),
} as const;
const IMAGE = { metadata: { name: 'debian' }, spec: SPEC as never };

test('an image lists the parts whose files are missing, and the size of the others, each once', () => {
  const lines = imageLines(
    [IMAGE],
    [
      { sha256: 'k', size: 5 },
      { sha256: 'i', size: 7 },
    ],
  );
  expect(lines).toEqual([
    { name: 'debian', os: 'debian 13', arch: 'x86_64', size: 12, missing: [{ part: 'root', sha256: 'r' }] },
  ]);
});

test('a file is known by what lacks it', () => {
  const lines = imageLines([IMAGE], [{ sha256: 'k', size: 5 }]);
  const artifacts = [{ name: 'binary/kubelet/1/x86_64', missing: ['i'] }];
  expect(lackedBy('i', lines, artifacts)).toEqual([
    'initrd 1 of image debian',
    'initrd 2 of image debian',
    'binary/kubelet/1/x86_64',
  ]);
  expect(lackedBy('k', lines, artifacts)).toEqual([]);
});
