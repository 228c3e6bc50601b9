/** The values that `muster secret put --generate` can make. */
export const GENERATED = ['password', 'password-hash', 'token', 'hex'] as const;
