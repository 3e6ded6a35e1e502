// Photographs parts of the pages beside it, as shots.json says. node shots.mjs CHROMIUM FOLDER-OF-PICTURES
import {readFileSync} from "node:fs";
import puppeteer from "puppeteer-core";

const [chromium, folder] = process.argv.slice(2);
const {shots} = JSON.parse(readFileSync("shots.json", "utf8"));
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
const AIR = 4, SETTLED_MS = 1000;
const browser = await puppeteer.launch({executablePath: chromium, args: flags});
try {
  for (const {picture, page: name, width = 860, dark = false, from, to, jump, of, token, frame} of shots) {
    const page = await browser.newPage();
    await page.setViewport({width, height: 900});
    await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: dark ? "dark" : "light"}]);
    await page.goto(`file://${process.cwd()}/${name}.html`, {waitUntil: "load"});
    if (jump) await page.evaluate((kind, which) => {  // to the first that this allocator does with memory still free
      const pool = document.querySelectorAll("#map-pools .pool")[which], button = document.querySelector(`[data-jump="${kind}"]`);
      const there = () => pool.classList.contains("flash") && (which !== 1 || pagesimMap.pools[1].account().free > pagesimMap.pools[1].events.find(event => event.kind === "r").numbers[0]);
      for (let k = 0; k < pagesimMap.frames.length && !there(); k++) button.click();
      if (!there()) throw new Error(`no ${kind} of allocator ${which}`);
    }, jump, of);
    if (token) await page.evaluate(number => {
      const box = document.getElementById("table-token");
      box.value = number;
      box.dispatchEvent(new Event("input"));
    }, token);
    if (frame) await page.evaluate(async number => {
      const place = document.querySelector(".js-plotly-plot"), [name] = place.layout.sliders[0].steps[number].args;
      await Plotly.animate(place, name, {mode: "immediate", frame: {duration: 0, redraw: true}, transition: {duration: 0}});
      await Plotly.relayout(place, {"sliders[0].active": number});
    }, frame);
    await new Promise(done => setTimeout(done, SETTLED_MS));
    const clip = await page.evaluate((first, last, air) => {
      const [a, b] = [first, last].map(place => document.querySelector(place).getBoundingClientRect());
      const left = Math.max(0, Math.min(a.left, b.left) - air), top = Math.max(0, a.top + scrollY - air);
      return {x: left, y: top, width: Math.min(innerWidth, Math.max(a.right, b.right) + air) - left, height: b.bottom + scrollY + air - top};
    }, from, to, AIR);
    await page.screenshot({path: `${folder}/${picture}`, clip, captureBeyondViewport: true});
    await page.close();
  }
} finally {
  await browser.close();
}
