/** The frame of all views: who is logged in, where to go, and whether the page is up to date. */
import type { ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Access } from '../../api/access.ts';
import { loggedOut } from '../base/http.ts';
import { followEvents, link } from '../base/live.ts';
import { place } from '../base/place.ts';
import { readPlace } from '../base/route.ts';
import { learnWho, logOut, may, maySomewhere, proving, startFault, who } from '../base/session.ts';
import { followMachines, unknownCount } from '../fleet/machines.ts';
import { Badge, Link } from '../parts/badge.tsx';
import { late } from '../parts/late.tsx';
import { Loading, ProblemNote } from '../parts/note.tsx';
import { Clusters } from './clusters.tsx';
import { Audit, Events } from './events.tsx';
import { Fleet } from './fleet.tsx';
import { LogIn, LogInAgain, Prove } from './log-in.tsx';
import { Machine } from './machine.tsx';
import { Overview } from './overview.tsx';
import { Register } from './register.tsx';

interface View {
  readonly path: string;
  readonly label: string;
  readonly access: Access;
  readonly view: ComponentType;
  /** A role for certain clusters shows a part of it. */
  readonly part?: true;
  /** The view in whose place in the list it is shown; its own path: none, a link is elsewhere. */
  readonly of?: string;
  /** A number beside the label. */
  readonly count?: () => number;
}

const Account = late('the account', () => import('./account.tsx').then((file) => file.Account));
const Documents = late('documents', () => import('./documents.tsx').then((file) => file.Documents));
const Images = late('images', () => import('./images.tsx').then((file) => file.Images));
const Keys = late('keys', () => import('./keys.tsx').then((file) => file.Keys));
const Operators = late('operators', () => import('./operators.tsx').then((file) => file.Operators));

const VIEWS: readonly View[] = [
  { path: 'overview', label: 'Overview', access: 'view', view: Overview },
  { path: 'fleet', label: 'Fleet', access: 'view', view: Fleet, part: true },
  { path: 'machines', label: 'Fleet', access: 'view', view: Machine, of: 'fleet', part: true },
  { path: 'register', label: 'Register', access: 'view', view: Register, count: () => unknownCount.value },
  { path: 'clusters', label: 'Clusters', access: 'view', view: Clusters, part: true },
  { path: 'keys', label: 'Keys', access: 'view', view: Keys },
  { path: 'images', label: 'Images', access: 'view', view: Images },
  { path: 'documents', label: 'Documents', access: 'view', view: Documents },
  { path: 'events', label: 'Events', access: 'view', view: Events, part: true },
  { path: 'operators', label: 'Operators', access: 'administer', view: Operators },
  { path: 'audit', label: 'Security log', access: 'audit', view: Audit },
  { path: 'account', label: 'Account', access: 'own', view: Account, of: 'account', part: true },
];

/**
 * Returns what the address brings, such as an invitation. It is taken out of the address at once,
 * so that it is not kept in the history.
 */
function take(name: 'invitation' | 'refused'): string | undefined {
  const [, of, found] = /^#(\w+)=([\w.~-]+)$/.exec(location.hash) ?? [];
  if (of !== name) return undefined;
  history.replaceState(null, '', '#/');
  place.value = readPlace('');
  return found;
}

export function Page() {
  const [invitation, setInvitation] = useState(() => take('invitation'));
  const [refused] = useState(() => take('refused'));
  useEffect(() => void learnWho(), []);
  if (invitation !== undefined)
    return <LogIn invitation={invitation} used={() => setInvitation(undefined)} />;
  if (startFault.value)
    return (
      <main class="log-in" id="main">
        <h1>Muster</h1>
        <ProblemNote error={startFault.value} />
        <button type="button" onClick={() => void learnWho()}>
          Try again
        </button>
      </main>
    );
  if (who.value === undefined)
    return loggedOut.value ? (
      <LogIn invitation={undefined} refused={refused} used={() => {}} />
    ) : (
      <Loading what="the page" />
    );
  // What somebody typed is there again after the log-in, and nobody reads it meanwhile.
  return (
    <>
      <div class={loggedOut.value ? 'gone' : 'whole'}>
        <Frame key={who.value.name} />
      </div>
      {proving.value && !loggedOut.value && <Prove />}
      {loggedOut.value && <LogInAgain name={who.value.name} />}
    </>
  );
}

function Frame() {
  useEffect(() => {
    if (!maySomewhere('view')) return;
    const stop = new AbortController();
    void followEvents(stop.signal);
    const unfollow = followMachines();
    return () => {
      stop.abort();
      unfollow();
    };
  }, []);
  const main = useRef<HTMLElement>(null);
  const views = VIEWS.filter(({ access, part }) => (part ? maySomewhere(access) : may(access)));
  const [first = ''] = place.value.path;
  const at = place.value.path.join('/');
  const view = views.find(({ path }) => path === first) ?? (first === '' ? views[0] : undefined);
  const started = useRef(false);
  useEffect(() => {
    document.title = `${[view?.label, ...place.value.path.slice(1)].filter(Boolean).join(' · ')} · Muster`;
    // After a move within the page, screen reader and keyboard continue in the new view.
    if (started.current) main.current?.focus();
    started.current = true;
  }, [at]);
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <nav aria-label="Views">
        <span class="brand">
          <img src={new URL('../icon.svg', import.meta.url).href} alt="" width="24" height="24" /> Muster
        </span>
        <ul>
          {views
            .filter(({ of }) => of === undefined)
            .map(({ path, label, count }) => (
              <li key={path}>
                <a href={`#/${path}`} aria-current={(view?.of ?? view?.path) === path ? 'page' : undefined}>
                  {label}
                  {count && count() > 0 ? <span class="count">{count()}</span> : null}
                </a>
              </li>
            ))}
        </ul>
        <div class="me">
          <Connection />
          <a
            href="#/account"
            class="name"
            title={who.value!.grants.map(({ role }) => role).join(', ')}
            aria-current={view?.path === 'account' ? 'page' : undefined}
          >
            {who.value!.name}
          </a>
          <button type="button" class="quiet" onClick={() => void logOut()}>
            Log out
          </button>
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        {view ? <view.view key={at} /> : <NoView />}
      </main>
    </div>
  );
}

const LINKS = {
  connecting: ['calm', 'connecting'],
  live: ['good', 'live'],
  lost: ['bad', 'no connection'],
} as const;

function Connection() {
  const [tone, text] = LINKS[link.value];
  return (
    <span role="status" aria-label="Connection to the boot host">
      <Badge tone={tone}>{text}</Badge>
    </span>
  );
}

const NoView = () => (
  <div class="empty">
    <h1>There is no such view</h1>
    <p class="dim">
      <Link to={[]}>Show the first view</Link>
    </p>
  </div>
);
