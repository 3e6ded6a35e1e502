// Opens a report in a headless Chromium, works its controls, and prints what was seen as JSON.
// node look.mjs CHROMIUM PAGE WIDTH light|dark JUMP
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import puppeteer from "puppeteer-core";

const [chromium, file, width, scheme, jump] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
const browser = await puppeteer.launch({executablePath: chromium, args: flags});
try {
  const page = await browser.newPage(), seen = {messages: [], requests: []};
  page.on("console", message => { if (["error", "warn"].includes(message.type())) seen.messages.push(message.text()); });
  page.on("pageerror", error => seen.messages.push(String(error)));
  page.on("request", request => { if (!/^(data|blob):/.test(request.url())) seen.requests.push(request.url()); });
  page.setDefaultTimeout(200_000);  // a busy machine is slow to start
  await page.setViewport({width: Number(width), height: 900});
  await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: scheme}]);
  await page.goto(`file://${file}`, {waitUntil: "load"});
  const settled = () => page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
  await settled();

  seen.size = await page.evaluate(() => ({wide: document.documentElement.scrollWidth, inner: innerWidth}));
  seen.panels = await page.evaluate(() => [...document.querySelectorAll(".plot")].map(place => ({
    title: place.closest("section").querySelector("h2").textContent,
    marks: [...place.querySelectorAll(".scatterlayer path, .barlayer path")].filter(path => path.getAttribute("d")).length,
    wide: place.querySelector(".main-svg").getBoundingClientRect().width, room: place.clientWidth,
  })));
  const painted = () => page.evaluate(() => [...document.querySelectorAll("#map-pools canvas, #map-marks")].map(canvas =>
    new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size));
  const now = () => page.evaluate(() => ({
    frame: pagesimMap.frame, playing: document.querySelector('[data-do="play"]').textContent === "Pause",
    pools: [...document.querySelectorAll("#map .pool")].map(pool => ({
      flash: pool.classList.contains("flash"), told: pool.querySelector(".told").textContent,
      ask: getComputedStyle(pool.querySelector(".ask")).visibility, bars: pool.querySelector(".ask").textContent,
    }))}));

  seen.kinds = await page.evaluate(() => pagesimMap.kinds);
  seen.words = await page.evaluate(() => ["signs", "keys", "legend"].map(name => document.getElementById(`map-${name}`).textContent));
  seen.first = await now();
  await page.click(`[data-jump="${jump}"]`);
  seen.jumped = await now();
  seen.colours = await painted();
  await page.focus("#map-frame");
  await page.keyboard.press("ArrowRight");
  seen.right = (await now()).frame;
  await page.keyboard.press("Home");
  seen.home = (await now()).frame;
  await page.keyboard.press("n");
  seen.n = (await now()).frame;
  await page.select("#map-speed", "2");
  await page.focus("#map-pools canvas");
  await page.keyboard.press("ArrowLeft");
  seen.left = (await now()).frame;
  await page.keyboard.press("Space");
  seen.playing = (await now()).playing;
  await page.waitForFunction(from => pagesimMap.frame > from, {}, seen.left);
  await page.keyboard.press("Space");
  seen.paused = !(await now()).playing;
  await page.keyboard.press("End");
  seen.end = (await now()).frame;

  // Every frame's account, forward; then back through some of them, which plays from the start again.
  seen.accounts = await page.evaluate(() => {
    const all = frame => { return pagesimMap.pools.map(pool => { pool.seek(pagesimMap.frames[frame]); const a = pool.account(); return [a.used, a.reserved, a.internal, a.free]; }); };
    const forward = pagesimMap.frames.map((_, frame) => all(frame)), last = forward.length - 1;
    const back = [last, last >> 1, 1, 0].map(frame => [frame, all(frame)]);
    return {forward, back};
  });

  // What is drawn step by step, only where something changed, beside the same drawn afresh: another scheme redraws all.
  const pictures = () => page.evaluate(() => [...document.querySelectorAll("#map-pools canvas, #map-marks")].map(canvas => canvas.toDataURL()));
  const into = async value => { await page.emulateMediaFeatures([{name: "prefers-color-scheme", value}]); await settled(); return pictures(); };
  seen.redrawn = true; seen.asAfresh = [];
  for (const share of [1, 1 / 3, 1 / 2]) {
    await page.evaluate(until => { for (let frame = 0; frame <= until; frame++) pagesimMap.show(frame); }, (seen.end * share) >> 0);
    const stepwise = await pictures();
    seen.redrawn &&= (await into(scheme === "dark" ? "light" : "dark")).every((picture, k) => picture !== stepwise[k]);
    seen.asAfresh.push(...(await into(scheme)).map((picture, k) => picture === stepwise[k]));
  }

  await page.waitForFunction(() => document.getElementById("table-owner").options.length === pagesimMap.pools[Number(document.getElementById("table-pool").value)].table.size);
  seen.table = await page.evaluate(() => {
    const at = id => document.getElementById(id), change = (id, value, type) => { at(id).value = value; at(id).dispatchEvent(new Event(type)); };
    const options = [...at("table-owner").options].map(option => option.value);
    const pool = pagesimMap.pools[Number(at("table-pool").value)], longest = options.reduce((a, b) => pool.owned(Number(a)) >= pool.owned(Number(b)) ? a : b);
    change("table-owner", longest, "change");
    change("table-token", 17, "input");
    return {unit: pool.unit, entries: pool.table.get(Number(longest)).map(([block]) => block), tokens: pool.tokens(Number(longest)), says: at("table-says").textContent,
      address: at("table-address").textContent, hashes: at("table-blocks").textContent.includes("none yet"), picked: at("table-blocks").querySelectorAll(".picked").length, picture: [...at("table-blocks").querySelectorAll("tbody tr")].map(row => Number(row.cells[2].textContent.replaceAll(",", "")))};
  });
  const canvas = await page.$("#map-pools canvas"), box = (await canvas.scrollIntoView(), await canvas.boundingBox());
  await page.mouse.move(box.x + 5, box.y + 5);
  seen.hover = await page.$eval("#map-hover", place => place.textContent);

  await page.evaluate(axe);
  seen.faults = await page.evaluate(async () => (await window.axe.run({resultTypes: ["violations"]})).violations
    .filter(({impact}) => ["serious", "critical"].includes(impact)).map(({id, nodes}) => `${id}: ${nodes.map(node => node.target.join(" ") + " " + (node.any[0]?.message ?? "")).join("; ")}`));
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
