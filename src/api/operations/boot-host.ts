/** The boot host itself: status, backups, the description of this API, and monitoring. */
import { z } from 'zod';
import type { Metrics } from '../../base/metrics.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import { CLUSTER_CONDITIONS, type ClusterWord } from '../../cluster/health/condition.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import type { Life } from '../../store/life.ts';
import type { Overview } from '../concern-watch.ts';
import { CONCERNS, type ConcernCode } from '../concerns.ts';
import { fault, on, raw as rawType, time } from '../contract/contract.ts';
import type { Daemon } from '../daemon.ts';
import { text } from '../handler.ts';
import { operation, raw } from '../operation.ts';
import { timestamp } from '../times.ts';

interface Deps {
  readonly catalog: LiveCatalog;
  /** Backups of this boot host, and the life of its store. */
  readonly hostBackup: {
    readonly life: Life;
    /** The archive of a backup; it is secret. */
    readonly archive: (wanted: { readonly assets: boolean }) => AsyncIterable<Uint8Array>;
  };
  /** Gathers what needs an operator now. */
  readonly overview: () => Promise<Overview>;
  /** Where operators log in, `https://HOST:PORT`; undefined without an HTTPS listener. */
  readonly page?: string | undefined;
  /** The SHA-256 fingerprint of the CA of that listener, if it is Muster's own. */
  readonly pageAuthority: () => string | undefined;
  readonly daemon: Daemon;
}

const check = z.strictObject({ name: z.string(), ok: z.boolean(), detail: z.string().optional() });
const concern = z.strictObject({
  code: z.enum(Object.keys(CONCERNS) as ConcernCode[]),
  level: z.enum(['urgent', 'soon']),
  subject: z.string(),
  text: z.string(),
  fix: z.string(),
});
const life = z.strictObject({ life: z.int(), state: z.string(), detail: z.string().optional() });
const plain = (about: string) => rawType('text/plain', about);

const lifeOf = ({ hostBackup: { life } }: Pick<Deps, 'hostBackup'>) => ({
  life: life.number,
  state: life.state,
  ...(life.detail !== undefined && { detail: life.detail }),
});

export const BOOT_HOST = [
  operation(
    'GET /v1/status',
    {
      access: 'view',
      summary: 'Shows version, readiness, and what needs an operator, the worst first.',
      answer: z
        .strictObject({
          version: z.string(),
          startedAt: time,
          page: z.strictObject({ url: z.string(), authority: z.string().optional() }).optional(),
          ready: z.boolean(),
          checks: z.array(check),
          concerns: z.array(concern),
          checked: z
            .strictObject({
              machines: z.int(),
              clusters: z.array(
                z.strictObject({
                  name: z.string(),
                  condition: z.enum(Object.keys(CLUSTER_CONDITIONS) as ClusterWord[]),
                  checks: z.int(),
                  at: z.string().optional(),
                }),
              ),
            })
            .meta({ description: 'What was looked at; `checks` is 0 where no look is recent.' }),
          faults: z.array(fault),
          warnings: z.array(fault),
          incompleteImages: z.array(z.string()),
        })
        .meta({ id: 'Status' }),
    },
    async (_asked, deps: Pick<Deps, 'daemon' | 'page' | 'pageAuthority' | 'catalog' | 'overview'>) => ({
      version: deps.daemon.version,
      startedAt: timestamp(deps.daemon.startedAt),
      ...(deps.page !== undefined && { page: { url: deps.page, authority: deps.pageAuthority() } }),
      ...deps.daemon.readiness(),
      faults: deps.catalog.faults(),
      ...(await deps.overview()),
    }),
  ),
  operation(
    'GET /v1/backup',
    {
      access: 'view',
      summary: 'Shows whether the store serves as usual, was restored, or continues elsewhere.',
      answer: life,
    },
    (_asked, deps: Pick<Deps, 'hostBackup'>) => lifeOf(deps),
  ),
  operation(
    'POST /v1/backup',
    {
      access: 'administer',
      takes: 'socket',
      summary: 'Answers with a backup of the boot host in the clear, for `muster backup create`; secret.',
      query: z.strictObject({ assets: on('With the files of images and artifacts.') }),
      answer: rawType('application/x-tar', 'The archive.'),
    },
    ({ query }, { hostBackup }: Pick<Deps, 'hostBackup'>) => {
      beforeChange('give out all keys and records');
      const body = hostBackup.archive({ assets: query.assets ?? false });
      return raw({ status: 200, headers: { 'content-type': 'application/x-tar' }, body });
    },
  ),
  operation(
    'POST /v1/backup/accept',
    {
      access: 'administer',
      takes: 'both',
      summary: 'Accepts the store that was restored here as the right one.',
      answer: life,
    },
    async (_asked, deps: Pick<Deps, 'hostBackup'>) => {
      await deps.hostBackup.life.accept();
      return lifeOf(deps);
    },
  ),
] as const;

export interface HealthDeps {
  readonly daemon: Pick<Daemon, 'version' | 'startedAt' | 'readiness'>;
  readonly metrics: Metrics;
}

/** The only routes that `--metrics-listen` serves. */
export const HEALTH = [
  operation(
    'GET /healthz',
    { access: 'open', summary: 'Liveness: 200 while the process runs.', answer: plain('`ok`') },
    (_asked, _deps: HealthDeps) => raw(text('ok\n')),
  ),
  operation(
    'GET /readyz',
    {
      access: 'open',
      summary: 'Readiness: 200 when the server is ready for machines, else 503; one line for each check.',
      answer: plain('One line for each check.'),
    },
    (_asked, { daemon }: HealthDeps) => {
      const { ready, checks } = daemon.readiness();
      const lines = checks.map(
        ({ name, ok, detail }) => `${ok ? 'ok  ' : 'WAIT'} ${name}${detail ? `: ${detail}` : ''}\n`,
      );
      const answer = text(
        `${ready ? 'ready' : 'not ready'}\n${lines.join('')}`,
        undefined,
        ready ? 200 : 503,
      );
      return raw(ready ? answer : { ...answer, headers: { ...answer.headers, 'retry-after': '1' } });
    },
  ),
  operation(
    'GET /metrics',
    {
      access: 'view',
      costly: true,
      summary: 'Shows metrics in the Prometheus text format.',
      answer: plain('Metrics.'),
    },
    async (_asked, { metrics }: HealthDeps) =>
      raw(text(await metrics.text(), 'text/plain; version=0.0.4; charset=utf-8')),
  ),
  operation(
    'GET /version',
    {
      access: 'open',
      summary: 'Shows the versions of Muster and Node.',
      answer: z.strictObject({ version: z.string(), node: z.string(), startedAt: time }),
    },
    (_asked, { daemon }: HealthDeps) => ({
      version: daemon.version,
      node: process.versions.node,
      startedAt: timestamp(daemon.startedAt),
    }),
  ),
] as const;
