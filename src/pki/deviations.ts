/**
 * The differences between our certificates and files and kubeadm's, each with its reason. A test
 * checks that the list is exact.
 */

interface Deviation {
  /** What differs: the certificate or file, and the field. */
  readonly where: string;
  readonly reason: string;
}

export const PKI_DEVIATIONS = {
  algorithm: {
    where: 'every key',
    reason:
      'ECDSA P-256 by default: made in a tenth of a millisecond instead of a tenth of a second. RSA on request.',
  },
  keyEncipherment: {
    where: 'key usage of ECDSA certificates',
    reason:
      'The bit means RSA key transport; an ECDSA key cannot do it (RFC 8813, section 3). RSA certificates carry it.',
  },
  backDated: {
    where: 'notBefore',
    reason: 'A day before issuing instead of five minutes: clocks of fresh hardware are wrong by hours.',
  },
  localhost: {
    where: 'SANs of apiserver',
    reason:
      'With localhost, 127.0.0.1 and ::1: workers reach the API through a balancer on their own loopback.',
  },
  allAddresses: {
    where: 'SANs of apiserver, etcd-server and etcd-peer',
    reason:
      'All addresses of the machine instead of one: etcd refuses a peer that connects from an address not in its certificate.',
  },
  keysStay: {
    where: 'etcd/ca.key, front-proxy-ca.key',
    reason:
      'On no machine: no program of Kubernetes signs with them. kubeadm then calls both CAs externally managed.',
  },
  transportCa: {
    where: 'the transport CA, which kubeadm does not have',
    reason:
      'No alternative name, because it is no host; a path length of 1: leaves, and a bridge to its next generation.',
  },
  keyIdentifier: {
    where: 'subject key identifier of leaves',
    reason: 'All have one, so that a certificate can be matched with its key without parsing the key.',
  },
  bundles: {
    where: 'ca-bundle.crt, etcd/ca-bundle.crt, front-proxy-ca-bundle.crt, sa-verifiers.pub',
    reason:
      'Trust is a file of its own, so that two generations can be trusted while ca.crt stays the single one that signs.',
  },
  superAdmin: {
    where: 'super-admin.conf',
    reason:
      'On no machine: there is no first node, and it outranks every binding. Made for a person on demand.',
  },
  kubeconfigDirectories: {
    where: 'controller-manager.conf, scheduler.conf',
    reason:
      'The pods read others, in directories of their own, which name CA and certificate as files: these are read again without a restart. kubeadm reads only its own, with everything embedded.',
  },
  kubeletCombined: {
    where: 'kubelet.conf',
    reason: 'Names kubelet-client-current.pem from the start, as it does after kubelet’s first rotation.',
  },
} as const satisfies Readonly<Record<string, Deviation>>;

export type PkiDeviation = keyof typeof PKI_DEVIATIONS;
