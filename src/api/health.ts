/**
 * What monitors ask: alive, ready, metrics, version. Also on the TCP listener, where nothing else
 * is.
 */
import type { ApiDeps } from './deps.ts';
import { type Handler, json, type Route, text } from './handler.ts';
import { timestamp } from './times.ts';

export type HealthDeps = Pick<ApiDeps, 'daemon' | 'metrics'>;
type H = Handler<HealthDeps>;

/** 200 as long as the process answers at all. */
const healthz: H = () => text('ok\n');

/** 200 when every check holds, else 503; the body has a line for each. */
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

/** Also the whole of what `--metrics-listen` serves. */
export const HEALTH_ROUTES: readonly Route<HealthDeps>[] = [
  {
    method: 'GET',
    path: '/healthz',
    summary: 'Alive: 200 as long as the process answers.',
    handler: healthz,
  },
  {
    method: 'GET',
    path: '/readyz',
    summary: 'Ready: 200 when machines are served, else 503; one line for each check.',
    handler: readyz,
  },
  {
    method: 'GET',
    path: '/metrics',
    summary: 'Metrics in the Prometheus text format.',
    handler: metricsText,
  },
  { method: 'GET', path: '/version', summary: 'Version of Muster and of Node.', handler: version },
];
