import type { JSX } from 'preact';

/** Line drawings of 16 by 16, in the colour of the text beside them. They say nothing by themselves. */
const paths = {
  fork: 'M4 2.500v6a4 4 0 0 0 4 4h3.500M4 6.500h7.500M9.800 4.500l2 2-2 2M9.800 10.500l2 2-2 2',
  pause: 'M5.500 3.500v9M10.500 3.500v9',
  play: 'M5 3l7.500 5L5 13z',
  moon: 'M13 9.500A5.500 5.500 0 0 1 6.500 3a5.500 5.500 0 1 0 6.500 6.500z',
  sun: 'M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600zM8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M3.400 12.600l.9-.9M11.700 4.300l.9-.9',
  auto: 'M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12',
  trash: 'M3 4.500h10M6.500 4.500V3h3v1.500M4.500 4.500l.6 8.500h5.800l.6-8.500M6.800 7v3.800M9.200 7v3.800',
  camera: 'M2.500 5h2.200l1-1.500h4.600l1 1.500h2.200v8h-11zM8 7a2 2 0 1 0 0 4 2 2 0 0 0 0-4z',
  plus: 'M8 3.500v9M3.500 8h9',
  search: 'M7 2.800a4.200 4.200 0 1 0 0 8.400 4.200 4.200 0 0 0 0-8.400zM10.200 10.200l3.300 3.300',
  more: 'M3.500 8h.01M8 8h.01M12.500 8h.01',
  screen: 'M2.500 3.500h11v7.500h-11zM6 13.500h4M8 11v2.500',
  tree: 'M2.500 6.500h3v3h-3zM10.500 2.500h3v3h-3zM10.500 10.500h3v3h-3zM5.500 8h2.500M8 4v8M8 4h2.500M8 12h2.500',
  chart: 'M2.500 13.500h11M4.500 13V9M8 13V4M11.500 13V7',
  list: 'M5.500 4h8M5.500 8h8M5.500 12h8M2.500 4h.01M2.500 8h.01M2.500 12h.01',
  hand: 'M5.500 8.500V4a1 1 0 0 1 2 0v3.500-4.700a1 1 0 0 1 2 0V7.500 4a1 1 0 0 1 2 0v5.500c0 2.500-1.500 4-3.800 4-1.700 0-2.500-.6-3.400-2L2.700 8.600c-.5-1 .7-1.800 1.400-1z',
  robot: 'M3.500 6h9v6.500h-9zM8 6V3.500M8 2.700h.01M6 8.800h.01M10 8.800h.01M6.500 10.800h3M1.800 8v2.500M14.200 8v2.500',
  alert: 'M8 2.500l6 10.500H2zM8 6.500v3M8 11.300h.01',
  power: 'M8 2.500v5M4.800 4.500a4.600 4.600 0 1 0 6.400 0',
  close: 'M4 4l8 8M12 4l-8 8',
  keyboard: 'M1.500 4.500h13v7h-13zM4 7h.01M6.700 7h.01M9.300 7h.01M12 7h.01M4.500 9.300h7',
} satisfies Record<string, string>;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}

/** The mark of the pages. */
export function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" class="mark-ground" />
      <g class="mark-lines">
        <rect x="6" y="7" width="11" height="8" rx="1.600" />
        <path d="M11.500 15v5.500a4 4 0 0 0 4 4H18M11.500 19h6.500" />
      </g>
      <g class="mark-fill">
        <rect x="18.500" y="15.800" width="8" height="5.600" rx="1.400" />
        <rect x="18.500" y="22.600" width="8" height="5.600" rx="1.400" opacity=".75" />
      </g>
    </svg>
  );
}
