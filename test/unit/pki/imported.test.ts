/** CAs that operators bring: which are taken, and how they sign and are replaced. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import { MusterError } from '../../../src/base/errors.ts';
import { readImported } from '../../../src/pki/imported.ts';
import { PrivateKey } from '../../../src/pki/keys.ts';
import { trustBundle } from '../../../src/pki/keyset.ts';
import { takeAuthority } from '../../../src/pki/take-authority.ts';
import { CP1, GOLDEN, temporary, verifyFaults, world } from './kit.ts';

/** A minute later, since openssl makes CAs that are valid from now on. */
const NOW = (Date.now() + 60_000) as Millis;
const CA = 'basicConstraints=critical,CA:TRUE';

interface Made {
  readonly certificate: string;
  readonly key: string;
}

/** Makes a CA with these extensions; `by` signs it, else it signs itself. */
function made(
  extensions: readonly string[],
  options: { readonly by?: Made; readonly days?: string } = {},
): Made {
  using directory = temporary();
  const file = (name: string, text: string) => directory.write(name, text);
  const [key, certificate] = [`${directory.path}/key`, `${directory.path}/crt`];
  const signs = options.by
    ? ['-CA', file('ca.crt', options.by.certificate), '-CAkey', file('ca.key', options.by.key)]
    : [];
  execFileSync(
    'openssl',
    [
      ...[
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-subj',
        '/CN=ours',
      ],
      ...['-days', options.days ?? '400', '-keyout', key, '-out', certificate, ...signs],
      ...extensions.flatMap((one) => ['-addext', one]),
    ],
    { stdio: 'ignore' },
  );
  const text = (name: string) => execFileSync('cat', [name], { encoding: 'utf8' });
  return { certificate: text(certificate), key: text(key) };
}

const USAGE = 'keyUsage=critical,digitalSignature,keyCertSign';
const root = made([CA, USAGE]);
const intermediate = made([CA, USAGE], { by: root });
const narrow = made([`${CA},pathlen:0`, USAGE]);

const faultOf = ({ certificate, key }: Made, now = NOW): string => {
  try {
    readImported(certificate, key, now);
    return 'none';
  } catch (error) {
    expect(error).toBeInstanceOf(MusterError);
    expect((error as MusterError).code).toBe('E_CA_IMPORT');
    expect((error as MusterError).message).not.toContain('PRIVATE KEY-----');
    return (error as MusterError).message;
  }
};

test.each<readonly [string, () => string, RegExp]>([
  ['that is a leaf', () => faultOf(made(['basicConstraints=critical,CA:FALSE'])), /not that of a CA/],
  ['whose key may not sign', () => faultOf(made([CA, 'keyUsage=critical,digitalSignature'])), /key usage/],
  [
    'whose key is another one',
    () => faultOf({ ...root, key: intermediate.key }),
    /not that of the certificate/,
  ],
  ['that has ended', () => faultOf(root, (NOW + 401 * 86_400_000) as Millis), /the CA ended at/],
  ['that begins later', () => faultOf(root, (NOW - 86_400_000) as Millis), /valid only from/],
  ['that ends in a week', () => faultOf(made([CA], { days: '7' })), /ends in [67]d/],
  [
    'that certifies no clients',
    () => faultOf(made([CA, 'extendedKeyUsage=serverAuth'])),
    /certify clientAuth/,
  ],
  [
    'of some names alone',
    () => faultOf(made([CA, 'nameConstraints=permitted;DNS:a.test'])),
    /name constraints/,
  ],
  [
    'with its chain',
    () => faultOf({ ...intermediate, certificate: intermediate.certificate + root.certificate }),
    /chain/,
  ],
  ['without a key', () => faultOf({ ...root, key: '' }), /not a private key in PEM/],
  ['whose certificate is its key', () => faultOf({ ...root, certificate: root.key }), /holds a PRIVATE KEY/],
  ['without a certificate', () => faultOf({ ...root, certificate: 'x' }), /not in PEM/],
])('a CA %s is refused, and the message says why', (_, fault, expected) => {
  expect(fault()).toMatch(expected);
});

test('no text makes the reader fail with another error', () => {
  fc.assert(
    fc.property(fc.string(), fc.nat({ max: root.certificate.length - 1 }), (text, at) => {
      faultOf({ certificate: text, key: root.key });
      faultOf({ certificate: root.certificate, key: text });
      faultOf({
        ...root,
        certificate: root.certificate.slice(0, at) + text + root.certificate.slice(at + 1),
      });
    }),
    { seed: 5, numRuns: 500 },
  );
});

const issue = async (of: Awaited<ReturnType<typeof world>>) => {
  const publicKey = (await PrivateKey.generate()).publicKey();
  return of.pki.issue('golden', { leaf: 'apiserver', holder: CP1, cluster: GOLDEN, publicKey });
};

test.each([
  ['self-signed', root, []],
  ['intermediate', intermediate, ['-partial_chain']],
])(
  'a CA that is %s signs at once where nothing was signed yet, and openssl verifies its leaves',
  async (_, ca, options) => {
    const of = await world();
    const { generation } = readImported(ca.certificate, ca.key, of.clock.now());
    expect(await takeAuthority(of, 'golden', { name: 'ca', authority: generation })).toEqual({
      generation: generation.id,
      signs: true,
    });
    const { certificate, issuer } = await issue(of);
    expect(issuer.generation).toBe(generation.id);
    const bundle = trustBundle((await of.keysets()).get('ca')!);
    expect(bundle).toBe(ca.certificate);
    using directory = temporary();
    const files = [directory.write('ca.crt', bundle), directory.write('leaf.crt', certificate)] as const;
    expect([...verifyFaults(files[0], [files[1]], options)]).toEqual([]);
  },
);

test('in a running cluster it is the next generation, with a bridge from the present CA', async () => {
  const of = await world();
  await issue(of);
  const { generation } = readImported(intermediate.certificate, intermediate.key, of.clock.now());
  expect(await takeAuthority(of, 'golden', { name: 'ca', authority: generation })).toEqual({
    generation: generation.id,
    signs: false,
  });
  const before = (await of.keysets()).get('ca')!;
  expect(before.primary).not.toBe(generation.id);
  await of.pki.transition('golden', 'ca', { do: 'promote', generation: generation.id });
  const { certificate } = await issue(of);
  using directory = temporary();
  const leaf = directory.write('leaf.crt', certificate);
  const old = directory.write('old.crt', trustBundle(before));
  expect([...verifyFaults(old, [leaf], ['-untrusted', leaf])]).toEqual([]);
  await expect(takeAuthority(of, 'golden', { name: 'ca', authority: generation })).rejects.toMatchObject({
    code: 'E_KEYSET',
  });
});

test('a CA with a path length of 0 is taken with a note, and its successor has to be trusted before it signs', async () => {
  const of = await world();
  const { generation, notes } = readImported(narrow.certificate, narrow.key, of.clock.now());
  expect(notes).toEqual([expect.stringMatching(/path length is 0, so it cannot sign a bridge/)]);
  await takeAuthority(of, 'golden', { name: 'etcd-ca', authority: generation });
  const next = await of.pki.transition('golden', 'etcd-ca', { do: 'make' });
  const promote = () =>
    of.pki.transition('golden', 'etcd-ca', { do: 'promote', generation: next.generation });
  await expect(promote()).rejects.toMatchObject({ code: 'E_KEYSET' });
  await of.pki.transition('golden', 'etcd-ca', { do: 'trust', generation: next.generation });
  expect((await promote()).state.primary).toBe(next.generation);
});
