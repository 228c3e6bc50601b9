/** The table of states of a machine's life. */

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { allowedIn, LIFE, LIFE_ORDERS, LIFE_STATES } from '../../../src/machines/life/life.ts';
import { afterOrder } from '../../../src/machines/life/orders.ts';

test('docs/life.md shows each state, its meaning and its orders as the table has them', () => {
  const page = readFileSync(new URL('../../../docs/life.md', import.meta.url), 'utf8');
  for (const state of LIFE_STATES) {
    const orders =
      allowedIn(state)
        .map((order) => `\`${order}\``)
        .join(', ') || 'none';
    expect(page).toContain(`| \`${state}\` | ${LIFE[state].about} | ${orders} |`);
  }
});

test('an order that does not fit is refused with the state, what it allows, and what comes next', () => {
  for (const state of LIFE_STATES)
    for (const order of LIFE_ORDERS) {
      const allowed = allowedIn(state);
      if (allowed.includes(order)) expect(LIFE_STATES).toContain(afterOrder('m1', state, order));
      else
        expect(() => afterOrder('m1', state, order)).toThrow(
          new RegExp(
            `m1 is ${state}, which allows ${allowed.join(', ') || 'no order'}, not ${order}; next: `,
          ),
        );
    }
});
