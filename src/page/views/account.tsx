/** The operator's own account: roles, password, sessions and passkeys. */
import { useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { grantsText } from '../base/grants.ts';
import { ask, Problem } from '../base/http.ts';
import { addPasskey, canUsePasskeys, removePasskey } from '../base/passkeys.ts';
import { learnWho, may, who } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { Badge } from '../parts/badge.tsx';
import { Facts } from '../parts/facts.tsx';
import { TextField } from '../parts/field.tsx';
import { Empty, Loading, PasskeysElsewhere, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { useResource } from '../parts/use.ts';

type List = Answer<'GET /v1/passkeys'>;

export function Account() {
  const { name, grants } = who.value!;
  return (
    <div class="stack">
      <h1>{name}</h1>
      <Facts facts={[['Roles', grantsText(grants)]]} />
      {!may('administer') && <p class="dim">An administrator of the whole site gives and takes roles.</p>}
      <PasswordAndSessions />
      <h2>Passkeys</h2>
      <p class="dim">
        With a passkey you log in by finger, face or PIN of this device or of a security key, without a
        password. Your password stays.
      </p>
      <Passkeys />
    </div>
  );
}

function Passkeys() {
  const { value, error, reload } = useResource('GET /v1/passkeys');
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="passkeys" />;
  const { page, refused, items } = value;
  const here = page === location.origin;
  return (
    <>
      {refused !== undefined && <ProblemNote error={new Problem({ ...refused, status: 0 })} />}
      {page !== undefined && !here && <PasskeysElsewhere page={page} />}
      {here && (canUsePasskeys() ? <Add added={reload} /> : <p>This browser has no passkeys.</p>)}
      {items.length > 0 && <PasskeyTable items={items} removed={reload} />}
      {items.length === 0 && here && <Empty title="You have no passkey yet" />}
    </>
  );
}

function Add({ added }: { readonly added: () => void }) {
  const [label, setLabel] = useState('');
  const [password, setPassword] = useState('');
  const give = async (): Promise<void> => {
    await addPasskey(label, password);
    setLabel('');
    setPassword('');
    added();
  };
  return (
    <div class="line">
      <Order label="Add a passkey" title="Add a passkey" give={give}>
        <TextField
          label="What you call it"
          value={label}
          set={setLabel}
          autocomplete="off"
          placeholder="laptop"
          required
          autoFocus
        />
        <TextField
          label="Password"
          type="password"
          value={password}
          set={setPassword}
          autocomplete="current-password"
          required
        />
      </Order>
    </div>
  );
}

const COLUMNS: readonly Cell<List['items'][number]>[] = [
  { heading: 'Name', cell: ({ label }) => label },
  { heading: 'Added', cell: ({ createdAt }) => moment(createdAt) },
  { heading: 'Last used', cell: ({ usedAt }) => (usedAt === undefined ? 'never' : moment(usedAt)) },
];

function PasskeyTable({ items, removed }: { readonly items: List['items']; readonly removed: () => void }) {
  return (
    <Table
      label="Passkeys"
      columns={COLUMNS}
      rows={items}
      keyOf={({ id }) => id}
      orders={({ id, label }) => (
        <Order
          label="Remove"
          title={`Remove the passkey ${label}`}
          danger
          give={async () => {
            await removePasskey(id);
            removed();
          }}
        >
          <p>It logs nobody in any more. Remove it from your device or security key as well.</p>
        </Order>
      )}
    />
  );
}

function PasswordAndSessions() {
  const [changes, setChanges] = useState(0);
  return (
    <>
      <h2>Password</h2>
      <Password changed={() => setChanges(changes + 1)} />
      {changes > 0 && <Badge tone="good">changed; your other sessions have ended</Badge>}
      <h2>Sessions</h2>
      <Sessions key={changes} />
    </>
  );
}

function Password({ changed }: { readonly changed: () => void }) {
  const [password, setPassword] = useState('');
  const [next, setNext] = useState('');
  const [again, setAgain] = useState('');
  const give = async (): Promise<void> => {
    if (next !== again)
      throw new Problem({ status: 0, code: '', detail: 'The two new passwords are different.' });
    await ask('PUT /v1/whoami/password', { body: { password, next, client: 'page' } });
    for (const clear of [setPassword, setNext, setAgain]) clear('');
    await learnWho();
    changed();
  };
  return (
    <div class="line">
      <Order label="Change the password" title="Change the password" give={give}>
        <p>Your other sessions end. Passkeys stay.</p>
        <TextField
          label="Present password"
          type="password"
          value={password}
          set={setPassword}
          autocomplete="current-password"
          required
          autoFocus
        />
        <TextField
          label="New password"
          type="password"
          value={next}
          set={setNext}
          autocomplete="new-password"
          required
        />
        <TextField
          label="New password again"
          type="password"
          value={again}
          set={setAgain}
          autocomplete="new-password"
          required
        />
      </Order>
    </div>
  );
}

type OwnSession = Answer<'GET /v1/whoami/sessions'>['items'][number];
const SESSIONS: readonly Cell<OwnSession>[] = [
  { heading: 'Begun', cell: ({ begun }) => moment(begun) },
  { heading: 'Last used', cell: ({ used, here }) => (here ? 'now, in this browser' : moment(used)) },
];

function Sessions() {
  const { value, error, reload } = useResource('GET /v1/whoami/sessions', {}, ({ kind }) =>
    kind.startsWith('operator.'),
  );
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="sessions" />;
  return (
    <Table
      label="Sessions"
      columns={SESSIONS}
      rows={value.items}
      keyOf={({ id }) => id}
      orders={({ id, begun, here }) =>
        here ? null : (
          <Order
            label="End"
            title={`End the session that began ${moment(begun)}`}
            danger
            give={async () => {
              await ask('DELETE /v1/whoami/sessions/:id', { params: { id } });
              reload();
            }}
          >
            <p>Whoever uses it is logged out. If that is not you, change your password as well.</p>
          </Order>
        )
      }
    />
  );
}
