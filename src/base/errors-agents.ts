/** The part of the catalogue of errors (errors.ts) about agents and their certificates. */
export const AGENT_ERRORS = {
  E_TICKET: {
    title: 'A ticket was refused.',
    who: 'machine',
    http: 403,
    fix: '`muster events MACHINE` shows why; each boot gets a new ticket.',
  },
  E_TICKET_KEY: {
    title: 'Two keys requested a certificate for one machine.',
    who: 'operator',
    http: 409,
    fix: 'Find out which system asked; then run `muster machine rearm MACHINE`, which lets the next key have a certificate.',
  },
  E_APPROVAL: {
    title: "A machine's key was not approved.",
    who: 'operator',
    http: 409,
    fix: '`muster machine waiting` lists the keys that wait; type the code that the console of the machine shows now.',
  },
  E_AGENT_CERTIFICATE: {
    title: "An agent's certificate is not accepted.",
    who: 'machine',
    http: 401,
    fix: '`muster events MACHINE` shows why; `muster machine rearm MACHINE` and a new boot give the machine a new certificate.',
  },
  E_DATA_KEY: {
    title: 'The key of an encrypted data filesystem is not given.',
    who: 'operator',
    http: 403,
    fix: '`muster events MACHINE` shows why, and from which address the machine asked.',
  },
  E_CERTIFICATE_LIMIT: {
    title: 'A machine asked for too many certificates.',
    who: 'operator',
    http: 429,
    fix: 'It gets the next one when the message says. If the machine was not restarted many times, find out what asks in its name: `muster events MACHINE`.',
  },
} as const;
