// Draws a pool onto a canvas: slot by slot where there is room, or in cells that each stand for many slots.
"use strict";
const MOST_ROWS = 16, ROW_GAP = 3, CELL = 9, CELL_ROWS = 14, LEAST_PIXELS = 0.45;
const FINEST = 4;  // of a pixel: how finely heights in a cell are told apart

const theme = {
  read() {
    const style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--ink").trim(); this.paper = style.getPropertyValue("--paper").trim();
    this.panel = style.getPropertyValue("--panel").trim();
    this.mark = style.getPropertyValue("--mark").trim(); this.soft = style.getPropertyValue("--soft").trim();
    this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.reserved = this.pattern(context => { context.moveTo(-1, 7); context.lineTo(7, -1); context.moveTo(2, 10); context.lineTo(10, 2); });
    this.internal = this.pattern(context => { context.moveTo(0, 0); context.lineTo(6, 6); context.moveTo(6, 0); context.lineTo(0, 6); });
    this.cached = this.pattern(context => context.rect(2, 2, 1, 1));
  },
  pattern(path) {
    const tile = document.createElement("canvas"); tile.width = tile.height = 6;
    const context = tile.getContext("2d");
    context.strokeStyle = this.ink; context.lineWidth = 1; context.beginPath(); path(context); context.stroke();
    return context.createPattern(tile, "repeat");
  },
  // Of cells that stand for many slots: what is drawn for used, reserved and internal, one upon the other.
  parts() {
    const [used, reserved, internal] = this.dark ? ["#3d8fc4", "#2f5f7a", "#7a5600"] : ["#0072B2", "#9fd4f2", "#f3c668"];
    return [[used], [reserved, this.reserved], [internal, this.internal]];
  },
  // A sequence's colour: neighbours differ in hue, and in lightness too.
  colour(row) { return `hsl(${(row * 137.508) % 360} 55% ${(this.dark ? 34 : 66) + 7 * (row % 3)}%)`; },
};

class Picture {
  constructor(pool, canvas) { this.pool = pool; this.canvas = canvas; }

  fit(width, blockSize) {
    const {capacity} = this.pool, ratio = window.devicePixelRatio || 1;
    let rows = Math.min(MOST_ROWS, Math.max(1, Math.ceil(capacity * 2 / width)));
    this.slots = Math.ceil(capacity / rows / blockSize) * blockSize;
    this.pixels = width / this.slots;
    this.fine = this.pixels >= LEAST_PIXELS;
    this.rowHeight = rows <= 4 ? 30 : 16;
    if (!this.fine) {
      this.columns = Math.floor(width / CELL);
      this.perCell = Math.ceil(capacity / (this.columns * CELL_ROWS) / blockSize) * blockSize;
      rows = Math.ceil(capacity / this.perCell / this.columns);
      this.rowHeight = 12;
    } else rows = Math.ceil(capacity / this.slots);
    this.width = width; this.height = rows * (this.rowHeight + ROW_GAP) - ROW_GAP;
    this.canvas.width = Math.round(width * ratio); this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.lineJoin = "round";
    this.clear();
  }

  draw(selected) {
    if (this.fine) { this.clear(); this.drawSlots(selected); } else this.drawCells();
  }

  clear() {
    this.context.fillStyle = theme.panel; this.context.fillRect(0, 0, this.width, this.height);
    this.drawn = [];  // how high each part reaches in each cell, as it is on the canvas
  }

  // Calls with the rectangles, row by row, of slots first ... first + count.
  boxes(first, count, tell) {
    while (count > 0) {
      const row = Math.floor(first / this.slots), from = first - row * this.slots, here = Math.min(count, this.slots - from);
      tell(from * this.pixels, row * (this.rowHeight + ROW_GAP), here * this.pixels, this.rowHeight);
      first += here; count -= here;
    }
  }

  fill(first, count, style) { this.context.fillStyle = style; this.boxes(first, count, (...box) => this.context.fillRect(...box)); }

  outline(first, count, style, width, dash = []) {
    const context = this.context;
    context.strokeStyle = style; context.lineWidth = width; context.setLineDash(dash);
    this.boxes(first, count, (x, y, w, h) => context.strokeRect(x + width / 2, y + width / 2, Math.max(w - width, .1), h - width));
    context.setLineDash([]);
  }

