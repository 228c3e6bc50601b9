/** The answer to a request for which there is no route. Pure. */
import { MusterError } from '../base/errors.ts';
import type { ApiResponse, Route } from './handler.ts';
import { problemOf, problemResponse } from './problem.ts';

/** 404 for an unknown path, 405 for another method. */
export function noRoute<D>(
  routes: readonly Route<D>[],
  { path, method }: { readonly path: string; readonly method: string },
): ApiResponse {
  const fitting = routes.filter((route) => fits(route.path, path));
  const allowed = [...new Set(fitting.map((route) => route.method))];
  if (allowed.length === 0) {
    const error = new MusterError('E_NOT_FOUND', `no route is at ${path}; GET /v1 lists the routes`);
    return problemResponse(problemOf(error));
  }
  const error = new MusterError('E_METHOD', `the route ${path} does not have the method ${method}`);
  return problemResponse(problemOf(error), { allow: allowed.join(', ') });
}

/** Whether a path matches the pattern of a route, segment by segment. */
function fits(route: string, path: string): boolean {
  const wanted = route.split('/');
  const given = path.split('/');
  return (
    wanted.length === given.length &&
    wanted.every((segment, n) => segment.startsWith(':') || segment === given[n])
  );
}
