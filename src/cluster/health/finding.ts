/** The lines of `muster cluster status`. */
import { z } from 'zod';
import type { Parsed } from '../../base/body.ts';

const finding = z.strictObject({
  /** What was checked. */
  check: z.enum([
    'cluster',
    'clock',
    'change',
    'restored',
    'etcd',
    'apiserver',
    'program',
    'node',
    'lease',
    'csr',
    'objects',
    'network',
    'certificate',
    'agent',
    'machine',
  ]),
  /** The machine, lease or cluster that was checked. */
  subject: z.string(),
  ok: z.boolean(),
  says: z.string(),
  /** The remedy; absent when the finding is ok. */
  fix: z.string().optional(),
});
/** One line of `muster cluster status`. */
export type Finding = Parsed<z.output<typeof finding>>;

/** The health of a cluster, as the API shows it; `ok`: every finding is. */
export const clusterHealth = z
  .strictObject({
    cluster: z.string(),
    ok: z.boolean(),
    at: z.string().meta({ description: 'RFC 3339.' }),
    scope: z.string().meta({ description: 'What was not checked, and why.' }),
    findings: z.array(finding),
  })
  .meta({ id: 'ClusterHealth' });
export type ClusterHealth = Parsed<z.output<typeof clusterHealth>>;

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
