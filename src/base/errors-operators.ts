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
  E_PASSKEY: {
    title: "The browser's answer makes no passkey.",
    who: 'operator',
    http: 400,
    fix: 'Add the passkey again, and answer the browser within two minutes. The message says what did not fit.',
  },
  E_PASSKEY_ACCOUNT: {
    title: 'The log-in is not by an account that can have passkeys.',
    who: 'operator',
    http: 403,
    fix: 'Log in on the page to an account of Muster, with name and password. Users of the identity provider log in there, programs use tokens, and the local socket needs no log-in.',
  },
  E_PASSKEY_LOGIN: {
    title: 'The passkey logs nobody in.',
    who: 'operator',
    http: 401,
    fix: 'Try again, and answer the browser within two minutes; or log in with name and password. The event `operator.login-refused` says why.',
  },
  E_PASSKEY_NAME: {
    title: 'The page has no name for which passkeys could count.',
    who: 'operator',
    http: 409,
    fix: 'Browsers keep passkeys for names and never for IP addresses. Start the server with `--operators-name NAME` (`MUSTER_OPERATORS_NAME`), where NAME leads to the boot host, and open the page by that name.',
  },
  E_SECOND_PERSON: {
    title: 'The order waits for a second person.',
    who: 'operator',
    http: 428,
    fix: 'Another operator looks at `muster pending ls` and confirms it with `muster pending confirm ID`.',
  },
  E_PROOF: {
    title: 'The order needs a log-in of the last five minutes.',
    who: 'operator',
    http: 403,
    fix: 'Log in again, by password, passkey or identity provider (`muster login`), and repeat the order within five minutes. A token or certificate cannot give it; on the boot host, the local socket can.',
  },
  E_LOCAL_ADDRESS: {
    title: 'A Webhook or hook leads to the boot host itself, or to a link-local address.',
    who: 'operator',
    http: 409,
    fix: 'Name another host in the document, or start the server with `--local-webhooks yes` (`MUSTER_LOCAL_WEBHOOKS`) if a program on the boot host is meant.',
  },
  E_LOCAL_ONLY: {
    title: 'The order is possible on the boot host only.',
    who: 'operator',
    http: 403,
    fix: 'Run the command on the boot host, as root or in the group `muster`, without `--context` and `--server`.',
  },
  E_SIGNER: {
    title: 'The signer, which has the key of the vault, does not answer.',
    who: 'operator',
    http: 503,
    fix: 'Look at `systemctl status muster-signer` and its journal; docs/security.md has how it is set up.',
  },
  E_SIGNER_REFUSED: {
    title: 'The signer refuses a request by its rules.',
    who: 'operator',
    http: 403,
    fix: 'The message says which rule. On the boot host, `muster signer admit` adds a machine, and `muster signer allow` lets keys be exported or imported for five minutes.',
  },
  E_FORBIDDEN: {
    title: 'The operator does not have the role that this needs.',
    who: 'operator',
    http: 403,
    fix: 'Ask an administrator for the role that the message names.',
  },
} as const;
