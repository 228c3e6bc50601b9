/**
 * The steps of a rotation of Muster's own keys: the transport CA, by which agents and the agents'
 * listener authenticate each other, and the secret from which tickets are derived. Pure.
 *
 * generate → trust → issue → tickets → distrust → forget → end-tickets
 *
 * Nothing restarts. Agents trust both generations before the new one signs. The new one also has a
 * bridge, so machines that got their configuration earlier and have not asked yet accept it, too.
 *
 * In an emergency (`muster pki distrust --now`) agents that ask within {@link MOVED_WITHIN} get new
 * certificates; then the old ones are refused.
 */
import { duration } from '../../../base/duration.ts';
import {
  type ChangeTable,
  done,
  type MachineSeen,
  type Route,
  type Scope,
  type Step,
  type StepInput,
  type Verdict,
  waiting,
} from '../step.ts';
import type { OwnOrder, OwnSeen } from './order.ts';

type OwnStep = Step<OwnOrder, OwnSeen>;
type Input = StepInput<OwnOrder, OwnSeen>;

/**
 * How long an emergency waits for agents: a settled one asks every 30 seconds, and up to a quarter
 * of that later.
 */
export const MOVED_WITHIN = duration('45s');

const BOOT_HOST: Scope = { on: 'boot-host' };
const AGENTS: Scope = { on: 'machines', roles: 'any', atOnce: 'all' };

/** The agent reports that it trusts exactly the CA certificates that machines get now. */
function trusts({ facts }: MachineSeen, { cluster }: Input): Verdict {
  if (facts?.trust === undefined) return waiting('its agent does not say which CA it trusts');
  return facts.trust === cluster.trust
    ? done(`it trusts ${facts.trust.slice(0, 16)}`)
    : waiting('it still trusts other CA certificates');
}

/** The agent asked with a certificate of the generation, and accepted one of the listener's. */
const issuedBy =
  (which: 'from' | 'to') =>
  ({ name, listener }: MachineSeen, { order, cluster }: Input): Verdict => {
    const wanted = order.ca?.[which];
    const has = cluster.certificates.get(name);
    if (has !== wanted) return waiting(`its agent still has a certificate of ${has ?? 'no generation'}`);
    if (listener !== wanted) return waiting("it has not seen the listener's new certificate yet");
    return done(`agent and listener show certificates of ${wanted}`);
  };

const generate = (): OwnStep => ({
  name: 'generate',
  sentence: 'The boot host makes a new transport CA; nothing uses it yet.',
  scope: BOOT_HOST,
  acts: true,
  takes: {},
});

const trust = (): OwnStep => ({
  name: 'trust',
  sentence:
    'Every agent trusts the new CA next to the old one; so does every machine that boots from now on.',
  scope: AGENTS,
  acts: true,
  takes: { total: duration('30s') },
  machine: trusts,
});

const issue = (): OwnStep => ({
  name: 'issue',
  sentence: "The new CA signs: the certificates of the agents' listener, and of each agent at its next poll.",
  scope: AGENTS,
  acts: true,
  takes: { total: duration('30s') },
  machine: issuedBy('to'),
});

const tickets = ({ emergency }: OwnOrder): OwnStep => ({
  name: 'tickets',
  sentence: emergency
    ? 'New tickets come from a new secret; machines that boot now with an old ticket have to boot again.'
    : 'New tickets come from a new secret; old ones are accepted until their boots are over.',
  scope: BOOT_HOST,
  acts: true,
  takes: {},
  ...(emergency && { noReturn: true as const }),
});

const distrust = (): OwnStep => ({
  name: 'distrust',
  sentence:
    'Nothing trusts the old CA any more, and the listener refuses agents that have only its certificates.',
  scope: AGENTS,
  acts: true,
  noReturn: true,
  takes: { total: duration('30s') },
  machine: trusts,
});

const forget = (): OwnStep => ({
  name: 'forget',
  sentence: 'The boot host deletes the old CA; `muster login` has to be repeated where it was trusted.',
  scope: BOOT_HOST,
  acts: true,
  takes: {},
});

const endTickets = (): OwnStep => ({
  name: 'end-tickets',
  sentence: 'The boot host deletes the old secret when no boot session can have one of its tickets any more.',
  scope: BOOT_HOST,
  takes: {},
  whole: ({ cluster: { oldTicketsUntil } }) =>
    oldTicketsUntil === undefined
      ? done('no ticket of the old secret is accepted')
      : waiting(`tickets of the old secret are accepted until ${new Date(oldTicketsUntil).toISOString()}`),
});

/** In an emergency: what has not moved when the time is over is cut off. */
const replace = (): OwnStep => ({
  name: 'replace',
  sentence: 'The new CA signs, and agents that ask now get certificates of it.',
  scope: BOOT_HOST,
  acts: true,
  takes: { total: MOVED_WITHIN },
  whole: ({ order, cluster, age }) => {
    const behind = [...cluster.certificates].flatMap(([name, has]) => (has === order.ca?.to ? [] : [name]));
    if (behind.length === 0) return done('all agents have certificates of the new CA');
    if (age < MOVED_WITHIN) return waiting(`${behind.length} agents have certificates of the old CA`);
    return done(`cut off until they boot: ${behind.join(', ')}`);
  },
});

const endOld = (): OwnStep => ({
  name: 'distrust',
  sentence:
    'The listener refuses the old CA; agents that have no new certificate are cut off until they boot.',
  scope: BOOT_HOST,
  acts: true,
  noReturn: true,
  takes: {},
});

function forward(order: OwnOrder): Route<OwnOrder, OwnSeen> {
  const { ca, emergency } = order;
  const replaced = order.tickets ? [tickets(order)] : [];
  if (emergency) return ca ? [generate(), replace(), ...replaced, endOld(), forget()] : replaced;
  return [
    ...(ca ? [generate(), trust(), issue()] : []),
    ...replaced,
    ...(ca ? [distrust(), forget()] : []),
    ...(order.tickets ? [endTickets()] : []),
  ];
}

const signAgain = (): OwnStep => ({
  name: 'sign-again',
  sentence: 'The old keys sign again, and agents get certificates of the old CA.',
  scope: AGENTS,
  acts: true,
  takes: { total: duration('30s') },
  machine: (machine, input) =>
    input.order.ca ? issuedBy('from')(machine, input) : done('its certificates stayed the same'),
});

const untrust = (): OwnStep => ({
  name: 'untrust',
  sentence: 'Nothing trusts the new CA any more.',
  scope: AGENTS,
  acts: true,
  takes: { total: duration('30s') },
  machine: trusts,
});

const forgetNew = (): OwnStep => ({
  name: 'forget-new',
  sentence: 'The boot host deletes the new CA.',
  scope: BOOT_HOST,
  acts: true,
  takes: {},
});

const back = ({ ca }: OwnOrder): Route<OwnOrder, OwnSeen> => [
  signAgain(),
  ...(ca ? [untrust(), forgetNew()] : []),
];

export const OWN_ROTATION: ChangeTable<OwnOrder, OwnSeen> = { forward, back };
