/** The operator's own account: roles and passkeys. */
import { useState } from 'preact/hooks';
import type { Answer } from '../../api/operations.ts';
import { Problem } from '../base/http.ts';
import { addPasskey, canUsePasskeys, removePasskey } from '../base/passkeys.ts';
import { who } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { Facts } from '../parts/facts.tsx';
import { TextField } from '../parts/field.tsx';
import { Empty, Loading, PasskeysElsewhere, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useResource } from '../parts/use.ts';

type List = Answer<'GET /v1/passkeys'>;

export function Account() {
  const { name, grants } = who.value!;
  const roles = grants.map(({ role, clusters = [], pools = [] }) =>
    [role, [...clusters, ...pools.map((pool) => `pool ${pool}`)].join(', ')].filter(Boolean).join(' of '),
  );
  return (
    <div class="stack">
      <h1>{name}</h1>
      <Facts facts={[['Roles', roles.join('; ')]]} />
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
      {items.length > 0 && <Table items={items} removed={reload} />}
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

function Table({ items, removed }: { readonly items: List['items']; readonly removed: () => void }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Added</th>
          <th scope="col">Last used</th>
          <th scope="col">
            <span class="hidden">Orders</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map(({ id, label, createdAt, usedAt }) => (
          <tr key={id}>
            <td>{label}</td>
            <td>{moment(createdAt)}</td>
            <td>{usedAt === undefined ? 'never' : moment(usedAt)}</td>
            <td>
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
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
