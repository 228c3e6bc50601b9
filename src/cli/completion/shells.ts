/** The shells for which `muster completion` has a script. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
