// SPDX-License-Identifier: Apache-2.0
// Asks the node for /page.json once a second and shows it. What a name says is only ever text. No number is
// made up: what is not known is a dash, and what was known before the node fell silent is said to be old.
"use strict";
(() => {
const EVERY_MS = 1000, PATIENCE_MS = 8000, ROWS = 8, SVG = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);
const DASH = "–";
let before = null, answered = null, chosen = "";

// ---- words and numbers
const number = n => n === undefined || n === null ? DASH : Math.round(n).toLocaleString("en").replaceAll(",", "\u202f");
const digits = x => x >= 100 || Number.isInteger(x) ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
function scaled(n, step, units) {
  let unit = 0;
  while (n >= step * .9995 && unit + 1 < units.length) { n /= step; unit++; }
  return digits(n) + "\u00a0" + units[unit];
}
const bytes = n => n === undefined || n === null ? DASH : scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const speed = n => n === undefined || n === null ? DASH : bytes(n) + "/s";
function time(us) {
  if (us === undefined || us === null) return DASH;
  if (us < 1e6) return scaled(us, 1000, ["µs", "ms"]);
  if (us < 120e6) return digits(us / 1e6) + "\u00a0s";
  const minutes = Math.floor(us / 60e6), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  return days > 1 ? `${days} days` : hours > 1 ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
}
const percent = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + "\u00a0%" : DASH;
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + "s"}`;
// What is not seen, or turns round what stands beside it, is written out.
const plain = name => name.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g,
  c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const rank_word = rank => rank === undefined ? DASH : `node ${rank}`;

// ---- elements
function set_text(element, text) { if (element.textContent !== text) element.textContent = text; }
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.append(...children);
  return element;
}
function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.append(...children);
  return element;
}
function svg(width, height, label, ...children) {
  return draw("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label}, ...children);
}
// A table keeps its cells: what somebody has marked to copy stays marked. A cell is a text, or
// {text, class, share, title, value}.
function table(place, columns, rows, nothing) {
  if (rows.length === 0) {
    if (!place.firstChild || place.firstChild.tagName !== "P") place.replaceChildren(make("p", {class: "empty"}));
    set_text(place.firstChild, nothing);
    return;
  }
  if (!place.firstChild || place.firstChild.tagName !== "TABLE") {
    const head = make("tr", {role: "row"}, ...columns.map(([label, kind]) =>
      make("th", {role: "columnheader", scope: "col", class: kind || ""}, label)));
    place.replaceChildren(make("table", {role: "table"}, make("thead", {role: "rowgroup"}, head), make("tbody", {role: "rowgroup"})));
  }
  const body = place.firstChild.tBodies[0];
  while (body.rows.length > rows.length) body.lastChild.remove();
  while (body.rows.length < rows.length)
    body.append(make("tr", {role: "row"}, ...columns.map(([label, kind]) => make("td", {role: "cell", "data-label": label, class: kind || ""}))));
  rows.forEach((row, at) => row.forEach((value, n) => fill(body.rows[at].cells[n], value, columns[n][1] || "")));
}
function fill(cell, value, kind) {
  const {text, class: extra, share, title, value: raw} = typeof value === "object" ? value : {text: value};
  const name = [kind, extra, text === "" ? "blank" : ""].filter(Boolean).join(" ");
  if (cell.className !== name) cell.className = name;
  if (title === undefined) cell.removeAttribute("title"); else if (cell.title !== title) cell.title = title;
  if (raw !== undefined) cell.dataset.value = raw; else delete cell.dataset.value;
  if (share === undefined) { set_text(cell, text); return; }
  if (!cell.firstElementChild) {
    const bar = draw("svg", {viewBox: "0 0 64 8", class: "share", "aria-hidden": "true"},
      draw("rect", {class: "track", width: 64, height: 8, rx: 2}), draw("rect", {class: "bar", height: 8, rx: 2}));
    cell.replaceChildren(make("span", {class: "plain"}, bar, document.createTextNode("")));
  }
  const span = cell.firstElementChild;
  span.firstChild.lastChild.setAttribute("width", Math.max(0, Math.min(64, 64 * share)).toFixed(1));
  if (span.lastChild.data !== text) span.lastChild.data = text;
}
function tiles(place, list) {
  while (place.children.length > list.length) place.lastChild.remove();
  list.forEach(([label, text, small, value], n) => {
    if (!place.children[n]) place.append(make("div", {}, make("dt", {}), make("dd", {}, make("span", {}), make("small", {}))));
    const [dt, dd] = place.children[n].children;
    set_text(dt, label); set_text(dd.firstChild, text); set_text(dd.lastChild, small || "");
    if (value !== undefined) { dd.dataset.key = label; dd.dataset.value = value; }
  });
}

// ---- what changed since the last time
function rate(now, name) {
  if (!before || before.stats.uptime_us > now.stats.uptime_us) return undefined;
  const seconds = (now.node.asked_us - before.node.asked_us) / 1e6;
  return seconds > 0 ? Math.max(0, now.stats[name] - before.stats[name]) / seconds : undefined;
}
const each_second = n => n === undefined ? DASH : n < 10 && n > 0 ? n.toFixed(1) : number(n);

// ---- panels
function show_head(now) {
  const self = now.nodes.find(node => node.self) || {}, stats = now.stats;
  const known_as = (self.name && plain(self.name)) || (now.nodes.length > 1 ? `node ${self.rank}` : "one node");
  set_text($("who"), self.address ? `${known_as}, ${self.address}` : known_as);
  document.title = `nigh: ${known_as}`;
  set_text($("about"), `version ${now.node.version}; up ${time(stats.uptime_us)}; ${plural(stats.lanes, "lane")}; ` +
    `${plural(stats.sessions, "session")}` + (now.node.sees_all ? "" : "; you see what your user may read, and sums of the rest"));
}
function show_tiles(now) {
  const s = now.stats, up = now.nodes.filter(node => node.self || node.state === "up" || node.state === "leaving").length;
  tiles($("tiles").firstChild, [
    ["Memory in use", percent(s.used_bytes, s.memory_bytes), `${bytes(s.used_bytes)} of ${bytes(s.memory_bytes)}`, s.used_bytes],
    ["Objects", number(s.objects), `${number(s.objects_spilled)} on disk`, s.objects],
    ["Puts a second", each_second(rate(now, "seals")), `${number(s.seals)} since the start`, s.seals],
    ["Pulls a second", each_second(rate(now, "pulls")), `${number(s.pulls)} since the start`, s.pulls],
    ["Calls a second", each_second(rate(now, "calls_begun")), `${number(s.calls_under_way)} under way`, s.calls_begun],
    ["Nodes up", `${up} of ${now.nodes.length}`, s.view_epoch > 0 ? (s.view_quorum ? `view ${s.view_epoch}, quorum` : "no quorum") : "no views", up],
  ]);
}
const TROUBLES = [
  ["out_of_memory", "requests refused because memory was full"], ["index_full", "requests refused because an index was full"],
  ["spill_failures", "disk writes and reads that failed"], ["events_lost", "subscription events lost to full queues"],
  ["expelled", "sessions expelled"], ["checksum_failures", "pulls whose bytes were wrong"], ["pulls_failed", "pulls given up for good"],
  ["loans_overdue", "loans whose node was not heard of"], ["conflicts", "objects dropped, as another node had the id"],
  ["replica_failures", "replicas asked for in vain"], ["calls_timed_out", "calls that ran out of time"], ["calls_busy", "calls refused as too many"],
  ["calls_lost", "calls lost with their node"], ["handshakes_refused", "handshakes with nodes that failed"], ["node_deaths", "other nodes taken for dead"],
  ["space_blocks_lost", "blocks of spaces whose bytes are lost"], ["directory_losses", "times that a directory server was lost"]];
function show_trouble(now) {
  const s = now.stats, list = [];
  for (const node of now.nodes)
    if (!node.self && (node.state === "lost" || node.state === "dead")) list.push(["bad", `✕ node ${node.rank} (${node.address}) is ${node.state}`]);
  if (s.view_epoch > 0 && !s.view_quorum) list.push(["bad", "✕ this node is cut off from most voters"]);
  if (s.replicas_missing > 0) list.push(["bad", `✕ ${number(s.replicas_missing)} replicas that no node holds`]);
  if (s.view_unkept) list.push(["bad", "✕ this node's votes cannot be kept"]);
  for (const [name, text] of TROUBLES) {
    const r = rate(now, name);
    if (s[name] > 0) list.push([r > 0 ? "warn" : "soft", `${r > 0 ? "▲" : "·"} ${number(s[name])} ${text}` + (r > 0 ? `, ${each_second(r)} a second` : ", none just now")]);
  }
  if (list.length === 0) list.push(["good", "✓ none since the start"]);
  const place = $("trouble").querySelector("ul");
  while (place.children.length > list.length) place.lastChild.remove();
  list.forEach(([kind, text], n) => {
    if (!place.children[n]) place.append(make("li", {}));
    place.children[n].className = kind; set_text(place.children[n], text);
  });
}
const GLYPHS = {up: ["●", "good"], leaving: ["◐", "warn"], lost: ["▲", "warn"], dead: ["✕", "bad"], away: ["○", "soft"]};
function show_nodes(now) {
  table($("nodes").querySelector(".table"), [["Name", "name"], ["Rank"], ["Address"], ["State"], ["Heard of"], ["View"], ["Incarnation", "num"]],
    now.nodes.map(node => {
      const [glyph, kind] = GLYPHS[node.state] || ["?", "soft"];
      return [(plain(node.name) || `node ${node.rank}`) + (node.self ? " (this one)" : ""), String(node.rank), node.address || "alone",
        {text: `${glyph} ${node.state}` + (node.refused ? `: ${node.refused}` : ""), class: kind, value: node.state}, node.life,
        (node.view === "none" ? DASH : node.view) + (node.votes ? ", votes" : ""), number(node.incarnation)];
    }), "");
}
const PATTERNS = () => draw("defs", {},
  draw("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
    draw("rect", {class: "ground-2", width: 6, height: 6}), draw("path", {class: "ink-2", d: "M0 0V6"})),
  draw("pattern", {id: "dots", width: 5, height: 5, patternUnits: "userSpaceOnUse"},
    draw("rect", {class: "ground-2", width: 5, height: 5}), draw("circle", {class: "ink-3", cx: 2.5, cy: 2.5, r: 1.7})));
function show_memory(now) {
  const s = now.stats, sealed = Math.max(0, s.used_bytes - s.unsealed_bytes - s.leased_bytes);
  const parts = [["sealed", sealed, 1], ["being written", s.unsealed_bytes, 2], ["leased to clients", s.leased_bytes, 3],
    ["free", Math.max(0, s.memory_bytes - s.used_bytes), 0]];
  const bar = $("memory-bar"), legend = $("memory-legend");
  if (!bar.firstChild) {
    bar.append(draw("svg", {role: "img", height: 26}, PATTERNS(), draw("rect", {class: "track", width: "100%", height: 26}),
      ...parts.map(part => draw("rect", {class: `fill-${part[2]}`, height: 26}))));
    legend.append(...parts.map(part => make("li", {}, draw("svg", {viewBox: "0 0 12 12", class: "swatch", "aria-hidden": "true"},
      draw("rect", {class: `fill-${part[2]}`, width: 12, height: 12})), make("span", {}))));
  }
  bar.firstChild.setAttribute("aria-label", parts.map(part => `${part[0]} ${bytes(part[1])}`).join(", "));
  let x = 0;
  parts.forEach((part, n) => {
    const width = s.memory_bytes > 0 ? 100 * part[1] / s.memory_bytes : 0, rect = bar.firstChild.children[n + 2];
    rect.setAttribute("x", x.toFixed(2) + "%"); rect.setAttribute("width", width.toFixed(2) + "%"); x += width;
    set_text(legend.children[n].lastChild, `${part[0]} ${bytes(part[1])}`);
  });
  meters([["Pinned", s.pinned_bytes, s.memory_bytes], ["On disk", s.spilled_bytes, s.spill_bytes],
    ["Regions", s.region_memory_bytes, s.region_memory_limit_bytes], ["Spaces", s.space_memory_bytes, s.space_memory_limit_bytes],
    ["Calls", s.call_memory_bytes, s.call_memory_limit_bytes]]);
  show_pools(now);
}
function meters(list) {
  const place = $("memory-meters");
  list.forEach(([label, part, whole], n) => {
    if (!place.children[n]) place.append(make("div", {class: "meter"}, make("p", {}, make("span", {}), make("span", {class: "soft"})),
      draw("svg", {height: 6, "aria-hidden": "true"}, draw("rect", {class: "track", width: "100%", height: 6, rx: 2}), draw("rect", {class: "bar", height: 6, rx: 2}))));
    const at = place.children[n];
    set_text(at.firstChild.firstChild, label);
    set_text(at.firstChild.lastChild, whole > 0 ? `${bytes(part)} of ${bytes(whole)}` : part > 0 ? bytes(part) : "none");
    at.lastChild.lastChild.setAttribute("width", (whole > 0 ? Math.min(100, 100 * part / whole).toFixed(1) : 0) + "%");
  });
}
function show_pools(now) {
  const row = (name, owner, mode, pool) => [name, owner, mode, {text: bytes(pool.bytes), value: pool.bytes}, bytes(pool.leased_bytes),
    bytes(pool.pinned_bytes), {text: number(pool.objects), value: pool.objects}, number(pool.objects_unsealed), number(pool.objects_spilled),
    number(pool.objects_deleting), `${number(pool.index_used)} of ${number(pool.index_entries)}`];
  const rows = now.pools.map(pool => row(pool.name, `uid ${pool.uid}`, "0" + pool.mode.toString(8), pool));
  if (now.pools_hidden) rows.push(row({text: `${plural(now.pools_hidden.count, "pool")} of others`, class: "soft"}, DASH, DASH, now.pools_hidden));
  table($("memory").querySelector(".table"), [["Pool", "name"], ["Owner", "plain"], ["Mode"], ["In memory", "num"], ["Leased", "num"], ["Pinned", "num"],
    ["Sealed", "num"], ["Unsealed", "num"], ["On disk", "num"], ["Going", "num"], ["Index entries", "num"]], rows, "There is no pool yet: one is made when a client comes.");
  const quotas = now.pools.filter(pool => pool.quota_bytes).map(pool => `${pool.name} may have ${bytes(pool.quota_bytes)}`);
  set_text($("pools-note"), quotas.join("; "));
}
const object_name = at => ({text: at.name ? plain(at.name) : at.id.slice(0, 12) + "…", title: at.id});
function held_by(object) {
  if (object.holder_count === 0) return {text: "nobody now", class: "soft"};
  const named = object.holders.map(holder => `${plain(holder.name) || "?"} (${holder.pid})` + (holder.views > 1 ? ` ×${holder.views}` : ""));
  if (object.holder_count > named.length) named.push(`${number(object.holder_count - named.length)} more`);
  return named.join(", ");
}
function show_hottest(now) {
  // What was used once is not hot; and a phone is not for ever.
  const hottest = now.hottest.filter(at => at.uses > 1).slice(0, ROWS);
  table($("hottest").querySelector(".table"), [["Object", "name"], ["Share of uses", "num"], ["Size", "num"], ["State"], ["Pool"], ["Held by"]],
    hottest.map(at => [object_name(at), {text: percent(at.uses, now.uses_seen), share: now.uses_seen > 0 ? at.uses / now.uses_seen : 0},
      bytes(at.data_size), at.state + (at.copy ? ", copy" : ""), at.pool, held_by(at)]),
    now.uses_seen > 0 ? "No object was used more than once of late, or none of them is yours to read." : "No use was seen yet: counting began when this page was opened.");
  set_text($("hottest-note"), (now.uses_seen > 0 ? `An estimate from ${number(now.uses_seen)} uses seen of late; gets from memory are seen in part.` : "") +
    (now.hottest_hidden > 0 ? ` ${plural(now.hottest_hidden, "object")} of other users not shown.` : ""));
}
const WAYS = {inline: "inline", sent: "sent", read: "read in place", pushed: "pushed", "": DASH};
function show_transfers(now) {
  const s = now.stats;
  tiles($("paths"), [["Sent here", speed(rate(now, "pulled_bytes_two_sided")), bytes(s.pulled_bytes_two_sided) + " in all", s.pulled_bytes_two_sided],
    ["Read in place", speed(rate(now, "pulled_bytes_one_sided")), bytes(s.pulled_bytes_one_sided) + " in all", s.pulled_bytes_one_sided],
    ["Pushed here", speed(rate(now, "pulled_bytes_pushed")), bytes(s.pulled_bytes_pushed) + " in all", s.pulled_bytes_pushed],
    ["Served to others", speed(rate(now, "served_bytes")), `${number(s.loans)} lent now`, s.served_bytes]]);
  const whom = at => (at.direction === "out" ? "to " : "from ") + rank_word(at.rank);
  const done = at => at.bytes === undefined ? DASH : at.done_bytes === undefined ? bytes(at.bytes) : `${bytes(at.done_bytes)} of ${bytes(at.bytes)}`;
  const t = now.transfers, more = Math.max(0, t.now.length - ROWS);
  table($("now"), [["Object", "name"], ["Node", "plain"], ["Path", "plain"], ["Done", "num"], ["Rate", "num"], ["For", "num"]],
    t.now.slice(0, ROWS).map(at => [object_name(at), whom(at), WAYS[at.way], {text: done(at), value: at.done_bytes},
      {text: speed(at.bytes_per_second), value: at.bytes_per_second}, {text: time(at.took_us), value: at.took_us}]),
    t.now_left + t.now_hidden > 0 ? "None that is shown." : "None at this moment.");
  set_text($("now-note"), [more > 0 ? `${number(more)} more.` : "", t.now_left > 0 ? `${number(t.now_left)} more, or waiting for memory, or to know where their object is.` : "",
    t.now_hidden > 0 ? `${number(t.now_hidden)} of other users not shown.` : ""].filter(Boolean).join(" "));
  table($("past"), [["Object", "name"], ["Node", "plain"], ["Path", "plain"], ["Size", "num"], ["Rate", "num"], ["Took", "num"], ["Ago", "num"]],
    t.past.slice(0, ROWS).map(at => [object_name(at), whom(at), WAYS[at.way], bytes(at.bytes), speed(at.bytes_per_second), time(at.took_us), time(at.ago_us)]),
    t.past_hidden > 0 ? "None that is shown." : "No object came from another node yet.");
  set_text($("past-note"), t.past_hidden > 0 ? `${number(t.past_hidden)} of other users not shown.` : "");
}
// A picture is drawn as wide as its place is: its words are as large as others.
const width_of = place => Math.max(260, Math.round(place.clientWidth) || 520);
// Both scales are logarithms.
function show_links(now) {
  const select = $("link"), names = now.links.map(link => `node ${link.rank}, rail ${link.rail}`);
  if (names.join() !== [...select.options].map(option => option.value).join()) {
    select.replaceChildren(...names.map(name => make("option", {value: name}, name)));
    if (names.includes(chosen)) select.value = chosen;
  }
  select.disabled = names.length === 0;
  const link = now.links[Math.max(0, select.selectedIndex)];
  $("link").parentElement.hidden = $("curve-key").hidden = !link;
  if (!link) {
    $("curve").replaceChildren(); $("curve").dataset.drawn = "";
    set_text($("curve-note"), "No link to another node is up.");
    return;
  }
  const said = {known: `Objects of ${bytes(link.crossover_bytes)} and more are read from its memory; smaller ones are sent.`,
    none: "All objects are sent: reading was never quicker.", unknown: "Not measured yet, or this node was told which way to go (--transfer)."};
  set_text($("curve-note"), said[link.crossover] + (now.more_links ? " There are more links than are shown." : ""));
  draw_curve(link);
}
function draw_curve(link) {
  const W = width_of($("curve")), drawn = JSON.stringify([W, link]);
  if ($("curve").dataset.drawn === drawn) return;
  $("curve").dataset.drawn = drawn;
  const points = [...link.sent, ...link.read], H = 240, L = 56, R = 16, T = 24, B = 34;
  if (points.length === 0) { $("curve").replaceChildren(make("p", {class: "empty"}, "No size was measured often enough yet.")); return; }
  const x0 = 12, widest = Math.max(...points.map(p => p.bytes), link.crossover === "known" ? link.crossover_bytes : 0);
  const x1 = Math.max(21, Math.ceil(Math.log2(widest))), times = points.map(p => Math.max(1, p.took_us));
  const y0 = Math.floor(Math.log10(Math.min(...times))), y1 = Math.max(y0 + 1, Math.ceil(Math.log10(Math.max(...times) * 1.01)));
  const x = size => L + (W - L - R) * (Math.max(x0, Math.log2(Math.max(1, size))) - x0) / (x1 - x0);
  const y = us => H - B - (H - T - B) * (Math.log10(Math.max(1, us)) - y0) / (y1 - y0);
  const all = [];
  for (let n = x0; n <= x1; n += 3) all.push(draw("path", {class: "grid", d: `M${x(2 ** n)} ${T}V${H - B}`}), draw("text", {x: x(2 ** n), y: H - B + 17, "text-anchor": "middle"}, bytes(2 ** n)));
  for (let n = y0; n <= y1; n++) all.push(draw("path", {class: "grid", d: `M${L} ${y(10 ** n)}H${W - R}`}), draw("text", {x: L - 8, y: y(10 ** n) + 4, "text-anchor": "end"}, time(10 ** n)));
  if (link.crossover === "known") {
    const at = Math.min(W - R, x(link.crossover_bytes));
    all.push(draw("path", {class: "cross", d: `M${at} ${T - 4}V${H - B}`}), draw("text", {class: "strong", x: Math.min(W - 28, Math.max(28, at)), y: T - 8, "text-anchor": "middle"}, bytes(link.crossover_bytes)));
  }
  for (const path of ["sent", "read"]) {
    const list = link[path];
    if (list.length > 1) all.push(draw("path", {class: `line ${path}`, d: "M" + list.map(p => `${x(p.bytes).toFixed(1)} ${y(p.took_us).toFixed(1)}`).join("L")}));
    for (const p of list) {
      const what = {"data-bytes": p.bytes, "data-us": p.took_us, "data-count": p.count};
      const mark = path === "sent" ? draw("circle", {class: "dot sent", cx: x(p.bytes), cy: y(p.took_us), r: 4, ...what})
        : draw("rect", {class: "dot read", x: x(p.bytes) - 4, y: y(p.took_us) - 4, width: 8, height: 8, ...what});
      mark.append(draw("title", {}, `${path}: ${bytes(p.bytes)} in ${time(p.took_us)}, median of ${p.count}`));
      all.push(mark);
    }
  }
  const words = path => `${path}: ` + (link[path].map(p => `${bytes(p.bytes)} in ${time(p.took_us)}`).join(", ") || "nothing measured");
  $("curve").replaceChildren(svg(W, H, `Time by size. ${words("sent")}. ${words("read")}.`, ...all));
}
const CALLS = [["here", "To services of this node"], ["there", "To services of other nodes"], ["served", "Answers of services here"]];
const bound = n => n < 25 ? time(2 ** n) : "more";
function quantile(buckets, count, q) {
  let sum = 0;
  for (let n = 0; n < buckets.length; n++) { sum += buckets[n]; if (sum >= count * q) return n < 25 ? "≤ " + bound(n) : "> " + bound(24); }
  return DASH;
}
function draw_times(caption, figure, of) {
  const count = of.buckets.reduce((a, b) => a + b, 0);
  const words = count === 0 ? "none was answered yet" : `${number(count)}; half ${quantile(of.buckets, count, .5)}, 99 % ${quantile(of.buckets, count, .99)}, mean ${time(of.sum_us / count)}`;
  const W = width_of(figure), drawn = `${count} ${W}`;
  if (figure.dataset.drawn === drawn) return;
  figure.dataset.drawn = drawn;
  const head = make("figcaption", {}, make("b", {}, caption + ": "), words);
  if (count === 0) { figure.replaceChildren(head); return; }
  let first = of.buckets.findIndex(n => n > 0), last = of.buckets.findLastIndex(n => n > 0);
  while (last - first < 7) { if (last < 25) last++; if (last - first < 7 && first > 0) first--; }
  const H = 92, B = 20, T = 14, most = Math.max(...of.buckets), step = W / (last - first + 1), all = [];
  for (let n = first; n <= last; n++) {
    const height = of.buckets[n] > 0 ? Math.max(2, (H - B - T) * of.buckets[n] / most) : 0, left = (n - first) * step;
    const bar = draw("rect", {class: "bar", x: left + 1, y: H - B - height, width: step - 2, height});
    bar.append(draw("title", {}, `${n < 25 ? "up to " : ""}${bound(n)}: ${number(of.buckets[n])}`));
    all.push(bar);
    if (of.buckets[n] === most) all.push(draw("text", {x: Math.min(W - 14, Math.max(14, left + step / 2)), y: H - B - height - 4, "text-anchor": "middle"}, number(most)));
    if ((last - n) % Math.ceil(62 / step) === 0) all.push(draw("text", {x: Math.max(30, left + step - 1), y: H - 5, "text-anchor": "end"}, bound(n)));
  }
  all.push(draw("path", {class: "grid", d: `M0 ${H - B}H${W}`}));
  figure.replaceChildren(head, svg(W, H, `${caption}: ${words}`, ...all));
}
function show_calls(now) {
  const place = $("times"), s = now.stats;
  CALLS.forEach(([key, caption], n) => {
    if (!place.children[n]) place.append(make("figure", {}));
    draw_times(caption, place.children[n], now.calls[key]);
  });
  set_text($("calls-note"), `Not in these: ${number(s.calls_timed_out)} timed out, ${number(s.calls_busy)} refused as too many, ${number(s.calls_lost)} lost with a node; ` +
    `${plural(s.pairs, "pair")} of processes whose calls the node does not see.`);
}
function show_regions(now) {
  const place = $("regions").querySelector(".table"), s = now.stats;
  tiles($("region-bytes"), [["Read here", speed(rate(now, "region_bytes_read")), bytes(s.region_bytes_read) + " in all", s.region_bytes_read],
    ["Written here", speed(rate(now, "region_bytes_written")), bytes(s.region_bytes_written) + " in all", s.region_bytes_written]]);
  if (!now.regions) { table(place, [], [], `Not known: ${now.regions_why}.`); set_text($("regions-note"), ""); return; }
  table(place, [["Region", "name"], ["Size", "num"], ["Chunks", "num"], ["Where"], ["Home", "num"]], now.regions.map(region => {
    const where = new Map();
    for (const rank of region.chunks) where.set(rank, (where.get(rank) || 0) + 1);
    const lost = where.get(-1) || 0;
    where.delete(-1);
    const words = [...where].sort((a, b) => a[0] - b[0]).map(([rank, count]) => `node ${rank}` + (where.size > 1 || lost ? ` (${count})` : ""));
    if (lost) words.push(`✕ ${plural(lost, "chunk")} lost`);
    return [plain(region.name), {text: bytes(region.size), value: region.size}, number(region.chunks.length), {text: words.join(", ") || DASH, class: lost ? "bad" : ""}, String(region.home)];
  }), "There is none.");
  set_text($("regions-note"), ["Read and written is what this node's clients did, wherever the chunks lie.", `All nodes were asked ${now.regions_age_us < 1e6 ? "just now" : time(now.regions_age_us) + " ago"}.`,
    now.regions_in_part ? "The list is in part: a node did not tell of its regions." : "", now.regions_more ? "There are more." : "",
    now.regions_hidden ? `${number(now.regions_hidden)} of other users not shown.` : ""].filter(Boolean).join(" "));
}
function show_spaces(now) {
  const place = $("spaces").querySelector(".table");
  if (!now.spaces) { table(place, [], [], `Not known: ${now.spaces_why}.`); set_text($("spaces-note"), ""); return; }
  table(place, [["Space", "name"], ["Hits", "num"], ["Reads", "num"], ["Writes", "num"], ["In use here", "num"], ["Nodes"]], now.spaces.map(space => {
    const here = space.here;
    return [{text: plain(space.name) + (space.durability !== "none" ? ` (${space.durability})` : "")}, here ? {text: percent(here.hits, here.reads), share: here.reads > 0 ? here.hits / here.reads : 0} : {text: DASH, share: 0},
      here ? {text: number(here.reads), value: here.reads} : DASH, here ? {text: number(here.writes), value: here.writes} : DASH, `${bytes(space.used_size)} of ${bytes(space.home_size)}`, space.nodes.join(", ")];
  }), "There is none.");
  set_text($("spaces-note"), [now.spaces.length > 0 ? "Reads and hits are of this node's clients, which count them themselves, since the start." : "",
    now.spaces_more ? "There are more." : "", now.spaces_hidden ? `${number(now.spaces_hidden)} of other users not shown.` : ""].filter(Boolean).join(" "));
}
function show(now) {
  for (const part of [show_head, show_tiles, show_trouble, show_nodes, show_memory, show_hottest, show_transfers, show_links, show_calls, show_regions, show_spaces]) part(now);
  document.body.dataset.asked = now.node.asked_us;
}

// ---- asking
function say(kind, lamp, text) {
  document.documentElement.className = kind;
  set_text($("lamp"), lamp); set_text($("state-text"), text);
}
async function fetch_now() {
  const stop = new AbortController(), timer = setTimeout(() => stop.abort(), PATIENCE_MS);
  try {
    const response = await fetch("/page.json", {signal: stop.signal}), now = await response.json();
    if (!response.ok) throw new Error(now.why || response.statusText);
    return now;
  } catch (error) {
    const why = error.name === "Error" ? error.message : "the node does not answer";
    say("old", "✕", answered ? `${why}; these numbers are of ${answered.toLocaleTimeString()}` : why);
    return null;
  } finally { clearTimeout(timer); }
}
async function ask() {
  const now = await fetch_now();
  if (!now) return;
  show(now);
  before = now; answered = new Date();
  say("live", "●", "live");
}
// Who does not look asks nothing.
async function go_on() {
  try { if (!document.hidden) await ask(); } catch (error) { console.error(error); say("old", "✕", "this page cannot show what the node says"); }
  setTimeout(go_on, EVERY_MS);
}
addEventListener("resize", () => { if (before) { show_links(before); show_calls(before); } });
$("link").addEventListener("change", event => { chosen = event.target.value; if (before) show_links(before); });
go_on();
})();
