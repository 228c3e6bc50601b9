/*
 * Finds what does not fit on the screen, as sentences: sideways scroll, cut text, and texts that lie
 * over each other. test/page/fits.test.ts runs it in the browser.
 */
(() => {
  const found = [];
  const name = (element) =>
    `${element.tagName.toLowerCase()}${element.className ? `.${String(element.className).replaceAll(' ', '.')}` : ''} "${(element.textContent ?? '').slice(0, 40)}"`;
  for (const whole of [document.documentElement, document.querySelector('main')])
    if (whole.scrollWidth > whole.clientWidth + 1)
      found.push(
        `${name(whole).slice(0, 12)} scrolls sideways by ${whole.scrollWidth - whole.clientWidth} px`,
      );
  const shown = (element) => {
    const box = element.getBoundingClientRect();
    return (
      box.width > 1 && box.height > 1 && !element.closest('.hidden, .skip, svg, pre, .drawing, [aria-hidden]')
    );
  };
  const leaves = [...document.querySelectorAll('main *, nav a, nav button')].filter(
    (element) =>
      shown(element) &&
      (/^(BUTTON|INPUT|SELECT|TEXTAREA|PROGRESS)$/.test(element.tagName) ||
        [...element.childNodes].some(
          ({ nodeType, data }) => nodeType === 3 && data?.trim() !== '',
        )),
  );
  for (const element of leaves)
    for (let at = element; at && at.tagName !== 'MAIN'; at = at.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(at);
      // A brief text is whole behind the link of its row, and in its title.
      if (at.closest('.brief')) break;
      const cut =
        (overflowX === 'hidden' && at.scrollWidth > at.clientWidth + 1) ||
        (overflowY === 'hidden' && at.scrollHeight > at.clientHeight + 2);
      if (cut && at === element && !/^(INPUT|SELECT)$/.test(at.tagName)) found.push(`${name(at)} is cut`);
      else if (cut && /^(TD|TR|DIV)$/.test(at.tagName)) found.push(`${name(at)} is cut`);
    }
  const boxes = leaves
    .filter(
      (element) => !element.closest('.rows thead, nav') && getComputedStyle(element).display !== 'contents',
    )
    // A text that is wrapped has a box for each of its lines.
    .flatMap((element) => {
      const clip = element.closest('.cell')?.getBoundingClientRect();
      return [...element.getClientRects()]
        .filter((box) => clip === undefined || (box.bottom <= clip.bottom + 2 && box.top >= clip.top - 2))
        .map((box) => [element, box]);
    });
  for (const [n, [one, a]] of boxes.entries())
    for (const [other, b] of boxes.slice(n + 1)) {
      if (one.contains(other) || other.contains(one)) continue;
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Lines are as high as their font wants, and stand a little into each other.
      if (across > 2 && down > 6) found.push(`${name(one)} lies over ${name(other)}`);
    }
  return [...new Set(found)].slice(0, 6);
})();
