/** The names of keysets stand in one table, and other lists of them are filters of it. */
import { expect, test } from 'vitest';
import { KEYSETS, PROBED_KEYSETS } from '../../src/pki/keysets.ts';
import { read, sources, withoutComments } from './tree.ts';

/** The files that may list keysets, and why a new keyset need not be added there. */
const LISTING: Readonly<Record<string, string>> = {
  'src/pki/keysets.ts': 'the table',
  'src/pki/hierarchy.ts': 'the files of each CA and the issuer of each leaf; the compiler asks for new CAs',
  'src/agent/wire/evidence.ts': 'which CA each listener of Kubernetes shows, and whose clients it accepts',
  'src/cluster/change/rotation/evidence.ts':
    "what is seen of one of them alone, for example kubelet's certificate",
  'src/cluster/change/rotation/rotation.ts':
    'what the boot host does for one of them alone: tokens, Secrets, etcd',
  'src/cluster/resolve/derive.ts': "which flags of Kubernetes name the CAs' files",
};

const NAME = new RegExp(
  `(['"\`])(${Object.keys(KEYSETS).join('|')})\\1|\\b(\\w+-(?:ca|secret))(?=[,;:])`,
  'g',
);

/** Whether code names three keysets, or two next to each other. */
function listsKeysets(code: string): boolean {
  const found = [...code.matchAll(NAME)].map((hit) => ({ at: hit.index, name: hit[2] ?? hit[3] ?? '' }));
  const near = found.some(({ at, name }, n) => {
    const before = found[n - 1];
    return before !== undefined && before.name !== name && at - before.at < 60;
  });
  return near || new Set(found.map(({ name }) => name)).size > 2;
}

test('a list of keysets is noticed in code, in keys of an object and in a text', () => {
  for (const code of [
    "const BRIDGED = ['etcd-ca', 'front-proxy-ca'];",
    `const ABOUT = { 'ca': '${'x'.repeat(90)}', 'etcd-ca': '${'x'.repeat(90)}', 'sa': '' };`,
    "'of a cluster: ca, etcd-ca, front-proxy-ca, sa'",
  ])
    expect(listsKeysets(code)).toBe(true);
  expect(listsKeysets("const ca = keysets.get('ca')!; const again = keysets.get('ca')!;")).toBe(false);
});

test('a file that lists keysets is the table, or is named here with a reason', () => {
  const listing = sources('src').filter((file) => listsKeysets(withoutComments(read(file))));
  expect(listing.sort()).toEqual(Object.keys(LISTING).sort());
});

test('the shell that asks listeners names only keysets that are probed', () => {
  const script = read('src/agent/scripts/muster-evidence.sh');
  const named = [...script.matchAll(/^ *([a-z-]*ca)\.\*\)/gm)].map(([, name]) => name);
  expect(named).toEqual(['front-proxy-ca']);
  for (const name of named) expect(PROBED_KEYSETS).toContain(name);
});
