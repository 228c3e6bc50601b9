/** The accounts of operators: who may log in, with which roles. */
import { useState } from 'preact/hooks';
import type { OperatorView } from '../../api/operations/operators.ts';
import { commandOf } from '../base/acts.ts';
import { fieldsOf, type GrantFields, grantOf, grantsText, grantWords } from '../base/grants.ts';
import { ask } from '../base/http.ts';
import { moment } from '../base/times.ts';
import { Badge } from '../parts/badge.tsx';
import { TextField } from '../parts/field.tsx';
import { Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { useResource } from '../parts/use.ts';
import { Grants, NO_GRANTS } from './grants.tsx';
import { type Once, ShownOnce } from './shown-once.tsx';

const COLUMNS: readonly Cell<OperatorView>[] = [
  { heading: 'Name', cell: ({ name }) => <strong>{name}</strong> },
  { heading: 'Roles', cell: ({ grants }) => grantsText(grants) },
  { heading: 'State', cell: (one) => <State account={one} /> },
  { heading: 'Made', cell: ({ createdAt }) => moment(createdAt) },
];

function State({ account: { password, invitedUntil } }: { readonly account: OperatorView }) {
  if (password) return <Badge tone="good">active</Badge>;
  if (invitedUntil === undefined) return <Badge tone="warn">without password</Badge>;
  return <Badge tone="busy">{`invited until ${moment(invitedUntil)}`}</Badge>;
}

export function AccountList() {
  const { value, error, reload } = useResource('GET /v1/operators', {}, ({ kind }) =>
    kind.startsWith('operator.'),
  );
  const [once, setOnce] = useState<Once | undefined>(undefined);
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="operators" />;
  const invite = async (name: string): Promise<void> => {
    const { link, invitation, until } = await ask('POST /v1/operators/:name/invite', { params: { name } });
    setOnce({ what: `The invitation of ${name}: give it to nobody else.`, text: link ?? invitation, until });
    reload();
  };
  return (
    <div class="stack">
      {once && <ShownOnce once={once} close={() => setOnce(undefined)} />}
      <div class="line">
        <Roles
          label="Add an operator"
          done={async ({ name, password }) => {
            reload();
            if (!password) await invite(name);
          }}
        />
      </div>
      <Table
        label="Operators"
        columns={COLUMNS}
        rows={value.items}
        keyOf={({ name }) => name}
        orders={(one) => (
          <>
            <Roles label="Roles" account={one} done={async () => reload()} />
            <Invite name={one.name} give={() => invite(one.name)} />
            <Remove name={one.name} done={reload} />
          </>
        )}
      />
    </div>
  );
}

interface RolesProps {
  readonly label: string;
  /** Undefined: another one is made. */
  readonly account?: OperatorView;
  readonly done: (account: OperatorView) => Promise<void>;
}

function Roles({ label, account, done }: RolesProps) {
  const [name, setName] = useState(account?.name ?? '');
  const [fields, setFields] = useState<readonly GrantFields[]>(account?.grants.map(fieldsOf) ?? NO_GRANTS);
  const grants = fields.map(grantOf);
  const words = grantWords(grants);
  return (
    <Order
      label={label}
      title={account ? `Roles of ${account.name}` : 'Add an operator'}
      wide
      {...(words && { command: commandOf(['operator', 'add', name, ...words]) })}
      give={async () => {
        const made = await ask('PUT /v1/operators/:name', { params: { name }, body: { grants } });
        if (!account) setName('');
        await done(made);
      }}
    >
      {account ? (
        <p>The sessions of {name} end, and tokens never give more than these roles.</p>
      ) : (
        <>
          <p>The operator gets a link, with which a password is set, once, within a day.</p>
          <TextField label="Name" value={name} set={setName} autocomplete="off" required autoFocus />
        </>
      )}
      <Grants grants={fields} set={setFields} />
    </Order>
  );
}

const Invite = ({ name, give }: { readonly name: string; readonly give: () => Promise<void> }) => (
  <Order
    label="Invite"
    title={`Invite ${name}`}
    command={commandOf(['operator', 'invite', name])}
    give={give}
  >
    <p>
      It makes a link for a day, with which {name} sets a new password. Until then the present one counts. An
      earlier link ends now.
    </p>
  </Order>
);

const Remove = ({ name, done }: { readonly name: string; readonly done: () => void }) => (
  <Order
    label="Remove"
    title={`Remove ${name}`}
    danger
    command={commandOf(['operator', 'rm', name])}
    give={async () => {
      await ask('DELETE /v1/operators/:name', { params: { name } });
      done();
    }}
  >
    <p>Its sessions, tokens and passkeys end at once. Certificates for clusters count until they end.</p>
  </Order>
);
