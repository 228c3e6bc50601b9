/** References of images. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatReference, nameOf, parseReference } from '../../../src/artifacts/reference.ts';

const HASH = 'a'.repeat(64);

describe('an image reference', () => {
  it.each([
    ['registry.k8s.io/kube-apiserver:v1.36.2', 'registry.k8s.io/kube-apiserver:v1.36.2'],
    ['busybox', 'docker.io/library/busybox:latest'],
    ['flannel/flannel:v0.28.4', 'docker.io/flannel/flannel:v0.28.4'],
    ['localhost/app', 'localhost/app:latest'],
    ['localhost:5000/a/b/c:x', 'localhost:5000/a/b/c:x'],
    ['[fd00::1]:5000/app:1', '[fd00::1]:5000/app:1'],
    [`registry.k8s.io/pause@sha256:${HASH}`, `registry.k8s.io/pause@sha256:${HASH}`],
    [`registry.k8s.io/pause:3.10@sha256:${HASH}`, `registry.k8s.io/pause:3.10@sha256:${HASH}`],
  ])('%s is read as %s', (text, full) => {
    expect(formatReference(parseReference(text)!)).toBe(full);
  });

  it.each([
    '',
    'UPPER/case',
    'a//b',
    'a/b:',
    'a/b:-x',
    'a@sha256:short',
    `a@md5:${HASH}`,
    'a b',
    '../etc/passwd',
    'registry.k8s.io/',
    'registry.k8s.io/../x',
    `x/${'y'.repeat(300)}`,
  ])('"%s" is refused', (text) => {
    expect(parseReference(text)).toBeUndefined();
  });

  it('is read back as it was written', () => {
    const word = fc.stringMatching(/^[a-z0-9]{1,12}((\.|_|__|--?)[a-z0-9]{1,5}){0,2}$/);
    const reference = fc.record({
      registry: fc.constantFrom('registry.k8s.io', 'localhost', 'quay.io', '10.0.0.1:5000', 'docker.io'),
      repository: fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join('/')),
      tag: fc.option(fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,20}$/), { nil: undefined }),
      digest: fc.option(fc.stringMatching(/^sha256:[0-9a-f]{64}$/), { nil: undefined }),
    });
    fc.assert(
      fc.property(reference, ({ registry, repository, tag, digest }) => {
        const given = {
          registry,
          repository,
          ...(tag === undefined ? {} : { tag }),
          ...(digest === undefined ? {} : { digest }),
        };
        const read = parseReference(formatReference(given));
        expect(read).toEqual(tag === undefined && digest === undefined ? { ...given, tag: 'latest' } : given);
      }),
    );
  });

  it('never names a path outside its registry', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), (text) => {
        const read = parseReference(text);
        if (read) expect(nameOf(read).split('/')).not.toContain('..');
      }),
      { numRuns: 2000 },
    );
  });
});
