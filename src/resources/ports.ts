/** What this room asks of rooms to its right, as narrow interfaces: it may not import them. */

/** The part of the event log that documents need; `EventSink` fits. */
export interface DocumentEvents {
  record(event: {
    readonly kind: 'document.applied' | 'document.deleted' | 'document.invalid';
    readonly subject: string;
    readonly reason?: { readonly code: string; readonly text: string };
    readonly fields?: Readonly<Record<string, string | number | boolean>>;
  }): void;
}
