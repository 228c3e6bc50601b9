/** Images, artifacts and the files that they are made of: what is here, and what is missing. */
import { useEffect } from 'preact/hooks';
import type { ArtifactView } from '../../api/operations/artifacts.ts';
import type { AssetView, UploadView } from '../../api/operations/assets.ts';
import type { ImageSpec } from '../../resources/kinds.ts';
import { commandOf } from '../base/acts.ts';
import { every } from '../base/clock.ts';
import { ask, Problem } from '../base/http.ts';
import { may } from '../base/session.ts';
import { moment } from '../base/times.ts';
import { AddFile } from '../files/add-file.tsx';
import { type ImageLine, imageLines, lackedBy } from '../files/images.ts';
import { sizeText } from '../machine/parts.ts';
import { Badge, Link } from '../parts/badge.tsx';
import { CommandLine } from '../parts/command-line.tsx';
import { NotYours } from '../parts/not-yours.tsx';
import { Empty, Loading, ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { Preview } from '../parts/preview.tsx';
import { type Cell, Table } from '../parts/table.tsx';
import { openTab, Tabs } from '../parts/tabs.tsx';
import { useResource } from '../parts/use.ts';

const TABS = [
  ['images', 'Images'],
  ['artifacts', 'Artifacts'],
  ['files', 'Files'],
] as const;

/** Uploads go on without events. */
const LOOK_EVERY_MS = 3000;
const ABOUT_FILES = ['document', 'asset', 'artifact'];
const aboutFiles = ({ kind }: { readonly kind: string }): boolean =>
  ABOUT_FILES.some((begin) => kind.startsWith(begin));

export function Images() {
  const documents = useResource('GET /v1/:kind', { params: { kind: 'images' } }, aboutFiles);
  const artifacts = useResource('GET /v1/artifacts', {}, aboutFiles);
  const assets = useResource('GET /v1/assets', {}, aboutFiles);
  const uploads = useResource('GET /v1/uploads', {});
  useEffect(() => every(LOOK_EVERY_MS, uploads.reload), []);
  const open = uploads.value?.items ?? [];
  // What was uploaded is one of the files from then on.
  useEffect(() => {
    assets.reload();
    artifacts.reload();
  }, [open.length]);
  const error = documents.error ?? artifacts.error ?? assets.error;
  const tab = openTab(TABS);
  const images = imageLines(
    (documents.value?.items ?? []).map(({ metadata, spec }) => ({ metadata, spec: spec as ImageSpec })),
    assets.value?.items ?? [],
  );
  const known = documents.value && artifacts.value && assets.value;
  const again = (): void => {
    for (const { reload } of [artifacts, assets, uploads]) reload();
  };
  return (
    <>
      <header class="head">
        <h1>Images</h1>
        {known && may('administer') && (
          <span class="push">
            <AddFile images={images} artifacts={artifacts.value.items} done={again} />
          </span>
        )}
      </header>
      <NotYours orders={ORDERS} />
      <ProblemNote error={error} />
      <Tabs label="Views of images" tabs={TABS} />
      {!known && error === undefined && <Loading what="images" />}
      {known && open.length > 0 && <Uploads items={open} images={images} artifacts={artifacts.value.items} />}
      {known && tab === 'images' && <ImageList images={images} />}
      {known && tab === 'artifacts' && <ArtifactList items={artifacts.value.items} done={again} />}
      {known && tab === 'files' && <FileList items={assets.value.items} done={again} />}
    </>
  );
}

const ORDERS = [['administer', 'Add a file', 'Remove', 'Check']] as const;

const Lacking = ({ what }: { readonly what: readonly string[] }) =>
  what.length === 0 ? (
    <Badge tone="good">complete</Badge>
  ) : (
    <Badge tone="bad">{`lacks ${what.join(', ')}`}</Badge>
  );

const IMAGES: readonly Cell<ImageLine>[] = [
  { heading: 'Image', cell: ({ name }) => <Link to={['documents', 'Image', name]}>{name}</Link> },
  { heading: 'System', cell: ({ os }) => os },
  { heading: 'Processor', cell: ({ arch }) => arch },
  { heading: 'Size', cell: ({ size }) => sizeText(size), number: true },
  {
    heading: 'Files',
    cell: ({ missing }) => (
      <>
        <Lacking what={missing.map(({ part }) => part)} />
        {missing.map(({ part, sha256 }) => (
          <p key={part} class="dim">
            {part}: <code>{sha256}</code>
          </p>
        ))}
      </>
    ),
  },
];

const ImageList = ({ images }: { readonly images: readonly ImageLine[] }) =>
  images.length === 0 ? (
    <Empty title="There is no image yet">
      <CommandLine text="muster image build debian" />
    </Empty>
  ) : (
    <Table label="Images" columns={IMAGES} rows={images} keyOf={({ name }) => name} />
  );

const ARTIFACTS: readonly Cell<ArtifactView>[] = [
  { heading: 'Artifact', cell: ({ name }) => name },
  { heading: 'Size', cell: ({ size }) => sizeText(size), number: true },
  {
    heading: 'Files',
    cell: ({ missing }) => <Lacking what={missing.map((sha256) => sha256.slice(0, 12))} />,
  },
];

function ArtifactList({
  items,
  done,
}: {
  readonly items: readonly ArtifactView[];
  readonly done: () => void;
}) {
  const clusters = useResource('GET /v1/:kind', { params: { kind: 'clusters' } }, aboutFiles);
  return (
    <div class="stack">
      <section class="card" aria-label="Fetch what clusters need">
        <p>
          The boot host fetches nothing by itself. Run this where there is a network; its progress is shown
          here, and what was interrupted continues.
        </p>
        {clusters.value?.items.map(({ metadata: { name } }) => (
          <CommandLine key={name} text={commandOf(['artifacts', 'pull', name])} />
        ))}
      </section>
      {items.length === 0 ? (
        <Empty title="There is no artifact yet" />
      ) : (
        <Table
          label="Artifacts"
          columns={ARTIFACTS}
          rows={items}
          keyOf={({ name }) => name}
          {...(may('administer') && {
            orders: ({ name }: ArtifactView) => <RemoveArtifact name={name} done={done} />,
          })}
        />
      )}
    </div>
  );
}

const RemoveArtifact = ({ name, done }: { readonly name: string; readonly done: () => void }) => (
  <Order
    label="Remove"
    title={`Remove ${name}`}
    danger
    command={commandOf(['artifacts', 'rm', name])}
    give={async () => {
      await ask('DELETE /v1/artifacts', { query: { name } });
      done();
    }}
  >
    <p>Machines that need it do not get it any more. Its files stay, and can be removed under Files.</p>
    <Preview
      of={name}
      look={() => ask('DELETE /v1/artifacts', { query: { name, dryRun: true } as { name: string } })}
      taken="The boot host would remove it now."
    />
  </Order>
);

const usedBy = ({ images, artifacts }: AssetView): string =>
  [...images.map((name) => `image ${name}`), ...artifacts].join(', ');

const FILES: readonly Cell<AssetView>[] = [
  { heading: 'SHA-256', cell: ({ sha256 }) => <code>{sha256}</code> },
  { heading: 'Needed by', cell: (one) => usedBy(one) || <span class="dim">nothing</span> },
  { heading: 'Size', cell: ({ size }) => sizeText(size), number: true },
  { heading: 'Since', cell: ({ modified }) => moment(modified) },
];

const FileList = ({ items, done }: { readonly items: readonly AssetView[]; readonly done: () => void }) =>
  items.length === 0 ? (
    <Empty title="There is no file yet" />
  ) : (
    <Table
      label="Files"
      columns={FILES}
      rows={items}
      keyOf={({ sha256 }) => sha256}
      {...(may('administer') && { orders: (one: AssetView) => <FileOrders file={one} done={done} /> })}
    />
  );

function FileOrders({ file, done }: { readonly file: AssetView; readonly done: () => void }) {
  const { sha256 } = file;
  const users = usedBy(file);
  return (
    <>
      <Order
        label="Check"
        title="Read a file again"
        give={async () => {
          const { ok, state } = await ask('POST /v1/assets/:sha256/verify', { params: { sha256 } });
          done();
          if (!ok)
            throw new Problem({ status: 0, code: '', detail: `The file is ${state}.`, fix: 'Add it again.' });
        }}
      >
        <p>The boot host reads it to its end. If its hash has changed, it is not served any more.</p>
      </Order>
      {users === '' && (
        <Order
          label="Remove"
          title="Remove a file"
          danger
          give={async () => {
            await ask('DELETE /v1/assets/:sha256', { params: { sha256 } });
            done();
          }}
        >
          <p>Nothing needs it. It frees {sizeText(file.size)}.</p>
        </Order>
      )}
    </>
  );
}

interface UploadsProps {
  readonly items: readonly UploadView[];
  readonly images: readonly ImageLine[];
  readonly artifacts: readonly ArtifactView[];
}

function Uploads({ items, images, artifacts }: UploadsProps) {
  const columns: readonly Cell<UploadView>[] = [
    { heading: 'SHA-256', cell: ({ sha256 }) => <code>{sha256}</code> },
    { heading: 'For', cell: ({ sha256 }) => lackedBy(sha256, images, artifacts).join(', ') },
    { heading: 'Received', cell: ({ received }) => sizeText(received), number: true },
    {
      heading: 'State',
      cell: ({ active, modified }) =>
        active ? <Badge tone="busy">being sent</Badge> : `stopped ${moment(modified)}`,
    },
  ];
  return (
    <section class="card" aria-label="Uploads">
      <h2>Uploads</h2>
      <Table label="Uploads" columns={columns} rows={items} keyOf={({ sha256 }) => sha256} />
    </section>
  );
}
