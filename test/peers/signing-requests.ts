/** Requests for certificates as kubelets file them, with kubectl, and what becomes of them. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, vi } from 'vitest';
import type { PlacedPlan } from './placed-plan.ts';

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

  /** A file with this object. */
  readonly written = (object: unknown): string => {
    const at = this.#worker.inside(`/object-${++this.#made}.json`);
    fs.writeFileSync(at, JSON.stringify(object));
    return at;
  };

  /** A fresh key's request for this name, as kubelet makes it; `sans` for a serving certificate. */
  readonly request = (name: string, sans?: string): { readonly key: string; readonly csr: string } => {
    const key = this.#worker.inside(`/request-${++this.#made}.key`);
    execFileSync('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', key]);
    const more = sans === undefined ? [] : ['-addext', `subjectAltName=${sans}`];
    const subject = `/O=system:nodes/CN=system:node:${name}`;
    const csr = execFileSync('openssl', ['req', '-new', '-key', key, '-subj', subject, ...more]);
    return { key, csr: csr.toString('base64') };
  };

  /** Files the request with these arguments of kubectl; returns its name in the API. */
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

  /** Arguments of kubectl for nobody who has a kubeconfig. */
  readonly as = (...credential: readonly string[]): readonly string[] => [
    ...['--kubeconfig', '/dev/null', '--server', this.#server],
    ...['--certificate-authority', this.#worker.inside('/etc/kubernetes/pki/ca-bundle.crt'), ...credential],
  ];

  readonly issued = (name: string): string =>
    Buffer.from(this.admin('get', 'csr', name, '-o', 'jsonpath={.status.certificate}'), 'base64').toString();

  readonly isIssued = (name: string): Promise<void> =>
    expect.poll(() => this.issued(name), { timeout: 60_000 }).toContain('BEGIN');

  readonly status = (name: string): string => this.admin('get', 'csr', name, '-o', 'jsonpath={.status}');

  /** Registers that node when the API answers, as its kubelet does, and applies the cluster's objects. */
  async begin(node: string): Promise<void> {
    const applier = this.#control.inside('/run/muster/applier.conf');
    const object = this.written({ apiVersion: 'v1', kind: 'Node', metadata: { name: node } });
    await vi.waitFor(() => this.#control.run('kubectl', '--kubeconfig', applier, 'apply', '-f', object), {
      timeout: 100_000,
      interval: 500,
    });
    const apply = this.#control.inside('/etc/muster/objects/apply.sh');
    execFileSync('sh', [apply], { env: this.#control.env, stdio: 'pipe' });
  }
}
