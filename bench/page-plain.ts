/**
 * The peer of the suite `page`: a plain table. nginx serves the answer of our API as a file; the
 * page draws one row for each machine, and hides those that do not fit the filter.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Daemon, startNginx } from './served.ts';

const PORT = 8070;
export const PLAIN = `http://localhost:${PORT}`;

/** The same columns as the fleet of the page, and the same words to search in. */
const PAGE = `<!doctype html>
<meta charset="utf-8">
<title>Machines</title>
<input type="search" aria-label="Find">
<p role="status"></p>
<table>
<thead><tr><th>Name<th>Phase<th>Needs attention<th>Cluster<th>Profile<th>Address<th>Since</thead>
<tbody></tbody>
</table>
<script>
const body = document.querySelector('tbody');
const find = document.querySelector('input');
const state = document.querySelector('p');
let rows = [];
const wordsOf = ({ metadata, spec, status }) => [
  metadata.name, status.phase, status.profile, status.lease, ...(spec?.addresses ?? []), ...(spec?.macs ?? []),
  ...Object.values(status.seen ?? {}).flat(),
].join(' ').toLowerCase();
const rowOf = (machine) => {
  const { metadata, spec, status } = machine;
  const row = document.createElement('tr');
  const address = status.lease ?? spec?.addresses?.[0] ?? '';
  const cells = [metadata.name, status.phase, status.outlook?.text, spec?.cluster, status.profile, address];
  for (const cell of [...cells, status.since && new Date(status.since).toLocaleTimeString()])
    row.insertCell().textContent = cell ?? '';
  return { row, words: wordsOf(machine) };
};
const filter = () => {
  let shown = 0;
  for (const { row, words } of rows) {
    row.hidden = !words.includes(find.value.toLowerCase());
    if (!row.hidden) shown++;
  }
  state.textContent = shown + ' of ' + rows.length;
};
fetch('machines.json').then((answer) => answer.json()).then(({ items }) => {
  rows = items.map(rowOf);
  body.append(...rows.map(({ row }) => row));
  find.addEventListener('input', filter);
  filter();
});
</script>
`;

/** Starts nginx with the page and the list. */
export async function servePlain(list: string): Promise<Daemon> {
  const home = mkdtempSync(join(tmpdir(), 'muster-plain-'));
  const root = join(home, 'root');
  mkdirSync(root);
  writeFileSync(join(root, 'index.html'), PAGE);
  writeFileSync(join(root, 'machines.json'), list);
  const types = 'types { text/html html; application/json json; }';
  const nginx = await startNginx(home, PORT, 64, `listen ${PORT}; root ${root}; ${types}`);
  return {
    ...nginx,
    async stop() {
      await nginx.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
