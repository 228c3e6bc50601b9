/** What people write by mistake where a document belongs: each fault says what to write instead. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseDocuments } from '../../../src/resources/document.ts';
import { slipIn } from '../../../src/resources/slips.ts';

const faults = (text: string): readonly string[] =>
  parseDocuments(text, 'a.yaml').faults.map(({ message, at }) => `${at?.line}:${at?.column} ${message}`);
const profile = (rest: string) => `apiVersion: muster/v1\nkind: Profile\n${rest}`;

describe('a slip is named at its place', () => {
  test.each([
    [
      profile('metadata: {name: {{ .Values.n }}}\nspec: {boot: hold}\n'),
      /^3:18 the template "{{ \.Values\.n }}" was left unfilled/,
    ],
    [profile('metadata: {name: "{{ .Values.n }}"}\nspec: {boot: hold}\n'), /^3:18 the template/],
    [profile('{% if x %}\nmetadata: {name: a}\n{% endif %}\n'), /^3:1 the template "{% if x %}"/],
    [`# {{ in a comment }}\n${profile('metadata: {name: {{ a }}}\n')}`, /^4:18 the template "{{ a }}"/],
    [profile('metadata: {name: <name>}\nspec: {boot: hold}\n'), /^3:18 "<name>" is a placeholder/],
    [profile('metadata: {name: $NODE}\nspec: {boot: hold}\n'), /^3:18 "\$NODE" is a variable of a shell/],
    [profile('metadata: {name: a}\nspec:\n  <<: {boot: hold}\n'), /^5:3 YAML 1\.2 has no merge keys/],
    [profile('metadata: {name: a, labels: {<<: {a: b}}}\nspec: {boot: hold}\n'), /no merge keys/],
    ['<<<<<<< HEAD\napiVersion: muster/v1\n=======\n', /^1:1 a conflict of a merge/],
    [profile('metadata:\n\tname: a\n'), /^4:1 tabs indent this line/],
    ['variant: fcos\nversion: 1.5.0\n', /^1:1 this is Butane; .*extra\.ignition/],
    ['{"ignition": {"version": "3.3.0"}}', /this is Ignition/],
    ['#cloud-config\nusers: []\n', /this is cloud-config; .*extra\.cloudInit/],
    ['network: {version: 2}\n', /config\.network/],
    ['apiVersion: v1\nkind: ConfigMap\n', /kubectl or as an add-on/],
    ['apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n', /write a Cluster/],
    ['apiVersion: muster/v2\nkind: Machine\n', /this version reads "muster\/v1"/],
  ])('%s', (text, message) => {
    expect(faults(text)[0]).toMatch(message);
  });
});

test('braces in a text that works are left alone', () => {
  const text = profile(
    'metadata: {name: a}\nspec: {boot: hold, config: {files: [{path: /a, content: "{{ x }}"}]}}\n',
  );
  expect(faults(text)).toEqual([]);
});

test('any text is searched without an error, and the place is in it', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('{', '}', '%', '<', '=', '>', '\n', 'a', '#', ' ') }),
      (text) => {
        const slip = slipIn(text);
        expect(slip === undefined || slip.offset < text.length).toBe(true);
      },
    ),
  );
});
