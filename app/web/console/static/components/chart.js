// Lines over time, drawn by uPlot.

import { html, onResize, onScheme, useLayoutEffect, useRef } from "../ui.js";

/**
 * times: seconds since 1970; series: [{label, values, colour}], where `colour` is the name of a CSS property;
 * seconds: how many of them are shown at least; text: what the chart shows, for those who do not see it.
 */
export function Chart({ times, series, seconds, text, height = 180 }) {
  const place = useRef(null);
  const chart = useRef(null);
  const span = useRef(null); // not what uPlot finds: it makes a day, or more, of a single time
  span.current = [Math.min(times[0], times.at(-1) - seconds), times.at(-1)];

  useLayoutEffect(() => {
    const make = () => {
      chart.current?.destroy();
      const style = getComputedStyle(place.current);
      const colour = (name) => style.getPropertyValue(name).trim();
      const [ink, grid] = [style.color, { stroke: colour("--line"), width: 1 }];
      const axis = { stroke: ink, grid, ticks: grid };
      const options = {
        width: place.current.clientWidth || 300,
        height,
        cursor: { drag: { x: false, y: false } },
        series: [
          { value: "{HH}:{mm}" },
          ...series.map((each) => ({
            label: each.label, stroke: colour(each.colour), width: 2, scale: each.scale ?? "y",
            value: (_, value) => (value === null || value === undefined ? "–" : each.shown(value)),
          })),
        ],
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toTimeString().slice(0, 5)) },
          ...[...new Set(series.map((each) => each.scale ?? "y"))].map((scale, index) => {
            const shown = series.find((each) => (each.scale ?? "y") === scale).shown;
            return { ...axis, scale, side: index ? 1 : 3, size: 70, values: (_, ticks) => ticks.map(shown) };
          }),
        ],
        scales: {
          x: { range: () => span.current },
          ...Object.fromEntries(series.map((each) => [each.scale ?? "y", { range: (_, low, high) => [0, high || 1] }])),
        },
      };
      chart.current = new globalThis.uPlot(options, [times, ...series.map((each) => each.values)], place.current);
    };
    make();
    const ends = [
      onResize(place.current, () => chart.current.setSize({ width: place.current.clientWidth || 300, height })), onScheme(make),
    ];
    return () => {
      for (const end of ends) end();
      chart.current.destroy();
      chart.current = null;
    };
  }, [series.length]);
  useLayoutEffect(() => chart.current?.setData([times, ...series.map((each) => each.values)]), [times, series]);

  return html`<div class="chart" ref=${place} role="img" aria-label=${text}></div>`;
}
