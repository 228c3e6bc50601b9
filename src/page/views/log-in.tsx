/** The log-in: by password, by passkey, by identity provider, or with an invitation. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { ask, whyLoggedOut } from '../base/http.ts';
import { canUsePasskeys, logInWithPasskey } from '../base/passkeys.ts';
import { learnWho, logIn, proving, redeem, who } from '../base/session.ts';
import { Dialog } from '../parts/dialog.tsx';
import { TextField } from '../parts/field.tsx';
import { PasskeysElsewhere, ProblemNote } from '../parts/note.tsx';
import { useOrder } from '../parts/use.ts';

/** Why the identity provider's answer logged nobody in, by the code that the server gave. */
const REFUSED: Readonly<Record<string, string>> = {
  E_FORBIDDEN: 'The identity provider knows you, but no rule of this server gives you a role.',
  E_PROVIDER: 'The identity provider does not answer the boot host. Passwords work without it.',
  E_PROVIDER_LOGIN: 'The log-in at the identity provider did not succeed. Try it again.',
  E_LOGIN_LIMIT: 'Too many log-ins failed from this address. Wait a minute.',
};

/** Why a log-in is asked for, where a session has ended. */
const Why = () =>
  whyLoggedOut.value === undefined ? null : (
    <p class="note warn" role="status">
      {whyLoggedOut.value}.
    </p>
  );

interface WaysProps {
  readonly refused: string | undefined;
  /** The identity provider is asked in another tab, because this one keeps what was typed. */
  readonly stays?: boolean;
  readonly done?: () => void;
}

function OtherWays({ refused, stays = false, done }: WaysProps) {
  const [ways, setWays] = useState<Answer<'GET /v1/login'>>({});
  useEffect(() => void ask('GET /v1/login').then(setWays, () => {}), []);
  const { busy, error, run } = useOrder();
  const { passkeys } = ways;
  return (
    <>
      {refused !== undefined && (
        <p class="note bad" role="alert">
          {REFUSED[refused] ?? 'The log-in was refused.'} The event <code>operator.login-refused</code> says
          why.
        </p>
      )}
      {passkeys && passkeys.page !== location.origin && <PasskeysElsewhere page={passkeys.page} />}
      {passkeys && passkeys.page === location.origin && canUsePasskeys() && (
        <button type="button" disabled={busy} onClick={() => void run(() => logInWithPasskey().then(done))}>
          Use a passkey
        </button>
      )}
      <ProblemNote error={error} />
      {ways.provider && (
        <button
          type="button"
          onClick={() => {
            if (stays) window.open('/v1/login/provider', '_blank', 'noopener');
            else location.assign('/v1/login/provider');
          }}
        >
          Log in with {ways.provider.name} {stays && '(in another tab)'}
        </button>
      )}
    </>
  );
}

/**
 * The log-in over a page whose session ended. The page is hidden below, as it was, and is shown
 * again when somebody logged in, here or in another tab.
 */
export function LogInAgain({ name }: { readonly name: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [operator, setOperator] = useState(name);
  const [password, setPassword] = useState('');
  const { busy, error, run } = useOrder();
  const open = (): void => dialog.current?.showModal();
  useEffect(() => {
    const before = document.activeElement;
    const look = (): void => void learnWho().catch(() => {});
    open();
    window.addEventListener('focus', look);
    return () => {
      window.removeEventListener('focus', look);
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} class="log-in" aria-labelledby="log-in-again" onClose={open}>
      <h1 id="log-in-again">Log in again</h1>
      <Why />
      <p>What you typed is kept.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(() => logIn(operator, password));
        }}
      >
        <TextField label="Name" value={operator} set={setOperator} autocomplete="username" required />
        <TextField
          label="Password"
          type="password"
          value={password}
          set={setPassword}
          autocomplete="current-password"
          required
          autoFocus
        />
        <ProblemNote error={error} />
        <button type="submit" class="primary" disabled={busy}>
          Log in
        </button>
      </form>
      <OtherWays refused={undefined} stays />
    </dialog>
  );
}

/** The log-in that an order asks for which gives out keys; the page stays as it is below. */
export function Prove() {
  const [password, setPassword] = useState('');
  const { busy, error, run } = useOrder();
  const close = (): void => {
    proving.value = false;
  };
  return (
    <Dialog title="Log in again" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run(() => logIn(who.value!.name, password).then(close));
        }}
      >
        <p>The order needs a log-in of the last five minutes. Give it again afterwards.</p>
        <TextField
          label={`Password of ${who.value!.name}`}
          type="password"
          value={password}
          set={setPassword}
          autocomplete="current-password"
          required
          autoFocus
        />
        <ProblemNote error={error} />
        <button type="submit" class="primary" disabled={busy}>
          Log in
        </button>
        <OtherWays refused={undefined} stays done={close} />
      </form>
    </Dialog>
  );
}

export function LogIn({
  invitation,
  refused,
  used,
}: {
  readonly invitation: string | undefined;
  /** The code of an error with which the identity provider's log-in ended. */
  readonly refused?: string | undefined;
  readonly used: () => void;
}) {
  const [operator, setOperator] = useState('');
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  const { busy, error, run } = useOrder();
  const [differ, setDiffer] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    setDiffer(invitation !== undefined && again !== password);
    if (invitation === undefined) void run(() => logIn(operator, password));
    else if (again === password)
      void run(async () => {
        await redeem(invitation, password);
        used();
      });
  };
  return (
    <main class="log-in" id="main">
      <h1>
        <img src={new URL('../icon.svg', import.meta.url).href} alt="" width="32" height="32" /> Muster
      </h1>
      {invitation === undefined && <Why />}
      {invitation !== undefined && <p>Welcome. Choose a password, with which you log in from now on.</p>}
      <form onSubmit={submit}>
        {invitation === undefined && (
          <TextField
            label="Name"
            value={operator}
            set={setOperator}
            autocomplete="username"
            required
            autoFocus
          />
        )}
        <TextField
          label="Password"
          type="password"
          value={password}
          set={setPassword}
          autocomplete={invitation === undefined ? 'current-password' : 'new-password'}
          required
        />
        {invitation !== undefined && (
          <TextField
            label="Password again"
            type="password"
            value={again}
            set={setAgain}
            autocomplete="new-password"
            required
          />
        )}
        {differ && (
          <p class="note bad" role="alert">
            The two passwords are different.
          </p>
        )}
        <ProblemNote error={error} />
        <button type="submit" class="primary" disabled={busy}>
          {invitation === undefined ? 'Log in' : 'Set password and log in'}
        </button>
      </form>
      {invitation === undefined && <OtherWays refused={refused} />}
      {invitation === undefined && (
        <p class="dim">
          Without a password, ask an administrator for an invitation: <code>muster operator invite NAME</code>
        </p>
      )}
    </main>
  );
}
