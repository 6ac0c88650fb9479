/** The page's icons, drawn with lines on 16 by 16. */
const paths = {
  keyboard: 'M1.5 4.5h13v7h-13zM4 7h.01M6.5 7h.01M9 7h.01M11.5 7h.01M5 9.5h6',
  clipboard: 'M5.5 3h-2v11h9V3h-2M5.5 2h5v2.5h-5zM6 8h4M6 10.5h4',
  camera: 'M2 5h2.5L6 3h4l1.5 2H14v8H2zM8 11a2.25 2.25 0 1 0 0-4.5A2.25 2.25 0 0 0 8 11',
  record: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5',
  play: 'M5 3l8 5-8 5z',
  pause: 'M5.5 3v10M10.5 3v10',
  fit: 'M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
  actual: 'M2 3h12v10H2zM5 6v4M11 6v4M8 7h.01M8 9.5h.01',
  full: 'M9.5 6.5 14 2M10 2h4v4M6.5 9.5 2 14M6 14H2v-4',
  figures: 'M2 13.5h12M4 11V8M7 11V4.5M10 11V6.5M13 11V3',
  share: 'M11.5 5.5a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5M4.5 9.75a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5M11.5 14a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5M6 7.2l4-2.4M6 8.8l4 2.4',
  panel: 'M2 3h12v10H2zM10 3v10',
  close: 'M4 4l8 8M12 4l-8 8',
  hand: 'M5 8V4a1 1 0 0 1 2 0v3V3a1 1 0 0 1 2 0v4V4a1 1 0 0 1 2 0v5.5a4 4 0 0 1-4 4.5c-2 0-3-1-4-3L2.5 9a1 1 0 0 1 1.7-1L5 9z',
  eye: 'M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8M8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4',
  agent: 'M3 6.5h10v6.5H3zM8 6.5V3.5M8 3.5h.01M6 9.5h.01M10 9.5h.01',
  file: 'M4 1.5h5L12.5 5v9.5H4zM9 1.5V5h3.5',
  folder: 'M1.5 3.5h4.5l1.5 2h7v8h-13z',
  up: 'M8 13V3M4 7l4-4 4 4',
  down: 'M8 3v10M4 9l4 4 4-4',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  sun: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
