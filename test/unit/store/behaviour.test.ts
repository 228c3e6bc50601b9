import { behaves } from './behaviour.ts';
import { STORES } from './stores.ts';

for (const [name, open] of Object.entries(STORES)) behaves(name, open, { grouped: false });
