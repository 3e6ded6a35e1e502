// The player: one clock for all pools, controls, marks of what happened when, words for what happens now.
"use strict";
const pagesimMap = (() => {
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const pools = data.allocators.map(each => new Pool(each));
  const at = id => document.getElementById(id), number = value => Math.round(value).toLocaleString("en");
  const slider = at("map-frame"), still = matchMedia("(prefers-reduced-motion: reduce)");
  const JUMPS = {refusal: "r", wait: "w", preemption: "pd", "shared block": "s", "copy on write": "c"};
  const SIGNS = {refusal: "▼", wait: "▽", preemption: "✕", "shared block": "●", "copy on write": "■"};
  const listeners = [];
  let frame = 0, playing = false, selected = null;
  slider.max = data.frames.length - 1;

  const nameOf = (pool, owner) => `sequence ${number(pool.owners[owner][0])}`;
  const percent = (slots, pool) => `${(100 * slots / pool.capacity).toFixed(1)}%`;

  // Frames at which each kind of thing happens, by pool. A wait counts where it begins.
  const happenings = pools.map(pool => {
    const found = Object.fromEntries(Object.keys(JUMPS).map(name => [name, []]));
    let waited = false;
    for (const {time, events} of pool.moments) {
      if (time < 0) continue;
      const here = data.frames.indexOf(time, 0);
      for (const [name, kinds] of Object.entries(JUMPS))
        if (events.some(({kind}) => kinds.includes(kind)) && !(name === "wait" && waited)) found[name].push(here);
      waited = events.some(({kind}) => kind === letters.wait);
    }
    return found;
  });
  const kinds = Object.keys(JUMPS).filter(name => happenings.some(found => found[name].length));

  const views = pools.map((pool, index) => {
    const place = document.createElement("div");
    place.className = "pool";
    place.innerHTML = '<h3></h3><p class="account"></p><canvas tabindex="0" role="img"></canvas><p class="told" aria-live="off"></p>' +
      '<div class="ask"><b class="asked"></b><i class="asked"></i><b class="run"></b><i class="run"></i><b class="all"></b><i class="all"></i></div>';
    place.querySelector("h3").textContent = pool.name;
    at("map-pools").append(place);
    const canvas = place.querySelector("canvas");
    const view = {place, canvas, picture: new Picture(pool, canvas), account: place.querySelector(".account"), told: place.querySelector(".told"), ask: place.querySelector(".ask")};
    canvas.addEventListener("pointermove", event => point(index, event, false));
    canvas.addEventListener("click", event => point(index, event, true));
    return view;
  });

  function noRoom(pool, [asked, free, run, given]) {
    const piece = given > asked ? (pool.runs ? `, which takes a piece of ${number(given)}` : `, which takes blocks of ${number(given)} in all`) : "";
    return `it asks for ${number(asked)} slots${piece}; ${number(free)} are free${pool.runs ? `, the longest run of them has ${number(run)}` : ""}`;
  }

  function sentence(pool, {kind, owner, pieces, numbers}) {
    const who = owner === null ? "the head of the queue" : nameOf(pool, owner), slots = pool.unit * pieces.reduce((sum, [, units]) => sum + units, 0);
    const what = pool.runs ? `${number(slots)} slots from ${pieces.length ? number(pieces[0][0]) : ""}` : `${number(pieces.length)} block${pieces.length === 1 ? "" : "s"}`;
    switch (kind) {
      case "r": return `${who} is REFUSED: ${noRoom(pool, numbers)}`;
      case "w": return `${who} WAITS: ${noRoom(pool, numbers)}`;
      case "p": return `${who} is PREEMPTED: it gives all its blocks back and will be computed again`;
      case "d": return `${who} is DROPPED to make room for older ones`;
      case "s": return `${who} SHARES ${what} that ${pieces.length === 1 ? "is" : "are"} there already`;
      case "c": return `${who} COPIES a shared block before it writes, to block ${number(pieces[0][0])}`;
      case "g": return `${who} gets ${what}`;
      case "m": return `${who} is moved to make one free run`;
      case "l": return `${who} has ended and gives back what it held`;
      default: return null;
    }
  }

  function describe(view, pool, flashing) {
    const parts = pool.account(), order = "rwpdscgml";
    view.account.textContent = `used ${percent(parts.used, pool)} · reserved ${percent(parts.reserved, pool)} · internal ${percent(parts.internal, pool)} · free ${percent(parts.free, pool)}; ${number(pool.table.size)} sequence${pool.table.size === 1 ? "" : "s"}`;
    const told = [...pool.events].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind)).map(event => [event, sentence(pool, event)]).filter(([, text]) => text);
    view.told.replaceChildren();
    told.slice(0, 3).forEach(([event, text], k) => {
      const part = document.createElement("rwpd".includes(event.kind) ? "strong" : "span");
      part.textContent = (k ? "; " : "") + text + (k === told.length - 1 ? "." : "");
      view.told.append(part);
    });
    view.told.append(told.length > 3 ? `; and ${number(told.length - 3)} more.` : told.length ? "" : "Nothing changes hands here.");
    const refused = pool.events.find(({kind}) => kind === letters.refuse || kind === letters.wait);
    view.ask.classList.toggle("shown", Boolean(refused));
    if (refused) {
      const [, free, run, given] = refused.numbers, most = Math.max(given, free, run, 1);
      for (const [name, label, slots] of [["asked", "needed", given], ["run", pool.runs ? "longest free run" : "can be given", run], ["all", "free in all", free]]) {
        view.ask.querySelector(`b.${name}`).textContent = `${label}: ${number(slots)}`;
        view.ask.querySelector(`i.${name}`).style.width = `${100 * slots / most}%`;
      }
    }
    view.place.classList.toggle("flash", flashing);
    view.canvas.setAttribute("aria-label", `Map of the pool of ${pool.name}: ${view.account.textContent}. ${view.told.textContent}`);
  }

  function show(to) {
    frame = Math.max(0, Math.min(data.frames.length - 1, to));
    slider.value = frame;
    at("map-when").textContent = `moment ${number(frame + 1)} of ${number(data.frames.length)}, at ${data.frames[frame].toFixed(4)} s`;
    slider.setAttribute("aria-valuetext", at("map-when").textContent);
    pools.forEach((pool, k) => {
      pool.seek(data.frames[frame]);
      views[k].picture.draw(selected && selected.pool === k ? selected.owner : null);
      describe(views[k], pool, happenings[k].refusal.includes(frame) || happenings[k].wait.includes(frame) || happenings[k].preemption.includes(frame));
    });
    moveMark();
    listeners.forEach(listener => listener());
  }

  function fit() {
    theme.read();
    const width = Math.max(160, at("map-pools").clientWidth - 22);  // before the page is laid out there is none
    views.forEach(view => view.picture.fit(width, data.block_size));
    const [first] = views;
    const coarse = views.filter(view => !view.picture.fine);
    at("map-scale").textContent = coarse.length
      ? `${coarse.length < views.length ? coarse.map(view => view.picture.pool.name).join(", ") + ": the" : "The"} pool has too many slots to draw each: a cell stands for ${number(coarse[0].picture.perCell)} slots (${number(coarse[0].picture.perCell / data.block_size)} blocks) and is filled from below by the shares of them that are used, reserved and internal; sequences cannot be told apart in it. The numbers above and the table below are exact.`
      : `Every slot is drawn, ${number(first.picture.slots)} to a row, in the order of their addresses; each sequence has a colour and, where there is room, its number.` +
        (pools.some(pool => pool.plain) ? " Blocks without a shared content are interchangeable: how many a sequence holds is the simulator's account, which of them it got is this recording's choice." : "");
    legend(first.picture.fine);
    drawMarks();
    show(frame);
  }

  // The marks stay as they are; the line that says where we are moves over them.
  let marks = null;
  function drawMarks() {
    const canvas = document.createElement("canvas"), width = at("map-marks").clientWidth, ratio = window.devicePixelRatio || 1, line = 15, label = Math.min(96, width / 4);
    const rows = pools.flatMap((pool, k) => kinds.filter(name => happenings[k][name].length).map(name => [k, name]));
    canvas.width = width * ratio; canvas.height = (rows.length * line + 4) * ratio;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px system-ui, sans-serif"; context.textBaseline = "middle";
    rows.forEach(([k, name], row) => {
      const y = row * line + line / 2, span = width - label - 12;
      context.fillStyle = theme.soft; context.fillText(`${SIGNS[name]} ${pools[k].name}`, 0, y, label - 4);
      context.strokeStyle = theme.soft; context.lineWidth = .5; context.beginPath(); context.moveTo(label, y); context.lineTo(width - 6, y); context.stroke();
      context.fillStyle = theme.ink; context.textAlign = "center";
      let last = -9;
      for (const where of happenings[k][name]) {
        const x = label + 6 + span * where / Math.max(1, data.frames.length - 1);
        if (x - last >= 3) { context.fillText(SIGNS[name], x, y); last = x; }
      }
      context.textAlign = "start";
    });
    marks = {canvas, ratio, from: label + 6, span: width - label - 12};
    Object.assign(at("map-marks"), {width: canvas.width, height: canvas.height});
    at("map-marks").style.height = `${rows.length * line + 4}px`;
  }

  function moveMark() {
    const {canvas, ratio, from, span} = marks, context = at("map-marks").getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (canvas.width && canvas.height) context.drawImage(canvas, 0, 0);
    context.fillStyle = theme.mark;
    context.fillRect((from + span * frame / Math.max(1, data.frames.length - 1) - 1) * ratio, 0, 2 * ratio, canvas.height);
  }

  function point(index, event, choose) {
    const pool = pools[index], {picture} = views[index], slot = picture.slotAt(event.offsetX, event.offsetY);
    if (slot === null) return;
    const owners = pool.ownersAt(slot), block = Math.floor(slot / pool.unit);
    const where = pool.runs ? `slot ${number(slot)}` : `block ${number(block)}, slot ${slot % pool.unit} of it`;
    if (!picture.fine) {
      const cell = Math.floor(slot / picture.perCell), end = Math.min(pool.capacity, slot + picture.perCell);
      const [used, reserved, internal] = picture.parts.map(part => part[cell]);
      at("map-hover").textContent = `${pool.name}, slots ${number(slot)} to ${number(end - 1)}: ${number(used)} used, ${number(reserved)} reserved, ${number(internal)} internal, ${number(end - slot - used - reserved - internal)} free.`;
    } else if (!owners.length) {
      at("map-hover").textContent = `${pool.name}, ${where}: free${pool.key.has(block) && !pool.runs ? ", and still findable by its content (cached)" : ""}.`;
    } else {
      at("map-hover").textContent = owners.slice(0, 4).map(owner => words(pool, owner)).join(" ") + ` Here: ${pool.name}, ${where}.`;
    }
    if (choose && owners.length) { selected = {pool: index, owner: owners[0]}; show(frame); }
  }

  function words(pool, owner) {
    const tokens = pool.tokens(owner), [row, , final] = pool.owners[owner], owned = pool.owned(owner);
    const waste = Math.max(0, owned - Math.max(final, tokens)), reserved = Math.max(0, Math.min(owned, final) - tokens);
    return `Sequence ${number(row)}: ${number(tokens)} tokens of ${number(final)} in the end, in ${number(owned)} slots; ${number(reserved)} reserved, ${number(waste)} internal waste.`;
  }

  function legend(fine) {
    const entries = fine
      ? [["used: a colour and a number for each sequence", c => { c.fillStyle = theme.colour(1); c.fillRect(0, 0, 34, 16); }],
         ["reserved: owned, to be filled (stripes)", c => both(c, theme.reserved)], ["internal: owned, never filled (crosses)", c => both(c, theme.internal)], ["free (blank)", () => {}]]
      : [...["used", "reserved (stripes)", "internal (crosses)"].map((text, k) => [text, c => theme.parts()[k].forEach(style => { c.fillStyle = style; c.fillRect(0, 0, 34, 16); })]), ["free (blank)", () => {}]];
    if (fine && pools.some(pool => pool.moments.some(({events}) => events.some(({kind}) => kind === letters.hash)))) entries.push(["free, still findable by its content: cached (dots)", c => { c.fillStyle = theme.cached; c.fillRect(0, 0, 34, 16); }]);
    if (fine && kinds.includes("shared block")) entries.push(["×2: held by two sequences (dotted frame)", c => { c.setLineDash([2, 2]); c.strokeStyle = theme.ink; c.lineWidth = 2; c.strokeRect(1, 1, 32, 14); }]);
    if (pools.some(pool => pool.runs)) entries.push(["longest free run, when a request finds no room (dashes)", c => { c.setLineDash([6, 3]); c.strokeStyle = theme.mark; c.lineWidth = 3; c.strokeRect(1, 1, 32, 14); }]);
    if (fine) entries.push(["the sequence you picked (thick frame)", c => { c.strokeStyle = theme.mark; c.lineWidth = 3; c.strokeRect(1, 1, 32, 14); }]);
    if (fine) entries.push(["changes hands at this moment", c => { c.strokeStyle = theme.ink; c.lineWidth = 3; c.strokeRect(1, 1, 32, 14); }]);
    at("map-legend").replaceChildren(...entries.map(([text, paint]) => {
      const item = document.createElement("li"), swatch = document.createElement("canvas");
      swatch.width = 34; swatch.height = 16; swatch.setAttribute("aria-hidden", "true");
      const context = swatch.getContext("2d");
      context.fillStyle = theme.paper; context.fillRect(0, 0, 34, 16);
      paint(context); item.append(swatch, text);
      return item;
    }));
  }
  function both(context, pattern) {
    context.globalAlpha = .3; context.fillStyle = theme.colour(1); context.fillRect(0, 0, 34, 16);
    context.globalAlpha = 1; context.fillStyle = pattern; context.fillRect(0, 0, 34, 16);
  }

  function jump(name) {
    const every = happenings.flatMap(found => found[name]).sort((a, b) => a - b);
    play(false);
    show(every.find(where => where > frame) ?? every[0] ?? frame);
  }

  let before = 0, owed = 0;
  function play(on) {
    playing = on && frame < data.frames.length - 1;
    document.querySelector('[data-do="play"]').textContent = playing ? "Pause" : "Play";
    before = performance.now(); owed = 0;
    if (playing) requestAnimationFrame(tick);
  }
  function tick(now) {
    if (!playing) return;
    owed += (now - before) / 1000 * Number(at("map-speed").value); before = now;
    const steps = Math.floor(owed);
    if (steps) { owed -= steps; show(frame + steps); }
    if (frame >= data.frames.length - 1) play(false); else requestAnimationFrame(tick);
  }
  const actions = {first: () => { play(false); show(0); }, back: () => { play(false); show(frame - 1); }, next: () => { play(false); show(frame + 1); },
    play: () => { if (!playing && frame === data.frames.length - 1) show(0); play(!playing); }};
  document.querySelectorAll("#map [data-do]").forEach(button => button.addEventListener("click", actions[button.dataset.do]));
  at("map-signs").textContent = kinds.length ? `In the strip, a line for each allocator: ${kinds.map(name => `${SIGNS[name]}\u00a0${name === "wait" ? "a wait begins" : name}`).join(", ")}.` : "";
  at("map-n").textContent = kinds.length ? `, n goes to the next ${kinds[0]}` : "";
  kinds.forEach(name => {
    const button = Object.assign(document.createElement("button"), {type: "button", textContent: `next ${name}`});
    button.dataset.jump = name;
    button.addEventListener("click", () => jump(name));
    at("map-jumps").append(button);
  });
  slider.addEventListener("input", () => { play(false); show(Number(slider.value)); });
  at("map").addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input[type=number], .table-box, .table-box *")) return;
    const press = {" ": event.target.matches("button") ? null : actions.play, ArrowLeft: actions.back, ArrowRight: actions.next,
      Home: actions.first, End: () => { play(false); show(data.frames.length - 1); }, n: kinds.length ? () => jump(kinds[0]) : null}[event.key];
    if (press) { event.preventDefault(); press(); }
  });
  if (still.matches || data.frames.length < 100) at("map-speed").value = "2";
  new ResizeObserver(fit).observe(at("map-pools").parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", fit);
  fit();
  return {pools, frames: data.frames, kinds, show, jump, listeners, number, bytesPerToken: data.bytes_per_token,
    get frame() { return frame; }, get selected() { return selected; }, select(pool, owner) { selected = {pool, owner}; show(frame); }};
})();
