/** Handlers for agents: which a cluster's machines run, and the orders about their upgrade. */
import type { AgentsOfCluster } from '../cluster/change/agents/builds.ts';
import { actorText } from '../events/actor.ts';
import type { ApiDeps } from './deps.ts';
import { type Handler, json } from './handler.ts';

type H = Handler<ApiDeps>;

const showAgents: H = ({ params: { name = '' } }, { builds }) => json(builds.show(name));

const ordering =
  (of: (deps: ApiDeps) => (cluster: string, by: string) => Promise<AgentsOfCluster>): H =>
  async ({ params: { name = '' }, peer }, deps) =>
    json(await of(deps)(name, actorText(deps.actions.actor(peer))));

const pauseAgents = ordering(
  ({ builds }) =>
    (cluster, by) =>
      builds.pause(cluster, by),
);
const resumeAgents = ordering(
  ({ builds }) =>
    (cluster, by) =>
      builds.resume(cluster, by),
);
const retryAgents = ordering(
  ({ builds }) =>
    (cluster, by) =>
      builds.retry(cluster, by),
);

export const AGENT_BUILD_HANDLERS = {
  'GET /v1/clusters/:name/agents': showAgents,
  'POST /v1/clusters/:name/agents/pause': pauseAgents,
  'POST /v1/clusters/:name/agents/resume': resumeAgents,
  'POST /v1/clusters/:name/agents/retry': retryAgents,
} as const;
