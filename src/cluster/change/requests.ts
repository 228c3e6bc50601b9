/** The requests for all kinds of change. Pure. */
import { agentsRequest } from './agents/order.ts';
import { healRequest } from './heal/order.ts';
import { ownRequest } from './own/order.ts';
import { rollRequest } from './roll/order.ts';
import { rotationRequest } from './rotation/order.ts';
import { upgradeRequest } from './upgrade/order.ts';

export const REQUESTS = [
  rotationRequest,
  ownRequest,
  upgradeRequest,
  rollRequest,
  agentsRequest,
  healRequest,
] as const;
