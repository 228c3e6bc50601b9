/**
 * What an agent observed about keys on its machine, by asking the listeners and processes there
 * instead of by reading the files that it wrote. An agent can falsify evidence only about its own
 * machine.
 */

/** The listeners of a machine that an agent asks. */
export const LISTENERS = [
  'kube-apiserver',
  'kubelet',
  'kube-controller-manager',
  'kube-scheduler',
  'etcd-client',
  'etcd-peer',
] as const;
export type Listener = (typeof LISTENERS)[number];

/**
 * How a listener answered a client whose certificate was issued by one generation of its CA. It is
 * the answer to a whole request, because most listeners only request a certificate, and TLS 1.3
 * refuses one after the handshake.
 */
export const ANSWERS = ['accepted', 'refused', 'unreachable'] as const;
export type ProbeAnswer = (typeof ANSWERS)[number];

export interface ListenerEvidence {
  /**
   * The authority key identifier of the certificate that the listener shows, hex in lower case:
   * which generation issued it. Absent while the listener does not answer.
   */
  readonly issuer?: string;
  /** Generation id (src/pki/keyset.ts) → how the listener answered a client of that generation. */
  readonly probes: Readonly<Record<string, ProbeAnswer>>;
}

/** Programs whose running process or container says with which revision it was started. */
export const REVISED = ['kubelet', 'kube-controller-manager', 'kube-scheduler', 'haproxy'] as const;
export type Revised = (typeof REVISED)[number];

export interface KeyEvidence {
  readonly listeners: Partial<Readonly<Record<Listener, ListenerEvidence>>>;
  /**
   * `MUSTER_REVISION` of the processes, `-` if a process has none. A program that does not run is
   * absent. etcd's and the API server's are in `AgentFacts.etcd` and `AgentFacts.apiserver`.
   */
  readonly revisions: Partial<Readonly<Record<Revised, string>>>;
  /** The authority key identifier of the client certificate that kubelet uses, hex. */
  readonly kubeletClient?: string;
  /** SHA-256, hex, of the encryption configuration that the API server says it has loaded. */
  readonly encryption?: string;
  /**
   * Key id (`kid`) → how many service-account tokens in this machine's pods are signed with that
   * key.
   */
  readonly tokens: Readonly<Record<string, number>>;
}
