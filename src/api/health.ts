/**
 * Handlers for monitoring: liveness, readiness, metrics, version. The TCP listener serves these and
 * nothing else.
 */
import { bind } from './bind.ts';
import { HEALTH } from './contract/server.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json, type Route, text } from './handler.ts';
import { timestamp } from './times.ts';

export type HealthDeps = Pick<ApiDeps, 'daemon' | 'metrics'>;
type H = Handler<HealthDeps>;

/** Liveness: always 200. */
const healthz: H = () => text('ok\n');

/** Readiness: 200 or 503; the body has a line for each check. */
const readyz: H = (_request, { daemon }) => {
  const { ready, checks } = daemon.readiness();
  const lines = checks.map(
    ({ name, ok, detail }) => `${ok ? 'ok  ' : 'WAIT'} ${name}${detail ? `: ${detail}` : ''}\n`,
  );
  const answer = text(`${ready ? 'ready' : 'not ready'}\n${lines.join('')}`, undefined, ready ? 200 : 503);
  return ready ? answer : { ...answer, headers: { ...answer.headers, 'retry-after': '1' } };
};

const metricsText: H = async (_request, { metrics }) =>
  text(await metrics.text(), 'text/plain; version=0.0.4; charset=utf-8');

const version: H = (_request, { daemon }) =>
  json({ version: daemon.version, node: process.versions.node, startedAt: timestamp(daemon.startedAt) });

/** The health routes; `--metrics-listen` serves only these. */
export const HEALTH_ROUTES: readonly Route<HealthDeps>[] = bind(HEALTH, {
  'GET /healthz': healthz,
  'GET /readyz': readyz,
  'GET /metrics': metricsText,
  'GET /version': version,
});