  drawSlots(selected) {
    const {pool, context} = this, given = new Set();
    this.fill(0, pool.capacity, theme.paper);
    for (const block of pool.key.keys()) if (!pool.holders.has(block)) this.fill(block * pool.unit, pool.unit, theme.cached);
    for (const {kind, pieces} of pool.events) if ("gsc".includes(kind)) pieces.forEach(([unit]) => given.add(unit));
    const marked = [];
    pool.spans((owner, first, size, filled, toBe) => {
      const colour = theme.colour(pool.owners[owner][0]);
      this.fill(first, size, theme.paper);
      context.globalAlpha = .3; this.fill(first + filled, size - filled, colour); context.globalAlpha = 1;
      this.fill(first, filled, colour);
      this.fill(first + filled, toBe - filled, theme.reserved);
      this.fill(first + toBe, size - toBe, theme.internal);
      this.outline(first, size, theme.dark ? "#0008" : "#fff9", .5);
      marked.push([owner, first, size]);
    });
    context.font = "10px system-ui, sans-serif"; context.textBaseline = "middle";
    for (const [owner, first, size] of marked) {
      const block = first / pool.unit, shared = pool.runs ? 1 : pool.holders.get(block) || 1;
      const label = shared > 1 ? `×${shared}` : String(pool.owners[owner][0]), room = context.measureText(label).width + 4;
      if (given.has(block)) this.outline(first, size, theme.ink, 2);
      if (shared > 1) this.outline(first, size, theme.ink, 1.5, [2, 2]);
      if (owner === selected) this.outline(first, size, theme.mark, 3);
      let placed = false;
      this.boxes(first, size, (x, y, w, h) => {
        if (placed || w < room) return;
        placed = true;
        context.strokeStyle = theme.paper; context.lineWidth = 2.5; context.globalAlpha = .8; context.strokeText(label, x + 3, y + h / 2); context.globalAlpha = 1;
        context.fillStyle = theme.ink; context.fillText(label, x + 3, y + h / 2);
      });
    }
    if (this.noRoom()) this.outline(...pool.longestFree(), theme.mark, 3, [6, 3]);
  }

  // Whether the longest free run is worth showing: somebody was refused, by an allocator that gives runs.
  noRoom() { return this.pool.runs && this.pool.events.some(({kind}) => kind === letters.refuse || kind === letters.wait); }

  // The shares of a cell are stacked in it, from the bottom: used, reserved, internal. Only cells that changed are drawn.
  drawCells() {
    const {pool, context} = this, count = Math.ceil(pool.capacity / this.perCell);
    const parts = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
    const add = (part, first, slots) => {
      while (slots > 0) {
        const cell = Math.floor(first / this.perCell), here = Math.min(slots, (cell + 1) * this.perCell - first);
        part[cell] += here; first += here; slots -= here;
      }
    };
    pool.spans((owner, first, size, filled, toBe) => {
      add(parts[0], first, filled); add(parts[1], first + filled, toBe - filled); add(parts[2], first + toBe, size - toBe);
    });
    const looks = theme.parts();
    if (this.framed) this.clear();
    this.framed = this.noRoom();
    for (let cell = 0; cell < count; cell++) {
      const whole = Math.min(this.perCell, pool.capacity - cell * this.perCell);
      let sum = 0;
      const tops = parts.map(part => Math.round((sum += part[cell]) / whole * this.rowHeight * FINEST) / FINEST);
      if (this.drawn[cell] && tops.every((height, k) => height === this.drawn[cell][k])) continue;
      this.drawn[cell] = tops;
      const x = cell % this.columns * CELL, top = Math.floor(cell / this.columns) * (this.rowHeight + ROW_GAP);
      context.fillStyle = theme.paper; context.fillRect(x, top, CELL - 1, this.rowHeight);
      let below = 0;
      tops.forEach((height, k) => {
        for (const style of looks[k]) if (height > below) { context.fillStyle = style; context.fillRect(x, top + this.rowHeight - height, CELL - 1, height - below); }
        below = height;
      });
    }
    this.parts = parts;
    if (this.framed) {
      const [first, slots] = pool.longestFree(), last = Math.floor(Math.max(first, first + slots - 1) / this.perCell);
      context.strokeStyle = theme.mark; context.lineWidth = 2; context.setLineDash([4, 2]);
      for (let cell = Math.floor(first / this.perCell); cell <= last && slots; cell++)
        context.strokeRect(cell % this.columns * CELL, Math.floor(cell / this.columns) * (this.rowHeight + ROW_GAP), CELL - 1, this.rowHeight);
      context.setLineDash([]);
    }
  }

  slotAt(x, y) {
    const row = Math.floor(y / (this.rowHeight + ROW_GAP));
    const slot = this.fine ? row * this.slots + Math.floor(x / this.pixels) : (row * this.columns + Math.floor(x / CELL)) * this.perCell;
    return slot >= 0 && slot < this.pool.capacity ? slot : null;
  }
}
