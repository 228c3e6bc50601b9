/** Tokens, with which programs act in the name of an operator. */
import { useState } from 'preact/hooks';
import type { TokenView } from '../../api/operations/operators.ts';
import { commandOf } from '../base/acts.ts';
import { type GrantFields, grantOf, grantsText, grantWords } from '../base/grants.ts';
import { ask } from '../base/http.ts';
import { who } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { TextField } from '../parts/field.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { useResource } from '../parts/use.ts';
import { Grants, NO_GRANTS } from './grants.tsx';
import { type Once, ShownOnce } from './shown-once.tsx';

const COLUMNS: readonly Cell<TokenView>[] = [
  { heading: 'What for', cell: ({ label }) => <strong>{label}</strong> },
  { heading: 'Operator', cell: ({ operator }) => operator },
  { heading: 'Roles', cell: ({ grants }) => grantsText(grants) },
  { heading: 'Until', cell: ({ until }) => moment(until) },
];

export function TokenList() {
  const { value, error, reload } = useResource('GET /v1/tokens', {}, ({ kind }) =>
    kind.startsWith('operator.'),
  );
  const [once, setOnce] = useState<Once | undefined>(undefined);
  if (error !== undefined) return <ProblemNote error={error} />;
  if (value === undefined) return <Loading what="tokens" />;
  return (
    <div class="stack">
      {once && <ShownOnce once={once} close={() => setOnce(undefined)} />}
      <div class="line">
        <Add
          done={(made) => {
            setOnce(made);
            reload();
          }}
        />
        <span class="dim">You make tokens of your own; others make theirs.</span>
      </div>
      {value.items.length === 0 ? (
        <Empty title="There is no token" />
      ) : (
        <Table
          label="Tokens"
          columns={COLUMNS}
          rows={value.items}
          keyOf={({ id }) => id}
          orders={({ id, label }) => (
            <Order
              label="End"
              title={`End the token ${label}`}
              danger
              command={commandOf(['token', 'rm', id])}
              give={async () => {
                await ask('DELETE /v1/tokens/:id', { params: { id } });
                reload();
              }}
            >
              <p>Programs that have it are refused from now on.</p>
            </Order>
          )}
        />
      )}
    </div>
  );
}

function Add({ done }: { readonly done: (once: Once) => void }) {
  const [label, setLabel] = useState('');
  const [expires, setExpires] = useState('30d');
  const [fields, setFields] = useState<readonly GrantFields[]>(NO_GRANTS);
  const operator = who.value!.name;
  const grants = fields.map(grantOf);
  const words = grantWords(grants);
  const options = { '--label': label, '--expires': expires };
  return (
    <Order
      label="Add a token"
      title="Add a token"
      wide
      {...(words && { command: commandOf(['token', 'add', operator, ...words], options) })}
      give={async () => {
        const body = { operator, label, grants, expires };
        const { token, until } = await ask('POST /v1/tokens', { body });
        setLabel('');
        done({ what: `The token ${label}.`, text: token, until });
      }}
    >
      <p>A program that has it acts in your name, with these of your roles.</p>
      <div class="line">
        <TextField
          label="What for"
          value={label}
          set={setLabel}
          autocomplete="off"
          placeholder="grafana"
          required
          autoFocus
        />
        <TextField label="For" value={expires} set={setExpires} hint="At most 366d" required />
      </div>
      <Grants grants={fields} set={setFields} />
    </Order>
  );
}
