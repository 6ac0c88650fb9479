import type { Node } from '../common/types';

/** Place is where a node of the lineage is drawn: column by its depth, row by its leaves. */
export interface Place {
  node: Node;
  column: number;
  row: number;
  parent?: Place;
}

/**
 * layout puts each node right of its parent, in the middle of its children. Nodes
 * come parents first; one whose parent is not there is a root.
 */
export function layout(nodes: Node[]): { places: Place[]; columns: number; rows: number } {
  const by = new Map<string, Place>();
  const children = new Map<string, Place[]>();
  const roots: Place[] = [];
  for (const node of nodes) {
    const parent = node.parent ? by.get(node.parent) : undefined;
    const place: Place = { node, column: parent ? parent.column + 1 : 0, row: 0, ...(parent ? { parent } : {}) };
    by.set(node.id, place);
    if (parent) {
      const list = children.get(parent.node.id) ?? [];
      children.set(parent.node.id, list);
      list.push(place);
    } else {
      roots.push(place);
    }
  }
  let rows = 0;
  const put = (p: Place): void => {
    const below = children.get(p.node.id) ?? [];
    if (below.length === 0) {
      p.row = rows++;
      return;
    }
    for (const c of below) put(c);
    p.row = ((below[0]?.row ?? 0) + (below.at(-1)?.row ?? 0)) / 2;
  };
  for (const r of roots) put(r);
  const places = [...by.values()];
  return { places, rows, columns: Math.max(0, ...places.map((p) => p.column + 1)) };
}
