// Draws the figures of a report, in the colours of the page, and again when these change.
"use strict";
{
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const plots = [];
  for (const script of document.querySelectorAll("script.figure")) {
    const figure = JSON.parse(script.textContent), place = document.getElementById(script.dataset.for);
    figure.layout.font = {...figure.layout.font, color: ink()};
    Plotly.newPlot(place, figure.data, figure.layout, {responsive: true, displayModeBar: false});
    plots.push(place);
  }
  dark.addEventListener("change", () => plots.forEach(place => Plotly.relayout(place, {"font.color": ink()})));
}
