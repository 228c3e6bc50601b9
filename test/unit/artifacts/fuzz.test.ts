/** Damaged artifacts and requests are read or refused with E_ARTIFACT. */
import { expect, test } from 'vitest';
import { checkArtifact, openArtifactBook } from '../../../src/artifacts/book.ts';
import { parseBinaries, parseDockerArchive, parseLayout } from '../../../src/artifacts/layout.ts';
import { parseManifest } from '../../../src/artifacts/oci.ts';
import { formatReference, nameOf, parseReference } from '../../../src/artifacts/reference.ts';
import { answerRegistry } from '../../../src/artifacts/registry.ts';
import { tarMembers } from '../../../src/artifacts/tar.ts';
import { parsed } from '../../../src/base/foreign-json.ts';
import { parseChallenge } from '../../../src/cli/artifacts/registry-source.files.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';
import { damagedOctets, damagedRecords, damagedTexts, INPUTS, unless } from '../fuzzing.ts';
import { archive, summed } from './archive.ts';

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;
const INDEX = 'application/vnd.oci.image.index.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const REFUSED = ['E_ARTIFACT'] as const;
const part = (letter: string, mediaType = 'application/vnd.oci.image.layer.v1.tar') => ({
  mediaType,
  digest: digest(letter),
  size: 30,
});
const IMAGE = {
  ...{ kind: 'image', reference: 'registry.k8s.io/pause:3.10.1', digest: digest('a'), mediaType: INDEX },
  ...{ manifests: [part('a', INDEX), part('b', MANIFEST)], blobs: [part('c')] },
};

test('damaged references are refused, or are written as they were read', async () => {
  let taken = 0;
  const seeds = [
    'registry.k8s.io/kube-apiserver:v1.36.2',
    `quay.io:443/a/b-c__d@${digest('0')}`,
    'busybox',
    '[::1]:5000/x.y:latest',
  ];
  await damagedTexts('references', seeds, (text) => {
    const reference = parseReference(text);
    if (reference === undefined) return;
    taken++;
    const again = formatReference(reference);
    if (formatReference(parseReference(again)!) !== again || /\.\.|[\s\\%]/.test(nameOf(reference)))
      throw new Error('another one');
  });
  expect(taken).toBeGreaterThan(INPUTS / 200);
});

test('damaged challenges of registries give no realm, or one that is a URL', async () => {
  const seeds = [
    'Bearer realm="https://auth.example/token",service="registry",scope="repository:a/b:pull"',
    'Basic realm="x"',
  ];
  await damagedTexts('challenges', seeds, (header) => {
    const found = parseChallenge(header);
    if (found !== undefined && !URL.canParse(found.realm)) throw new Error('no URL');
  });
});

test('damaged requests to the registry get an answer, and only files of the repository', async () => {
  const book = await openArtifactBook(openMemoryStore());
  await book.put([checkArtifact(IMAGE)]);
  const known = new Set(['a', 'b', 'c'].map((letter) => letter.repeat(64)));
  const seeds = [
    `/v2/registry.k8s.io/pause/manifests/3.10.1?ns=x`,
    `/v2/pause/blobs/${digest('c')}?ns=registry.k8s.io`,
    `/v2/registry.k8s.io/pause/tags/list?n=1&last=3.10`,
    '/v2/%2e%2e/%2e%2e/manifests/x',
  ];
  let files = 0;
  await damagedTexts('requests to the registry', seeds, (url) => {
    const [path = '', query = ''] = url.split('?');
    const answer = answerRegistry({ method: 'GET', path, query: new URLSearchParams(query) }, book);
    if (answer === undefined) return;
    if (answer.kind === 'file') files++;
    if (answer.kind === 'file' ? !known.has(answer.sha256) : answer.status >= 500)
      throw new Error('out of bounds');
  });
  expect(files).toBeGreaterThan(INPUTS / 200);
});

/** Readers, each with an intact text that it reads. */
const READERS: readonly (readonly [string, object, (text: string) => unknown])[] = [
  [
    'manifests',
    { schemaVersion: 2, mediaType: MANIFEST, config: part('d'), layers: [part('e')] },
    (text) => parseManifest(Buffer.from(text)),
  ],
  [
    'indexes',
    {
      schemaVersion: 2,
      mediaType: INDEX,
      manifests: [{ ...part('b', MANIFEST), platform: { architecture: 'amd64', os: 'linux' } }],
    },
    (text) => parseManifest(Buffer.from(text)),
  ],
  [
    'layouts',
    {
      manifests: [
        { ...part('a', INDEX), annotations: { 'org.opencontainers.image.ref.name': 'quay.io/a/b:1' } },
      ],
    },
    parseLayout,
  ],
  [
    'archives of docker save',
    [{ Config: 'a.json', RepoTags: ['a/b:1'], Layers: ['l/layer.tar'] }],
    parseDockerArchive,
  ],
  [
    'lists of binaries',
    {
      binaries: [
        {
          name: 'runc',
          version: '1.2',
          arch: 'x86_64',
          file: 'bin/runc',
          sha256: 'f'.repeat(64),
          form: 'file',
        },
      ],
    },
    parseBinaries,
  ],
  ['artifacts', IMAGE, (text) => checkArtifact(parsed(text))],
];

test.each(READERS)('damaged %s are read or refused with E_ARTIFACT', async (name, seed, read) => {
  expect(read(JSON.stringify(seed))).toBeDefined();
  let taken = 0;
  await damagedRecords(name, [seed], (text) => {
    if (unless(REFUSED, () => read(text)) !== undefined) taken++;
  });
  expect(taken).toBeGreaterThan(INPUTS / 2000);
});

test('damaged archives are read to an end with valid members, or refused with E_ARTIFACT', async () => {
  const seeds = [
    archive(['0', 'a/b', 'content'], ['0', 'c', '']),
    archive(['x', 'pax', '16 path=../../e\n13 size=1024\n'], ['0', 'd', 'x']),
    archive(['L', '././@LongLink', `${'d/'.repeat(60)}e\0`], ['0', 'short', 'y']),
  ];
  let members = 0;
  await damagedOctets('tar archives', seeds, async (damaged) => {
    const octets = summed(damaged);
    let reads = 0;
    try {
      for await (const { path } of tarMembers(async (offset, length) => {
        if (++reads > 64 || length > 64 * 1024) throw new Error('reads without end');
        return octets.subarray(offset, offset + length);
      })) {
        members++;
        if (path === '' || path.startsWith('/') || path.split('/').includes('..'))
          throw new Error(`leads outside: ${path}`);
      }
    } catch (error) {
      if ((error as { code?: string }).code !== 'E_ARTIFACT') throw error;
    }
  });
  expect(members).toBeGreaterThan(INPUTS / 20);
});
