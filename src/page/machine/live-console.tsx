/** The serial console of a machine through its BMC: live, and typed into. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { pause } from '../base/clock.ts';
import { ask, part, request } from '../base/http.ts';
import { framesOf } from '../base/live.ts';
import { ProblemNote } from '../parts/note.tsx';
import type { OpenTerminal } from './xterm.ts';

const RETRY_MS = 2000;
/** What is typed within this time is one request. */
const TYPED_MS = 80;

/** Keys that phones lack, and that browsers keep for themselves, as a terminal sends them. */
const KEYS = [
  ['Esc', '\u001b'],
  ['F2', '\u001bOQ'],
  ['F10', '\u001b[21~'],
  ['F11', '\u001b[23~'],
  ['F12', '\u001b[24~'],
  ['Del', '\u001b[3~'],
  ['Ctrl+C', '\u0003'],
  ['Enter', '\r'],
] as const;

/** Follows the console until `stop`: what was shown last first, at each connection. */
async function followConsole(
  name: string,
  terminal: OpenTerminal,
  stop: AbortSignal,
  fails: (error: unknown) => void,
) {
  while (!stop.aborted) {
    try {
      const path = `/v1/machines/${part(name)}/console/live`;
      const response = await request('GET', path, { headers: { accept: 'text/event-stream' }, signal: stop });
      fails(undefined);
      terminal.reset();
      for await (const { data } of framesOf(response))
        if (data) terminal.write((JSON.parse(data) as { readonly text: string }).text);
    } catch (error) {
      if (!stop.aborted) fails(error);
    }
    if (!stop.aborted) await pause(RETRY_MS, stop);
  }
}

/** Sends what is typed, in the order in which it is typed. */
function sender(name: string, fails: (error: unknown) => void): (text: string) => void {
  let waiting = '';
  let isSending = false;
  const send = async (): Promise<void> => {
    isSending = true;
    while (waiting !== '') {
      await pause(TYPED_MS, undefined);
      const text = waiting.slice(0, 4096);
      waiting = waiting.slice(text.length);
      try {
        await ask('POST /v1/machines/:name/console', { params: { name }, body: { text } });
        fails(undefined);
      } catch (error) {
        waiting = '';
        fails(error);
      }
    }
    isSending = false;
  };
  return (text) => {
    waiting += text;
    if (!isSending) void send();
  };
}

export function LiveConsole({ name }: { readonly name: string }) {
  const box = useRef<HTMLDivElement>(null);
  const type = useRef<(text: string) => void>(() => {});
  const [error, setError] = useState<unknown>(undefined);
  useEffect(() => {
    const stop = new AbortController();
    let opened: OpenTerminal | undefined;
    type.current = sender(name, setError);
    void import('./xterm.ts').then(({ openTerminal }) => {
      if (stop.signal.aborted || !box.current) return;
      opened = openTerminal(box.current, `Serial console of ${name}`, (text) => type.current(text));
      opened.focus();
      void followConsole(name, opened, stop.signal, setError);
    }, setError);
    return () => {
      stop.abort();
      opened?.close();
    };
  }, [name]);
  return (
    <>
      <p class="dim">
        What is typed goes to the machine, and that you typed is in the security log. Shift+Tab leaves the
        terminal.
      </p>
      <ProblemNote error={error} />
      <fieldset class="line keys">
        <legend class="hidden">Keys to send</legend>
        {KEYS.map(([label, text]) => (
          <button key={label} type="button" onClick={() => type.current(text)}>
            {label}
          </button>
        ))}
      </fieldset>
      <div class="live" ref={box} />
    </>
  );
}
