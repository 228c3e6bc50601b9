/** One line of `muster cluster status`. */
export interface Finding {
  /** What was checked. */
  readonly check:
    | 'clock'
    | 'cluster'
    | 'change'
    | 'restored'
    | 'etcd'
    | 'apiserver'
    | 'program'
    | 'node'
    | 'lease'
    | 'csr'
    | 'objects'
    | 'network'
    | 'certificate'
    | 'agent'
    | 'machine';
  /** The machine, lease or cluster that was checked. */
  readonly subject: string;
  readonly ok: boolean;
  readonly says: string;
  /** The remedy; absent when the finding is ok. */
  readonly fix?: string;
}

export interface ClusterHealth {
  readonly cluster: string;
  /** Whether every finding is ok. */
  readonly ok: boolean;
  /** ISO 8601. */
  readonly at: string;
  /** What was not checked, and why. */
  readonly scope: string;
  readonly findings: readonly Finding[];
}

/** A finding that is ok; `says` describes what was found. */
export const good = (check: Finding['check'], subject: string, says: string): Finding => ({
  check,
  subject,
  ok: true,
  says,
});

/** A finding that is not ok; `says` describes what was found, `fix` the remedy. */
export const bad = (check: Finding['check'], subject: string, says: string, fix: string): Finding => ({
  check,
  subject,
  ok: false,
  says,
  fix,
});
