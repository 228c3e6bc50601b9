/**
 * Runs in the browser before each page of the suite `page`, and measures there: when a list can be
 * used, how long a keystroke takes, and when rows change. Times are until the frame after the
 * change was painted.
 */
(() => {
  const ROWS = 'tbody tr:not(.gap)';

  /** Resolves when what is in the document now is on the screen. */
  const painted = () =>
    new Promise((resolve) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = resolve;
        port2.postMessage(undefined);
      });
    });

  const observe = (work, what = { childList: true, subtree: true }) => {
    const observer = new MutationObserver(work);
    observer.observe(document, what);
    return () => observer.disconnect();
  };

  /** Milliseconds from the navigation until there are rows and a filter. */
  const usable = new Promise((resolve) => {
    const end = observe(() => {
      if (document.querySelector('input[type=search]') === null) return;
      if (document.querySelectorAll(ROWS).length < 10) return;
      end();
      painted().then(() => resolve(performance.now()));
    });
  });

  const keystrokes = [];
  let pressed;
  addEventListener('keydown', ({ timeStamp }) => (pressed = timeStamp), true);
  // Texts of rows that stay, such as ages, are not the filter's work.
  const isList = ({ target }) => target.closest?.('tbody') !== null;
  observe(
    (changes) => {
      if (pressed === undefined || !changes.some(isList)) return;
      const began = pressed;
      pressed = undefined;
      painted().then(() => keystrokes.push(performance.now() - began));
    },
    { childList: true, subtree: true, attributes: true, attributeFilter: ['hidden'] },
  );

  /** Resolves when the effects of so many keys were painted. */
  const keysPainted = async (count) => {
    while (keystrokes.length < count) await new Promise((resolve) => setTimeout(resolve, 20));
  };

  /** Which phase each row showed, and from when on. */
  const phases = [];
  const last = new Map();
  const watchPhases = () =>
    observe(
      () => {
        const changed = [];
        for (const row of document.querySelectorAll(ROWS)) {
          const name = row.querySelector('a.row')?.textContent;
          const phase = row.querySelector('.badge')?.textContent;
          if (name === undefined || last.get(name) === phase) continue;
          last.set(name, phase);
          changed.push({ name, phase });
        }
        if (changed.length > 0)
          painted().then(() => {
            const at = Date.now();
            phases.push(...changed.map((one) => ({ ...one, at })));
          });
      },
      { childList: true, subtree: true, characterData: true },
    );

  window.probe = { usable, keystrokes, keysPainted, phases, watchPhases };
})();
