/** The pull part of a registry: requests and answers as values. */
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Artifact, type ArtifactBook, openArtifactBook } from '../../../src/artifacts/book.ts';
import { answerRegistry } from '../../../src/artifacts/registry.ts';
import { openMemoryStore } from '../../../src/store/memory.ts';

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
const INDEX = 'application/vnd.oci.image.index.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';

let book: ArtifactBook;
beforeEach(async () => {
  book = await openArtifactBook(openMemoryStore());
  const image = (tag: string, top: string): Artifact => ({
    kind: 'image',
    reference: `registry.k8s.io/pause:${tag}`,
    digest: digest(top),
    mediaType: INDEX,
    manifests: [
      { mediaType: INDEX, digest: digest(top), size: 10 },
      { mediaType: MANIFEST, digest: digest('b'), size: 20 },
    ],
    blobs: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', digest: digest('c'), size: 30 }],
  });
  await book.put([image('3.10.1', 'a'), image('3.10.2', 'd')]);
});

const ask = (url: string, method = 'GET') => {
  const [path = '', query = ''] = url.split('?');
  return answerRegistry({ method, path, query: new URLSearchParams(query) }, book);
};

describe('the registry', () => {
  it('names the version of its API', () => {
    expect(ask('/v2/')).toMatchObject({ status: 200 });
    expect(ask('/v2')).toMatchObject({ status: 200 });
  });

  it('does not answer paths of others', () => {
    expect(ask('/v2x')).toBeUndefined();
    expect(ask('/assets/x')).toBeUndefined();
  });

  it('finds an image by tag, both with the registry as a query parameter of a mirror and by its full name', () => {
    const wanted = { kind: 'file', sha256: 'd'.repeat(64), contentType: INDEX };
    expect(ask('/v2/pause/manifests/3.10.2?ns=registry.k8s.io')).toMatchObject(wanted);
    expect(ask('/v2/registry.k8s.io/pause/manifests/3.10.2')).toMatchObject(wanted);
  });

  it('finds manifests and blobs by digest, with the digest in a header', () => {
    expect(ask(`/v2/registry.k8s.io/pause/manifests/${digest('b')}`)).toMatchObject({
      kind: 'file',
      contentType: MANIFEST,
      headers: expect.arrayContaining([['docker-content-digest', digest('b')]]),
    });
    expect(ask(`/v2/registry.k8s.io/pause/blobs/${digest('c')}`)).toMatchObject({ sha256: 'c'.repeat(64) });
  });

  it('accepts a percent-encoded digest', () => {
    expect(ask(`/v2/registry.k8s.io/pause/blobs/${encodeURIComponent(digest('c'))}`)).toMatchObject({
      sha256: 'c'.repeat(64),
    });
  });

  it.each([
    ['/v2/registry.k8s.io/pause/manifests/9', 404, 'MANIFEST_UNKNOWN'],
    [`/v2/registry.k8s.io/pause/manifests/${digest('c')}`, 404, 'MANIFEST_UNKNOWN'],
    [`/v2/registry.k8s.io/pause/blobs/${digest('e')}`, 404, 'BLOB_UNKNOWN'],
    ['/v2/registry.k8s.io/pause/blobs/latest', 400, 'DIGEST_INVALID'],
    ['/v2/quay.io/pause/manifests/3.10.2', 404, 'NAME_UNKNOWN'],
    ['/v2/pause/manifests/3.10.2?ns=quay.io', 404, 'NAME_UNKNOWN'],
    ['/v2/pause/manifests/3.10.2?ns=..%2f', 400, 'NAME_INVALID'],
    ['/v2/%2e%2e/%2e%2e/manifests/x', 400, 'NAME_INVALID'],
    ['/v2/registry.k8s.io/pause/referrers/x', 404, 'UNSUPPORTED'],
    ['/v2/%zz', 404, 'UNSUPPORTED'],
  ])('%s is answered %i %s', (url, status, code) => {
    expect(ask(url)).toMatchObject({ kind: 'text', status, body: expect.stringContaining(code) });
  });

  it('refuses pushes and names the allowed methods', () => {
    expect(ask('/v2/registry.k8s.io/pause/blobs/uploads/', 'POST')).toMatchObject({
      status: 405,
      headers: expect.arrayContaining([['allow', 'GET, HEAD']]),
    });
  });

  it('lists tags in order, in pages of the requested size', () => {
    expect(ask('/v2/pause/tags/list?ns=registry.k8s.io')).toMatchObject({
      body: '{"name":"registry.k8s.io/pause","tags":["3.10.1","3.10.2"]}\n',
    });
    const first = ask('/v2/registry.k8s.io/pause/tags/list?n=1');
    expect(first).toMatchObject({ body: expect.stringContaining('["3.10.1"]') });
    const link = new Map(first!.headers).get('link')!;
    const next = ask(/<(.*)>/.exec(link)![1]!);
    expect(next).toMatchObject({ body: expect.stringContaining('["3.10.2"]') });
    expect(new Map(next!.headers).has('link')).toBe(false);
  });

  it('never answers with a file that belongs to no image of the repository', () => {
    const known = new Set(['a', 'b', 'c', 'd'].map((letter) => letter.repeat(64)));
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), fc.option(fc.string({ maxLength: 20 })), (rest, ns) => {
        const query = new URLSearchParams(ns === null ? {} : { ns });
        const answer = answerRegistry({ method: 'GET', path: `/v2/${rest}`, query }, book);
        if (answer?.kind === 'file') expect(known).toContain(answer.sha256);
        else expect(answer!.status).toBeLessThan(500);
      }),
      { numRuns: 2000 },
    );
  });
});
