/** Sends events to the servers that Webhook documents name. */
import { EVENT_KINDS, type EventLog } from '../../events/event.ts';
import type { Catalog } from '../../resources/catalog.ts';
import type { WebhookSpec } from '../../resources/kinds.ts';
import { selects } from '../../resources/webhook-spec.ts';
import { Delivery, type DeliveryDeps } from './delivery.ts';

interface WebhookDeps extends Omit<DeliveryDeps, 'name'> {
  readonly catalog: Pick<Catalog, 'list' | 'subscribe'>;
  readonly events: Pick<EventLog, 'subscribe'>;
}

const kindsOf = ({ events }: WebhookSpec): ReadonlySet<string> =>
  new Set(Object.keys(EVENT_KINDS).filter((kind) => events.some((pattern) => selects(pattern, kind))));

/** Starts to send the events that are recorded from now on. Returns a function that ends it. */
export function startWebhooks({ catalog, events, ...deps }: WebhookDeps): () => void {
  const active = new Map<string, { readonly delivery: Delivery; readonly kinds: ReadonlySet<string> }>();
  const follow = (name: string, spec: WebhookSpec | undefined): void => {
    const known = active.get(name);
    if (spec === undefined) {
      known?.delivery.close();
      active.delete(name);
      return;
    }
    known?.delivery.change(spec);
    active.set(name, {
      delivery: known?.delivery ?? new Delivery(spec, { ...deps, name }),
      kinds: kindsOf(spec),
    });
  };
  for (const { document } of catalog.list('Webhook')) follow(document.metadata.name, document.spec);
  const unfollow = catalog.subscribe((changes) => {
    for (const { kind, name, entry } of changes)
      if (kind === 'Webhook') follow(name, entry?.document.spec as WebhookSpec | undefined);
  });
  const unsubscribe = events.subscribe((event) => {
    for (const { delivery, kinds } of active.values()) if (kinds.has(event.kind)) delivery.offer(event);
  });
  return () => {
    unfollow();
    unsubscribe();
    for (const { delivery } of active.values()) delivery.close();
  };
}
