/** The first few of many names for a message, and how many more there are. */
export const firstFew = (names: readonly string[], most = 5): string =>
  names.slice(0, most).join(', ') + (names.length > most ? ` and ${names.length - most} more` : '');
