/** Events as rows. */
import type { EventView } from '../../api/times.ts';
import { moment } from '../base/times.ts';
import { Link } from './badge.tsx';
import { type Column, Rows } from './rows.tsx';

/** An event, or an entry of the security log. */
type Listed = Omit<EventView, 'kind'> & { readonly kind: string };

/** What an event says: its reason, else its details. */
export const textOf = ({ reason, fields, actor }: Pick<Listed, 'reason' | 'fields' | 'actor'>): string => {
  const given = Object.entries(fields ?? {}).map(([key, value]) => `${key}=${value}`);
  return [reason?.text ?? given.join(' '), actor && `by ${actor.user}`].filter(Boolean).join(' · ');
};

/** Where the subject of an event is shown. */
function subjectPlace({
  kind: of,
  subject,
}: Pick<Listed, 'kind' | 'subject'>): readonly string[] | undefined {
  if (of === 'operator.action' && !subject.includes('/')) return undefined;
  const [kind, name] = subject.split('/', 2);
  if (name === undefined) return /^([0-9a-f]{2}:){5}/.test(subject) ? undefined : ['machines', subject];
  if (kind === 'Machine') return ['machines', name];
  if (kind === 'Cluster') return ['clusters', name];
  return ['Network', 'Image', 'Profile'].includes(kind!) ? ['documents', kind!, name] : undefined;
}

const COLUMNS: readonly Column<Listed>[] = [
  { key: 'at', label: 'Time', class: 'time', cell: ({ at }) => <time>{moment(at)}</time> },
  { key: 'kind', label: 'Event', class: 'kind', cell: ({ kind }) => kind },
  {
    key: 'subject',
    label: 'Subject',
    class: 'subject',
    cell: (event) => {
      const { subject } = event;
      const to = subjectPlace(event);
      return to ? (
        <Link class="row" to={to}>
          {subject}
        </Link>
      ) : (
        subject
      );
    },
  },
  {
    key: 'text',
    label: 'What happened',
    class: 'brief',
    cell: (event) => <span title={textOf(event)}>{textOf(event)}</span>,
  },
];

export const EventRows = ({ events }: { readonly events: readonly Listed[] }) => (
  <Rows label="Events" rows={events} columns={COLUMNS} keyOf={({ sequence }) => String(sequence)} />
);
