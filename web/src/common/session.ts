import { get, post } from './api';
import type { Role, View } from './types';

/** ticketOf takes the ticket out of the address, where it stands behind a # that is sent to nobody. It does not stay there. */
export function ticketOf(address: Location, past: History): string {
  const ticket = new URLSearchParams(address.hash.slice(1)).get('ticket') ?? '';
  if (ticket) past.replaceState(null, '', address.pathname + address.search);
  return ticket;
}

/**
 * begin finds out what the page may do: by the ticket in its address, exchanged for
 * a cookie that no script reads, or by the cookie that it has already. desktop: of a
 * page that shows one. It throws a Problem when there is neither.
 */
export async function begin(desktop?: string): Promise<View> {
  const ticket = ticketOf(location, history);
  if (ticket) return post<View>('/v1/view', { ticket });
  return get<View>(desktop ? `/v1/desktops/${encodeURIComponent(desktop)}/view` : '/v1/view');
}

const order: Role[] = ['view', 'control', 'admin'];

/** can says whether a role has another one. */
export const can = (has: Role, wants: Role): boolean => order.indexOf(has) >= order.indexOf(wants);
