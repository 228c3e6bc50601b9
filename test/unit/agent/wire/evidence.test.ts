/** What machines observe is read from the fields of their polls. */
import { expect, test } from 'vitest';
import { LISTENER_NAMES, type ProbeName, readEvidence } from '../../../../src/agent/wire/evidence.ts';

const read = (fields: Readonly<Record<string, string>>) => readEvidence((name) => fields[name] ?? '');

const AKI = 'ab'.repeat(20);
const POD = '0b5c7f3e-0000-4000-8000-000000000001';
const OLD: ProbeName = 'ca.0123456789abcdef';
const NEW: ProbeName = 'ca.fedcba9876543210';

test('all fields are read, each line into its listener, program or key', () => {
  expect(
    read({
      listeners: `kube-apiserver ${AKI} ${OLD}=refused ${NEW}=accepted\nkubelet - ${NEW}=unreachable\netcd-peer ${AKI}\n`,
      programs: 'kubelet ready 0f\nhaproxy alive -\n',
      tokens: `${'k'.repeat(43)} 12\n- 3\n`,
      tokenpods: `k ${'a'.repeat(32)}\nk ${POD}\n- ${POD}\n`,
      kubeletissuer: AKI,
      encryption: 'e'.repeat(64),
    }),
  ).toEqual({
    listeners: new Map([
      [
        'kube-apiserver',
        {
          issuer: AKI,
          answers: new Map([
            [OLD, 'refused'],
            [NEW, 'accepted'],
          ]),
        },
      ],
      ['kubelet', { answers: new Map([[NEW, 'unreachable']]) }],
      ['etcd-peer', { issuer: AKI, answers: new Map() }],
    ]),
    programs: new Map([
      ['kubelet', { health: 'ready', revision: '0f' }],
      ['haproxy', { health: 'alive', revision: '-' }],
    ]),
    tokens: new Map([
      ['k'.repeat(43), 12],
      ['-', 3],
    ]),
    tokenPods: new Map([
      ['k', ['a'.repeat(32), POD]],
      ['-', [POD]],
    ]),
    kubeletIssuer: AKI,
    encryption: 'e'.repeat(64),
  });
});

test('an agent that reports none of the fields has no evidence', () => {
  expect(read({})).toBeUndefined();
});

test('a field that no agent writes is named', () => {
  const many = (line: (n: number) => string, count: number) =>
    Array.from({ length: count }, (_, n) => line(n)).join('\n');
  const wrong: readonly (readonly [string, string])[] = [
    ['listeners', 'sshd -'],
    ['listeners', 'kubelet'],
    ['listeners', 'kubelet AB'],
    ['listeners', 'kubelet abc'],
    ['listeners', `kubelet - ${OLD}`],
    ['listeners', `kubelet - ${OLD}=maybe`],
    ['listeners', 'kubelet - sa.0123456789abcdef=accepted'],
    ['listeners', 'kubelet -\nkubelet -'],
    [
      'listeners',
      `kubelet - ${many((n) => `ca.${String(n).padStart(16, '0')}=accepted`, 13).replaceAll('\n', ' ')}`,
    ],
    ['listeners', many((n) => `${LISTENER_NAMES[n % 6]} -`, 7)],
    ['programs', 'etcd ready 0f'],
    ['programs', 'kubelet ready 0f 0f'],
    ['programs', 'kubelet down 0f'],
    ['programs', 'kubelet ready XY'],
    ['tokenpods', 'k x'],
    ['tokenpods', `k ${'a'.repeat(32)} x`],
    ['tokenpods', `k ${'a'.repeat(32)}\nk ${'a'.repeat(32)}`],
    ['tokens', 'k -1'],
    ['tokens', 'k 12345678'],
    ['tokens', `${'k'.repeat(129)} 1`],
    ['tokens', many((n) => `k${n} 1`, 18)],
    ['kubeletissuer', 'xy'],
    ['encryption', 'e'.repeat(63)],
  ];
  for (const [name, text] of wrong)
    expect([name, text, read({ [name]: text })]).toEqual([name, text, { wrong: name }]);
});
