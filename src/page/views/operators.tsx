/** Who may log in, who is logged in, and which programs act for them. */
import { AccountList } from '../operators/accounts.tsx';
import { SessionList } from '../operators/sessions.tsx';
import { TokenList } from '../operators/tokens.tsx';
import { openTab, Tabs } from '../parts/tabs.tsx';

const TABS = [
  ['accounts', 'Accounts'],
  ['sessions', 'Sessions'],
  ['tokens', 'Tokens'],
] as const;

export function Operators() {
  const tab = openTab(TABS);
  return (
    <>
      <header class="head">
        <h1>Operators</h1>
      </header>
      <Tabs label="Views of operators" tabs={TABS} />
      {tab === 'accounts' && <AccountList />}
      {tab === 'sessions' && <SessionList />}
      {tab === 'tokens' && <TokenList />}
    </>
  );
}
