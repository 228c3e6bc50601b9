/** For kinds of change whose records a test makes itself: nobody orders one. */
import { z } from 'zod';

export const NOT_ORDERED = {
  request: z.looseObject({ kind: z.string() }),
  prepare: () => Promise.reject(new Error('nobody orders it here')),
};
