// Draws the figures of a report.
"use strict";
for (const script of document.querySelectorAll("script.figure")) {
  const figure = JSON.parse(script.textContent);
  Plotly.newPlot(script.dataset.for, figure.data, figure.layout, {responsive: true, displayModeBar: false});
}
