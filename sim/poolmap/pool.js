// The state of one recorded pool, played forward event by event. The same rules are in playback.py.
"use strict";
const letters = {give: "g", share: "s", copy: "c", move: "m", leave: "l", preempt: "p", drop: "d", tokens: "t", hash: "h", refuse: "r", wait: "w"};

class Pool {
  constructor(data) {
    Object.assign(this, data);
    const bytes = Uint8Array.from(atob(data.pieces), letter => letter.charCodeAt(0));
    const values = data.short ? new Uint16Array(bytes.buffer) : new Uint32Array(bytes.buffer);
    let at = 0;
    this.moments = data.moments.map(([time, step, events]) => ({time, step, events: events.map(([kind, owner, count, ...numbers]) => {
      const pieces = [];
      for (let k = 0; k < count; k++) pieces.push(data.runs ? [values[at++], values[at++]] : [values[at++], 1]);
      return {kind, owner, pieces, numbers};
    })}));
    this.reset();
  }

  reset() {
    this.next = 0; this.time = -1; this.step = 0; this.events = []; this.sums = null; this.numShared = 0;
    this.table = new Map(); this.known = new Map(); this.holders = new Map(); this.key = new Map();
  }

  // Go to the state at `time`; the events of that very moment are left in `events`.
  seek(time) {
    if (time === this.time) return;
    if (time < this.time) this.reset();
    this.time = time; this.events = []; this.sums = null;
    while (this.next < this.moments.length && this.moments[this.next].time <= time) {
      const moment = this.moments[this.next++];
      this.step = moment.step;
      moment.events.forEach(event => this.apply(event));
      this.events = moment.time === time ? moment.events : [];
    }
  }

  apply({kind, owner, pieces, numbers}) {
    if (kind === letters.refuse || kind === letters.wait) return;
    if (kind === letters.hash) { this.key.set(pieces[0][0], numbers[0]); return; }
    const table = this.table.get(owner);
    if (kind === letters.give || kind === letters.share) {
      if (kind === letters.give) pieces.forEach(([first]) => this.key.delete(first));
      this.hold(pieces, 1);
      this.table.set(owner, (table || []).concat(pieces));
    } else if (kind === letters.copy) {
      this.hold([table[numbers[0]]], -1); this.hold(pieces, 1); this.key.delete(pieces[0][0]);
      table[numbers[0]] = pieces[0];
    } else if (kind === letters.move) {
      this.table.set(owner, pieces);
    } else if (kind === letters.tokens) {
      this.known.set(owner, {tokens: numbers[0], step: this.step, more: numbers[1]});
    } else if (table) {
      this.hold(table, -1);
      this.table.delete(owner); this.known.delete(owner);
    }
  }

  hold(pieces, change) {
    if (this.runs) return;
    for (const [block] of pieces) {
      const before = this.holders.get(block) || 0, count = before + change;
      this.numShared += (count > 1) - (before > 1);
      if (count) this.holders.set(block, count); else this.holders.delete(block);
    }
  }

  tokens(owner) {
    const {tokens, step, more} = this.known.get(owner);
    if (this.grows !== "time") return tokens + more * (this.step - step);
    const [, prompt, final, from, stay] = this.owners[owner];
    const grown = prompt + Math.floor((this.time - from) / stay * (final - prompt));
    return Math.max(tokens, Math.min(grown, this.owned(owner), final));
  }

  owned(owner) { return this.unit * this.table.get(owner).reduce((sum, [, units]) => sum + units, 0); }

  inOrder() { return [...this.table.keys()].sort((a, b) => this.owners[a][0] - this.owners[b][0]); }

  // Calls with (owner, first slot, slots, of them filled, and to be filled in the end); every slot once.
  spans(tell) {
    const seen = new Set(), sharing = this.numShared > 0;
    let used = 0, reserved = 0, internal = 0;
    for (const owner of this.inOrder()) {
      const tokens = this.tokens(owner), final = this.owners[owner][2];
      let begin = 0;
      this.table.get(owner).forEach(([first, units]) => {
        const size = units * this.unit;
        if (!sharing || !seen.has(first)) {
          if (sharing) seen.add(first);
          const filled = Math.min(Math.max(tokens - begin, 0), size);
          const toBe = Math.max(filled, Math.min(Math.max(final - begin, 0), size));
          used += filled; reserved += toBe - filled; internal += size - toBe;
          tell(owner, first * this.unit, size, filled, toBe);
        }
        begin += size;
      });
    }
    this.sums = {used, reserved, internal, free: this.capacity - used - reserved - internal};
  }

  // Slots of each kind; known already where the pool has just been drawn.
  account() {
    if (!this.sums) this.spans(() => {});
    return this.sums;
  }

  // [first slot, slots] of the longest run of slots that nobody owns.
  longestFree() {
    const owned = [];
    this.spans((owner, first, size) => owned.push([first, size]));
    owned.sort((a, b) => a[0] - b[0]).push([this.capacity, 0]);
    let end = 0, best = [0, 0];
    for (const [first, size] of owned) {
      if (first - end > best[1]) best = [end, first - end];
      end = first + size;
    }
    return best;
  }

  // Owners of the block or run that a slot lies in.
  ownersAt(slot) {
    return this.inOrder().filter(owner => this.table.get(owner).some(([first, units]) => slot >= first * this.unit && slot < (first + units) * this.unit));
  }

  sharers(block) { return this.inOrder().filter(owner => this.table.get(owner).some(([first]) => first === block)); }
}
