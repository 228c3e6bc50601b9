/** Orders that wait for a second person. */
import { z } from 'zod';
import { type Contracts, listOf, part, time } from './contract.ts';

export const pendingOrder = z
  .strictObject({
    id: z.string(),
    by: z.string().meta({ description: 'Who ordered it.' }),
    at: time,
    until: time.meta({ description: 'Then it is forgotten.' }),
    route: z.string(),
    path: z.string().meta({ description: 'With the names of cluster and machine.' }),
    body: z.looseObject({}).meta({ description: 'What exactly was ordered.' }),
  })
  .meta({ id: 'PendingOrder' });

export const PENDING = {
  'GET /v1/pending': {
    access: 'view',
    summary: 'Lists orders that wait for a second person, where the site asks for one.',
    query: z.strictObject(part),
    answer: listOf('PendingOrderList', pendingOrder),
  },
  'POST /v1/pending/:id/confirm': {
    access: 'administer',
    summary: 'Carries out the order of another operator; answers as that order does.',
    answer: z.looseObject({}),
  },
  'DELETE /v1/pending/:id': {
    access: 'administer',
    summary: 'Withdraws an order that waits.',
    answer: pendingOrder,
  },
} as const satisfies Contracts;
