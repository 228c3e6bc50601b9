/** Facts of a machine that labels of its Node can have as values; machines/inventory-facts.ts. */
export const NODE_FACTS = [
  'manufacturer',
  'product',
  'processor',
  'threads',
  'memoryGiB',
  'nvmeDisks',
  'switch',
] as const;
export type NodeFact = (typeof NODE_FACTS)[number];
