/** Makes certificate requests with kubectl as kubelets do, and reads their results. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, vi } from 'vitest';
import type { Millis } from '../../src/base/duration.ts';
import { type rig, settle, TestMachine } from '../unit/cluster/planner-kit.ts';
import type { PlacedPlan } from './placed-plan.ts';

type Rig = Awaited<ReturnType<typeof rig>>;

export const CLIENT = 'kubernetes.io/kube-apiserver-client-kubelet';
export const SERVING = {
  signer: 'kubernetes.io/kubelet-serving',
  usages: ['digital signature', 'server auth'],
};

export class SigningRequests {
  readonly #control: PlacedPlan;
  readonly #worker: PlacedPlan;
  readonly #server: string;
  #made = 0;

  /** `server`: URL of the API. */
  constructor(control: PlacedPlan, worker: PlacedPlan, server: string) {
    this.#control = control;
    this.#worker = worker;
    this.#server = server;
  }

  readonly admin = (...args: readonly string[]): string =>
    this.#control.run('kubectl', '--kubeconfig', this.#control.inside('/etc/kubernetes/admin.conf'), ...args);

  /** Writes this object to a file; returns its path. */
  readonly written = (object: unknown): string => {
    const at = this.#worker.inside(`/object-${++this.#made}.json`);
    fs.writeFileSync(at, JSON.stringify(object));
    return at;
  };

  /**
   * Makes a key and a request for this name as kubelet does, with `sans` for a serving certificate.
   */
  readonly request = (name: string, sans?: string): { readonly key: string; readonly csr: string } => {
    const key = this.#worker.inside(`/request-${++this.#made}.key`);
    execFileSync('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', key]);
    const more = sans === undefined ? [] : ['-addext', `subjectAltName=${sans}`];
    const subject = `/O=system:nodes/CN=system:node:${name}`;
    const csr = execFileSync('openssl', ['req', '-new', '-key', key, '-subj', subject, ...more]);
    return { key, csr: csr.toString('base64') };
  };

  /** Creates the request with these arguments for kubectl; returns its name in the API. */
  readonly file = (
    csr: string,
    as: readonly string[],
    { signer = CLIENT, usages = ['digital signature', 'client auth'] } = {},
  ): string => {
    const name = `csr-${++this.#made}`;
    const object = {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name },
      spec: { request: csr, signerName: signer, usages },
    };
    this.#worker.run('kubectl', ...as, 'create', '-f', this.written(object));
    return name;
  };

  /** Arguments for kubectl without any kubeconfig. */
  readonly as = (...credential: readonly string[]): readonly string[] => [
    ...['--kubeconfig', '/dev/null', '--server', this.#server],
    ...['--certificate-authority', this.#worker.inside('/etc/kubernetes/pki/ca-bundle.crt'), ...credential],
  ];

  readonly issued = (name: string): string =>
    Buffer.from(this.admin('get', 'csr', name, '-o', 'jsonpath={.status.certificate}'), 'base64').toString();

  readonly isIssued = (name: string): Promise<void> =>
    expect.poll(() => this.issued(name), { timeout: 60_000 }).toContain('BEGIN');

  readonly status = (name: string): string => this.admin('get', 'csr', name, '-o', 'jsonpath={.status}');

  /**
   * Lets the control plane cp1 arrive after this time: it gets its plan, its pods start, it
   * registers as its kubelet would when the API answers, and it applies the cluster's objects.
   */
  async begin({ planner, clock }: Pick<Rig, 'planner' | 'clock'>, later: Millis): Promise<void> {
    const control = this.#control;
    clock.advance(later);
    const cp1 = new TestMachine('cp1');
    control.put(await settle(planner, cp1), cp1);
    fs.mkdirSync(control.inside('/var/lib/etcd'), { recursive: true, mode: 0o700 });
    for (const pod of ['etcd', 'kube-apiserver', 'kube-controller-manager']) control.start(pod);
    const applier = control.inside('/run/muster/applier.conf');
    const node = this.written({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'cp1' } });
    await vi.waitFor(() => control.run('kubectl', '--kubeconfig', applier, 'apply', '-f', node), {
      timeout: 100_000,
      interval: 500,
    });
    const apply = control.inside('/etc/muster/objects/apply.sh');
    execFileSync('sh', [apply], { env: control.env, stdio: 'pipe' });
  }
}
