/** A terminal (xterm.js), in a part of the page that is loaded when somebody opens one. */
import '@xterm/xterm/css/xterm.css';
import { Terminal } from '@xterm/xterm';

export interface OpenTerminal {
  write(text: string): void;
  /** Begins again: what was on the screen is gone. */
  reset(): void;
  focus(): void;
  close(): void;
}

/** Firmware and boot loaders draw for this size. */
const [COLUMNS, ROWS] = [80, 25];
/** The width of a letter for its height, in most fonts of one width. */
const NARROW = 0.605;
const [SMALLEST, LARGEST] = [7, 14];
/** Colours by red, green and blue become attributes, which the policy of the page forbids. */
const TRUE_COLOUR = /\u001b\[[34]8[;:]2[;:][\d;:]*m/g;

/**
 * Opens a terminal in an element.
 *
 * @param typed is called with what is typed, as a terminal sends it
 */
export function openTerminal(place: HTMLElement, label: string, typed: (text: string) => void): OpenTerminal {
  const size = Math.floor(place.clientWidth / COLUMNS / NARROW);
  const terminal = new Terminal({
    ...{ cols: COLUMNS, rows: ROWS, scrollback: 5000, cursorBlink: false },
    fontSize: Math.min(LARGEST, Math.max(SMALLEST, size)),
    fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace',
    theme: { background: '#11151b', foreground: '#e6e9ee' },
  });
  // Tab goes to the machine; this is the way out for those who have only a keyboard.
  terminal.attachCustomKeyEventHandler(({ key, shiftKey }) => !(key === 'Tab' && shiftKey));
  terminal.onData(typed);
  withSheets(() => terminal.open(place));
  terminal.textarea?.setAttribute('aria-label', label);
  return {
    write: (text) => terminal.write(text.replace(TRUE_COLOUR, '')),
    reset: () => terminal.reset(),
    focus: () => terminal.focus(),
    close: () => terminal.dispose(),
  };
}

/**
 * Lets xterm.js have its rules under a policy without inline styles: it gets another element where
 * it makes a `style`, and what it writes into that becomes a style sheet of the document.
 */
function withSheets(open: () => void): void {
  const create = document.createElement;
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    if (name !== 'style') return create.call(document, name, options);
    const element = create.call(document, 'template');
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets.push(sheet);
    Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) });
    const remove = element.remove;
    element.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
      remove.call(element);
    };
    return element;
  }) as typeof document.createElement;
  try {
    open();
  } finally {
    document.createElement = create;
  }
}
