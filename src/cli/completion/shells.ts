/** The shells that `muster completion` has a script for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
