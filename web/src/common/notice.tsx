import type { ComponentChildren } from 'preact';

/** Notice fills a page that has nothing else to show. */
export function Notice({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <main>
      <div class="notice" role="status">
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  );
}
