/**
 * A document whose style elements are style sheets of the page's own making. The
 * page's policy forbids styles in the markup; xterm.js writes its colours as such.
 */

/** styled stands in for document where xterm.js makes its elements. */
export function styled(doc: Document): Document {
  return new Proxy(doc, {
    get(target, name) {
      if (name === 'createElement') return (tag: string) => (tag === 'style' ? sheet(target) : plain(target.createElement(tag)));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value as (...a: unknown[]) => unknown).bind(target) : value;
    },
  });
}

/** within does something whose style elements, made by the page's own document, are such sheets too: part of xterm.js looks for no other document. */
export function within(doc: Document, what: () => void): void {
  const made = doc.createElement.bind(doc);
  Object.defineProperty(doc, 'createElement', { configurable: true, value: (tag: string) => (tag === 'style' ? sheet(doc, made) : made(tag)) });
  try {
    what();
  } finally {
    delete (doc as { createElement?: unknown }).createElement;
  }
}

/** sheet is an element whose text is a style sheet for as long as it is in the page. */
function sheet(doc: Document, made: (tag: string) => HTMLElement = (tag) => doc.createElement(tag)): HTMLElement {
  const el = made('span');
  const own = new CSSStyleSheet();
  el.hidden = true;
  doc.adoptedStyleSheets = [...doc.adoptedStyleSheets, own];
  Object.defineProperty(el, 'textContent', { set: (css: string) => own.replaceSync(css), get: () => '' });
  const remove = el.remove.bind(el);
  el.remove = () => {
    doc.adoptedStyleSheets = doc.adoptedStyleSheets.filter((s) => s !== own);
    remove();
  };
  return el;
}

/** plain is an element that takes its style attribute as properties, which the policy allows. */
function plain(el: HTMLElement): HTMLElement {
  const set = el.setAttribute.bind(el);
  el.setAttribute = (name: string, value: string) => {
    if (name === 'style') el.style.cssText = value;
    else set(name, value);
  };
  return el;
}
