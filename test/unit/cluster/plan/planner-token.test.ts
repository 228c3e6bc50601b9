/** What a machine is given that joins by a token of its own. */
import { load } from 'js-yaml';
import { expect, test } from 'vitest';
import type { Plan } from '../../../../src/agent/wire/plan.ts';
import { bundleOf } from '../../../../src/cluster/objects/bundle.ts';
import { resolved } from '../kit.ts';
import { rig, settle, TestMachine } from '../planner-kit.ts';

const BY_TOKEN = { spec: { joining: 'token' as const } };
const BOOTSTRAP = '/etc/kubernetes/bootstrap-kubelet.conf';
const CURRENT = '/var/lib/kubelet/pki/kubelet-client-current.pem';

const lineAt = ({ lines }: Plan, path: string) => lines.find((line) => 'path' in line && line.path === path);
const kubeconfigAt = (plan: Plan, path: string) => {
  const line = lineAt(plan, path);
  if (line?.do !== 'put' || !('text' in line.content)) return undefined;
  const { clusters, users } = load(line.content.text) as {
    clusters: [{ cluster: { server: string } }];
    users: [{ user: Readonly<Record<string, string>> }];
  };
  return {
    secret: line.content.secret,
    mode: line.mode,
    server: clusters[0].cluster.server,
    user: users[0].user,
  };
};
const kubelet = ({ lines }: Plan) =>
  lines.find((line) => line.do === 'run' && line.unit === 'kubelet.service');

async function joining() {
  const made = await rig(BY_TOKEN);
  await settle(made.planner, new TestMachine('cp1'));
  const machine = new TestMachine('w1');
  const poll = async (said: TestMachine['said']): Promise<Plan> => {
    machine.said = said;
    return settle(made.planner, machine);
  };
  return { ...made, machine, poll };
}

test('a worker has no client certificate of ours, and its token once its directories are in place', async () => {
  const { machine, poll, tokens } = await joining();
  const first = await poll({});
  expect(machine.keys.has('kubelet')).toBe(false);
  expect(machine.keys.has('kubelet-serving')).toBe(true);
  expect(tokens.list('golden')).toEqual([]);
  expect(lineAt(first, BOOTSTRAP)).toEqual({ do: 'remove', path: BOOTSTRAP });

  const given = await poll({ step: 'units' });
  const [token] = tokens.list('golden');
  expect(kubeconfigAt(given, BOOTSTRAP)).toEqual({
    ...{ secret: true, mode: 0o600, server: 'https://127.0.0.1:6443' },
    user: { token: tokens.text(token!).reveal() },
  });
  expect(kubeconfigAt(given, '/etc/kubernetes/kubelet.conf')).toMatchObject({
    ...{ mode: 0o600, server: 'https://127.0.0.1:6443' },
    user: { 'client-certificate': CURRENT, 'client-key': CURRENT },
  });
  // kubelet looks for it again by itself.
  expect(kubelet(given)).toEqual(kubelet(first));
  expect((await poll({ step: 'units' })).lines).toEqual(given.lines);
});

test('the token is gone from the machine and worth nothing once kubelet has a certificate, and kubelet runs on', async () => {
  const { poll, tokens } = await joining();
  const given = await poll({ step: 'units' });
  const after = await poll({ step: 'units', joined: true });
  expect(lineAt(after, BOOTSTRAP)).toEqual({ do: 'remove', path: BOOTSTRAP });
  expect(tokens.list('golden')).toMatchObject([{ machine: 'w1', used: true }]);
  expect(kubelet(after)).toEqual(kubelet(given));
  // Its disk is another one: it joins again, by another token.
  const again = await poll({ step: 'units' });
  expect(kubeconfigAt(again, BOOTSTRAP)?.user.token).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}$/);
  expect(kubeconfigAt(again, BOOTSTRAP)?.user).not.toEqual(kubeconfigAt(given, BOOTSTRAP)?.user);
});

test('control planes, and workers whose secrets come inline, have certificates all the same', async () => {
  const { planner, tokens } = await joining();
  const control = new TestMachine('cp2');
  control.said = { step: 'units' };
  const plan = await settle(planner, control);
  expect(control.keys.has('kubelet')).toBe(true);
  expect(lineAt(plan, BOOTSTRAP)).toBeUndefined();
  expect(lineAt(await planner.inline('w2'), CURRENT)).toMatchObject({ do: 'link' });
  expect(tokens.list('golden')).toEqual([]);
});

test('a cluster that joins by certificate has no token and no user that could request by one', async () => {
  const { planner, tokens } = await rig();
  await settle(planner, new TestMachine('cp1'));
  const machine = new TestMachine('w1');
  machine.said = { step: 'units' };
  expect(lineAt(await settle(planner, machine), BOOTSTRAP)).toBeUndefined();
  expect(tokens.list('golden')).toEqual([]);
  const binds = (joins: 'certificate' | 'token') =>
    bundleOf(resolved({ joining: joins }), 'CA').applied.filter((one) =>
      JSON.stringify(one).includes('system:bootstrappers:muster:machines'),
    );
  expect(binds('certificate')).toEqual([]);
  // They may ask; nothing in the tree approves.
  expect(binds('token')).toMatchObject([
    { kind: 'ClusterRoleBinding', roleRef: { name: 'system:node-bootstrapper' } },
  ]);
});
