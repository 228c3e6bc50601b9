/** What tests of rotations need on a rack of real control planes. */
import { type Rack, until } from '../etcd/rack.ts';
import { rotationOf } from '../etcd/rotation.ts';
import { ApiClient } from './client.ts';
import type { Kubectl } from './rack.ts';

/** What a failed wait shows. */
export const stateOf = async (rack: Rack): Promise<string> =>
  [
    JSON.stringify(await rotationOf(rack).catch(String), undefined, 1),
    ...rack.all.map((machine) => `${machine.name}: ${machine.read('/run/kubelet.pods.log')}`),
    rack.host.log(),
  ].join('\n');

/** Boots the control planes, and waits until each has applied the cluster's objects. */
export async function bootAll(rack: Rack): Promise<void> {
  await Promise.all(rack.all.map((machine) => machine.powerOn()));
  await rack.healthy();
  const applied = () =>
    rack.all.every(
      (machine) => machine.has('/etc/muster/objects') && !machine.has('/run/muster/applier.conf'),
    );
  await until('every control plane has applied the objects', applied, rack.state);
}

/** The CA certificates of pods. The controller manager writes them shortly after it starts. */
const caOfPods = (rack: Rack, kubectl: Kubectl): Promise<string> => {
  const words = ['get', 'configmap', 'kube-root-ca.crt', '--ignore-not-found'];
  return until(
    'the controller manager has published the CA',
    () => kubectl.run(...words, '-o', 'jsonpath={.data.ca\\.crt}'),
    () => stateOf(rack),
  );
};

/** A client with a service account of its own, and its token of now. */
export async function clientOf(
  rack: Rack,
  kubectl: Kubectl,
): Promise<{ readonly load: ApiClient; readonly token: string }> {
  kubectl.run('create', 'serviceaccount', 'load');
  kubectl.run('create', 'configmap', 'counter', '--from-literal=n=-');
  kubectl.run('create', 'secret', 'generic', 'word', '--from-literal=word=hush');
  const admin = ['create', 'clusterrolebinding', 'load', '--clusterrole=cluster-admin'];
  kubectl.run(...admin, '--serviceaccount=default:load');
  const token = kubectl.run('create', 'token', 'load', '--duration=2h').trim();
  const ca = await caOfPods(rack, kubectl);
  const servers = rack.all.map(({ address }) => address);
  return { load: new ApiClient(servers, token, ca), token };
}
