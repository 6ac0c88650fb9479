import { clock } from '../common/format';
import { usePage } from './context';
import { useTopic } from './store';
import { told } from './words';

/** Feed is what happens, newest first; brief: without the steps of what starts. */
export function Feed({ most = 300, brief = false }: { most?: number; brief?: boolean }) {
  const { store, show } = usePage();
  useTopic(store, 'events');
  const list = store.events.filter((e) => !brief || e.type !== 'desktop.stage').slice(0, most);
  if (list.length === 0) return <p class="empty muted">What happens to desktops shows here.</p>;
  return (
    <ol class="feed" aria-label="Events">
      {list.map((e) => {
        const { text, tone } = told(e);
        const there = e.desktop && store.get(e.desktop);
        const name = e.desktop ? store.nameOf(e.desktop) : 'host';
        return (
          <li key={e.seq} data-tone={tone} data-type={e.type}>
            <time dateTime={e.time} title={new Date(e.time).toLocaleString()}>{clock(e.time)}</time>
            <span class="said">
              {there ? <button type="button" class="link" onClick={() => show(e.desktop ?? '')}>{name}</button> : <b>{name}</b>} {text}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
