/**
 * Other programs make the certificates: openssl signs the same requests, kubeadm makes its own for
 * the same machines.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AUTHORITIES, leafOf } from '../src/pki/hierarchy.ts';
import { AUTHORITY_NAMES } from '../src/pki/keysets.ts';
import { ARTIFACTS } from '../test/artifacts.ts';
import type { BenchMachine } from './cluster-planner.ts';

const HOME = new URL('../.cache/bench-cluster-peers/', import.meta.url).pathname;
/** Uses both processors, because a shell runs one program after the other. */
const CONCURRENCY = 2;

const run = (command: string, words: readonly string[]) =>
  promisify(execFile)(command, words, { maxBuffer: 64 * 1024 * 1024, timeout: 600_000 });

function empty(name: string): string {
  const directory = join(HOME, name);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  return directory;
}

/**
 * Runs commands, {@link CONCURRENCY} at a time; resolves to the seconds that all took. Rejects when
 * one fails.
 */
async function timed(directory: string, commands: readonly string[]): Promise<number> {
  const list = join(directory, 'commands');
  writeFileSync(list, `${commands.join('\0')}\0`);
  const began = performance.now();
  await run('sh', [
    '-c',
    `xargs -0 -n 1 -P ${CONCURRENCY} sh -ec <"$1" >/dev/null 2>"$1.errors" || { tail -n 5 "$1.errors" >&2; exit 1; }`,
    'sh',
    list,
  ]);
  return (performance.now() - began) / 1000;
}

/**
 * Makes four CAs and every leaf of every machine with one process each, as scripts around openssl
 * do. The requests exist before the clock starts.
 */
export async function byOpenssl(machines: readonly BenchMachine[]): Promise<number> {
  const directory = empty('openssl');
  for (const name of AUTHORITY_NAMES)
    writeFileSync(
      join(directory, `${name}.cnf`),
      `[req]\ndistinguished_name=dn\nprompt=no\nx509_extensions=ca\n[dn]\nCN=${AUTHORITIES[name].commonName}\n[ca]\nbasicConstraints=critical,CA:true\nkeyUsage=critical,digitalSignature,keyCertSign\nsubjectKeyIdentifier=hash\n`,
    );
  const leaves = machines.flatMap((machine) =>
    [...machine.keys].map(([leaf, { request }]) => {
      const stem = join(directory, `${machine.name}-${leaf}`);
      const { parent, purposes, sans } = leafOf(leaf);
      const names = sans(
        { name: machine.name, addresses: [machine.address] },
        {
          name: 'rack',
          dnsDomain: 'cluster.local',
          serviceAddresses: ['10.96.0.1'],
          endpointNames: { dns: [], ips: ['10.92.0.250'] },
        },
      );
      const alternatives = [
        ...names.dns.map((one) => `DNS:${one}`),
        ...names.ips.map((one) => `IP:${one}`),
      ].join(',');
      writeFileSync(`${stem}.csr`, request);
      writeFileSync(
        `${stem}.ext`,
        `basicConstraints=critical,CA:false\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=${purposes.join(',')}\nauthorityKeyIdentifier=keyid\n${alternatives === '' ? '' : `subjectAltName=${alternatives}\n`}`,
      );
      return `openssl x509 -req -sha256 -days 365 -in ${stem}.csr -CA ${directory}/${parent}.crt -CAkey ${directory}/${parent}.key -extfile ${stem}.ext -out ${stem}.crt`;
    }),
  );
  const authorities = AUTHORITY_NAMES.map((name) => {
    const stem = join(directory, name);
    return `openssl ecparam -genkey -name prime256v1 -noout -out ${stem}.key && openssl req -x509 -new -sha256 -days 3650 -config ${stem}.cnf -key ${stem}.key -out ${stem}.crt`;
  });
  const seconds = (await timed(directory, authorities)) + (await timed(directory, leaves));
  rmSync(directory, { recursive: true, force: true });
  return seconds;
}

/** kubeadm's path in MUSTER_ARTIFACTS, if it has one. */
export const KUBEADM =
  ARTIFACTS === undefined ? undefined : [join(ARTIFACTS, 'bin/kubeadm')].find(existsSync);

/**
 * `kubeadm init phase certs all` and `kubeconfig all` for the control planes, `kubeconfig kubelet`
 * for each worker, with one CA. It also makes the keys, but no serving certificates for kubelets
 * and nothing for agents.
 */
export async function byKubeadm(machines: readonly BenchMachine[]): Promise<number> {
  const directory = empty('kubeadm');
  const authority = join(directory, 'authority');
  const version = (await run(KUBEADM!, ['version', '-o', 'short'])).stdout.trim();
  const configOf = ({ name, address }: BenchMachine, pki: string): string => {
    const file = join(directory, `${name}.yaml`);
    writeFileSync(
      file,
      `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {name: ${name}, criSocket: unix:///run/containerd/containerd.sock}
localAPIEndpoint: {advertiseAddress: ${address}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: ${version}
controlPlaneEndpoint: 10.92.0.250:6443
certificatesDir: ${pki}
encryptionAlgorithm: ECDSA-P256
networking: {podSubnet: 172.16.0.0/12}
`,
    );
    return file;
  };
  const first = machines[0]!;
  const seconds = await timed(directory, [
    `${KUBEADM} init phase certs all --config ${configOf(first, authority)}`,
  ]);
  const own = machines.map((machine) => {
    const home = join(directory, machine.name);
    mkdirSync(home);
    if (!machine.isMember)
      return `${KUBEADM} init phase kubeconfig kubelet --config ${configOf(machine, authority)} --kubeconfig-dir ${home}`;
    const pki = machine === first ? authority : join(home, 'pki');
    // Each control plane begins with the same CAs.
    const copied =
      machine === first
        ? ''
        : `mkdir -p ${pki}/etcd && cp ${authority}/ca.* ${authority}/front-proxy-ca.* ${authority}/sa.* ${pki} && cp ${authority}/etcd/ca.* ${pki}/etcd && `;
    const config = configOf(machine, pki);
    return `${copied}${KUBEADM} init phase certs all --config ${config} && ${KUBEADM} init phase kubeconfig all --config ${config} --kubeconfig-dir ${home}`;
  });
  const all = seconds + (await timed(directory, own));
  rmSync(directory, { recursive: true, force: true });
  return all;
}
