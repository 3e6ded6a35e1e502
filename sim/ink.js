// The figures of a page: in the colour of its text, light or dark, and no higher than their legends are at this width.
"use strict";
{
  const plots = [...document.querySelectorAll(".js-plotly-plot")], highest = new Map(plots.map(place => [place, [place.layout.height, place.layout.margin.b]]));
  const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const paint = () => plots.forEach(place => Plotly.relayout(place, {"font.color": ink(), paper_bgcolor: "rgba(0,0,0,0)"}));
  const fit = async place => {
    const [height, foot] = highest.get(place);
    await Plotly.relayout(place, {height, "margin.b": foot});
    const legend = place.querySelector(".legend");
    const spare = legend ? Math.floor(place.getBoundingClientRect().bottom - legend.getBoundingClientRect().bottom) : 0;
    if (spare > 0) await Plotly.relayout(place, {height: height - spare, "margin.b": foot - spare});
  };
  let wide = innerWidth;
  paint();
  plots.forEach(fit);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; setTimeout(() => plots.forEach(fit), 200); } });
}
