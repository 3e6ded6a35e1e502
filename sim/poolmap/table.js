// One sequence of the map at the moment shown: its block table, who shares its blocks, and the address of a token.
"use strict";
{
  const at = id => document.getElementById(id), {pools, number} = pagesimMap;
  const choices = {pool: at("table-pool"), owner: at("table-owner"), token: at("table-token")};
  choices.pool.append(...pools.map((pool, k) => new Option(pool.name, k)));
  choices.pool.value = Math.max(0, pools.findIndex(pool => !pool.runs));
  const SETTLE_MS = 120;
  let shownOwners = "";

  function refill(pool) {
    const owners = pool.inOrder(), now = owners.join();
    if (now === shownOwners) return;
    shownOwners = now;
    const chosen = choices.owner.value;
    choices.owner.replaceChildren(...owners.map(owner => new Option(`${number(pool.owners[owner][0])} (${number(pool.owned(owner) / pool.unit)} ${pool.runs ? "slots" : "blocks"})`, owner)));
    if (owners.includes(Number(chosen)) && chosen !== "") choices.owner.value = chosen;
  }

  function cell(text, tag = "td") { return Object.assign(document.createElement(tag), {textContent: text}); }

  function line(cells, tag = "td", picked = false) {
    const row = document.createElement("tr");
    row.append(...cells.map(text => cell(text, tag)));
    if (picked) { row.className = "picked"; row.setAttribute("aria-current", "true"); }
    return row;
  }

  function contiguous(pool, owner, token) {
    const [first, slots] = pool.table.get(owner)[0];
    at("table-says").textContent = `${pool.name} keeps no table: the sequence owns one run of ${number(slots)} slots, from slot ${number(first)}. A token's place is a sum.`;
    at("table-address").textContent = `slot = first slot + i = ${number(first)} + ${number(token)} = ${number(first + token)}`;
    at("table-blocks").replaceChildren();
  }

  function paged(pool, owner, token) {
    const hashes = pool.moments.some(({events}) => events.some(({kind}) => kind === letters.hash));
    const table = pool.table.get(owner), size = pool.unit, place = Math.floor(token / size), rest = token % size, block = table[place][0];
    const shared = table.filter(([one]) => pool.holders.get(one) > 1).length, hashed = table.filter(([one]) => pool.key.has(one)).length;
    at("table-says").textContent = `${number(pool.tokens(owner))} tokens in ${number(table.length)} blocks of ${size}: ${number(shared)} shared with others, ${number(hashed)} with a hash. ` +
      (pool.key.size ? "A block's hash is of its own tokens and of the hash before it, so equal hashes mean equal text from the start on; here each is a number." : "No block has a hash: nothing is looked up by its content in this run.");
    let text = `address = block_table[i // ${size}] · block stride + (i % ${size}) · slot stride, for i = ${number(token)}: block_table[${number(place)}] = ${number(block)}, so slot ${number(block)} · ${size} + ${rest} = ${number(block * size + rest)}`;
    const bytes = pagesimMap.bytesPerToken;
    if (bytes) text += `; in bytes ${number(block)} · ${number(size * bytes)} + ${rest} · ${number(bytes)} = ${number(block * size * bytes + rest * bytes)} (strides over all layers together; each layer's kernel has its part of them)`;
    at("table-address").textContent = text;
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(line(["entry", "tokens", "physical block", "references", "hash, and the one before", "also held by"], "th"));
    let parent = null;
    table.forEach(([one], k) => {
      const others = pool.holders.get(one) > 1 ? pool.sharers(one).filter(other => other !== owner).map(other => number(pool.owners[other][0])) : [];
      const key = pool.key.has(one) ? pool.key.get(one) : null;
      const chain = key === null ? (hashes ? "none yet" : "none") : `#${key}${k ? `, behind ${parent === null ? "?" : `#${parent}`}` : ", the first"}`;
      const last = Math.min(pool.tokens(owner), (k + 1) * size) - 1;
      const span = last < k * size ? "none yet" : `${number(k * size)} to ${number(last)}`;
      body.append(line([number(k), span, number(one), String(pool.holders.get(one)), chain, others.length ? `sequence ${others.slice(0, 5).join(", ")}${others.length > 5 ? ` and ${others.length - 5} more` : ""}` : "nobody"], "td", k === place));
      parent = key;
    });
    at("table-blocks").replaceChildren(head, body);
  }

  function render() {
    const index = Number(choices.pool.value), pool = pools[index];
    refill(pool);
    if (!choices.owner.value) {
      at("table-says").textContent = "No sequence is in the pool at this moment."; at("table-address").textContent = ""; at("table-blocks").replaceChildren();
      return;
    }
    const owner = Number(choices.owner.value), tokens = Math.max(1, pool.tokens(owner));
    choices.token.max = tokens - 1;
    const token = Math.min(tokens - 1, Math.max(0, Math.floor(Number(choices.token.value)) || 0));
    if (document.activeElement !== choices.token) choices.token.value = token;
    (pool.runs ? contiguous : paged)(pool, owner, token);
  }

  let seen = null, waiting = null;
  pagesimMap.listeners.push(() => {
    const {selected} = pagesimMap;
    if (selected && selected !== seen) {
      seen = selected; choices.pool.value = selected.pool; shownOwners = ""; refill(pools[selected.pool]); choices.owner.value = selected.owner;
    }
    clearTimeout(waiting);
    waiting = setTimeout(render, SETTLE_MS);  // a list of thousands of sequences is not made anew for each frame
  });
  choices.pool.addEventListener("change", () => { shownOwners = ""; choices.owner.value = ""; render(); });
  choices.owner.addEventListener("change", () => pagesimMap.select(Number(choices.pool.value), Number(choices.owner.value)));
  choices.token.addEventListener("input", render);
  choices.token.addEventListener("change", render);
  render();
}
