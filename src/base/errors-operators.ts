/** The part of the catalogue of errors (errors.ts) about log-ins and roles. */
export const OPERATOR_ERRORS = {
  E_UNAUTHENTICATED: {
    title: 'The request does not say who sends it.',
    who: 'operator',
    http: 401,
    fix: 'Log in again: a session or token may have ended.',
  },
  E_LOGIN: {
    title: 'Name and password, or the invitation, do not fit.',
    who: 'operator',
    http: 401,
    fix: 'Try again; an administrator makes a new invitation with `muster operator invite NAME`.',
  },
  E_LOGIN_LIMIT: {
    title: 'Too many log-ins came from this address.',
    who: 'operator',
    http: 429,
    fix: 'Wait as long as the answer says (Retry-After). Other addresses are not affected.',
  },
  E_PROVIDER: {
    title: 'The identity provider cannot be asked.',
    who: 'operator',
    http: 502,
    fix: 'Check that the boot host reaches the issuer of `--oidc` by HTTPS and trusts its certificate. Accounts with a password and the local socket work without it.',
  },
  E_PROVIDER_LOGIN: {
    title: "The identity provider's answer logs nobody in.",
    who: 'operator',
    http: 401,
    fix: 'Log in again. If that fails too, compare the settings of `--oidc` with those of the client at the provider, and both clocks: they may differ by five minutes.',
  },
  E_SECOND_PERSON: {
    title: 'The order waits for a second person.',
    who: 'operator',
    http: 428,
    fix: 'Another operator looks at `muster pending ls` and confirms it with `muster pending confirm ID`.',
  },
  E_FORBIDDEN: {
    title: 'The operator does not have the role that this needs.',
    who: 'operator',
    http: 403,
    fix: 'Ask an administrator for the role that the message names.',
  },
} as const;
