/** The server itself: status, backups of the boot host, monitoring. */
import { z } from 'zod';
import { type Contracts, fault, on, raw, time } from './contract.ts';

const check = z.strictObject({ name: z.string(), ok: z.boolean(), detail: z.string().optional() });
const life = z.strictObject({ life: z.int(), state: z.string(), detail: z.string().optional() });
const plain = (about: string) => raw('text/plain', about);

export const SERVER = {
  'GET /v1': {
    access: 'view',
    summary: 'Lists the routes.',
    answer: z.strictObject({
      routes: z.array(z.strictObject({ method: z.string(), path: z.string(), summary: z.string() })),
    }),
  },
  'GET /openapi.json': {
    access: 'open',
    summary: 'Describes all routes (OpenAPI 3.1).',
    answer: z.looseObject({ openapi: z.string() }),
  },
  'GET /v1/status': {
    access: 'view',
    summary: 'Shows version, readiness, and the faults of the configuration directory.',
    answer: z
      .strictObject({
        version: z.string(),
        startedAt: time,
        page: z.strictObject({ url: z.string(), authority: z.string().optional() }).optional(),
        ready: z.boolean(),
        checks: z.array(check),
        faults: z.array(fault),
        warnings: z.array(fault),
        incompleteImages: z.array(z.string()),
      })
      .meta({ id: 'Status' }),
  },
  'GET /v1/backup': {
    access: 'view',
    summary: 'Shows whether the store serves as usual, was restored, or continues elsewhere.',
    answer: life,
  },
  'POST /v1/backup': {
    access: 'administer',
    summary: 'Answers with a backup of the boot host in the clear, for `muster backup create`; secret.',
    query: z.strictObject({ assets: on('With the files of images and artifacts.') }),
    answer: raw('application/x-tar', 'The archive.'),
  },
  'POST /v1/backup/accept': {
    access: 'administer',
    summary: 'Accepts the store that was restored here as the right one.',
    answer: life,
  },
} as const satisfies Contracts;

/** The only routes that `--metrics-listen` serves. */
export const HEALTH = {
  'GET /healthz': {
    access: 'open',
    summary: 'Liveness: 200 while the process runs.',
    answer: plain('`ok`'),
  },
  'GET /readyz': {
    access: 'open',
    summary: 'Readiness: 200 when the server is ready for machines, else 503; one line for each check.',
    answer: plain('One line for each check.'),
  },
  'GET /metrics': {
    access: 'view',
    summary: 'Shows metrics in the Prometheus text format.',
    answer: plain('Metrics.'),
  },
  'GET /version': {
    access: 'open',
    summary: 'Shows the versions of Muster and Node.',
    answer: z.strictObject({ version: z.string(), node: z.string(), startedAt: time }),
  },
} as const satisfies Contracts;
