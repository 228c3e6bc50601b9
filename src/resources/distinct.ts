/** Refuses a list in which two items have the same key, because merging would lose one of them. */
export function distinct<T>(what: string, keyOf: (item: T) => string | undefined) {
  return (context: { value: readonly T[]; issues: unknown[] }) => {
    const seen = new Set<string>();
    for (const [n, item] of context.value.entries()) {
      const key = keyOf(item);
      if (key === undefined) continue;
      if (seen.has(key))
        context.issues.push({
          code: 'custom',
          message: `${what} "${key}" is listed twice; keep one`,
          path: [n],
          input: item,
        });
      seen.add(key);
    }
  };
}
