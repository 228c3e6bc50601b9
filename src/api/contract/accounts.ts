/** Roles and log-ins, as they are shown. */
import { z } from 'zod';
import { type Parsed, time } from './contract.ts';

const names = z.array(z.string().min(1)).min(1).max(100).optional();

/** What limits a role; neither: it counts everywhere. */
export const limits = {
  clusters: names.meta({ description: 'Only for these clusters.' }),
  pools: names.meta({ description: 'Only for machines of these pools, while they are in no cluster.' }),
};

export const grant = z
  .strictObject({ role: z.enum(['viewer', 'operator', 'admin', 'auditor']), ...limits })
  .meta({ id: 'Grant' });
export const grants = z.array(grant);

export const loggedIn = z
  .strictObject({
    operator: z.string(),
    grants,
    until: time,
    session: z.string().optional().meta({ description: 'For programs, which send it as a bearer token.' }),
  })
  .meta({ id: 'LoggedIn' });

export type LoggedInView = Parsed<z.output<typeof loggedIn>>;

export const client = z
  .enum(['page', 'program'])
  .default('program')
  .meta({ description: '`page`: the session is in a cookie. `program`: it is in the answer.' });
export const password = z.string().max(2048);
