// Draws the frames that stand on the page: one moment at a time, every panel together. Text is only ever written as text.
"use strict";
const film = JSON.parse(document.getElementById("frames").textContent);
const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const LENGTH = 12000; // a whole training plays in so many milliseconds
const SERIES = 6;
const state = { trial: 0, frame: 0, playing: false, updates: [], owed: 0, then: 0 };

// --- small things -------------------------------------------------------------------------------------------------

function element(name, attributes = {}, text = "") {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}
function drawn(name, attributes = {}, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}
const hue = (place) => `var(--s${place % SERIES})`;
const whole = (value) => value.toLocaleString("en");
function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  return value.toPrecision(3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "").replace("-", "−");
}
function brief(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return whole(+value.toPrecision(4));
}
function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (value !== null && value !== undefined) { low = Math.min(low, value); high = Math.max(high, value); }
  return low <= high ? [low, high] : [0, 1];
}
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count) || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999), found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(Math.abs(at) < step * 1e-6 ? 0 : at);
  return found;
}

// --- colours of matrices ------------------------------------------------------------------------------------------

const STOPS = {
  light: { plain: ["#fbfaf5", "#d6e4ea", "#9cc3d8", "#5295c0", "#1f5f9e", "#0b2a57"], signed: ["#7a2208", "#c55a2b", "#eeb48f", "#f8f5ee", "#a9cbe0", "#3f83b8", "#0c3c78"] },
  dark: { plain: ["#1f1e1b", "#1d3347", "#20577f", "#3f8fc0", "#8ecbe6", "#f4fbff"], signed: ["#ffc4a3", "#dd7442", "#6e3a22", "#201f1c", "#22425c", "#4b9ad0", "#bfe6ff"] },
};
const tables = {};
function palette(signed) {
  const theme = dark.matches ? "dark" : "light", key = theme + signed;
  if (tables[key]) return tables[key];
  const stops = STOPS[theme][signed ? "signed" : "plain"].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const table = new Uint32Array(256), bytes = new Uint8Array(table.buffer);
  for (let level = 0; level < 256; level++) {
    const place = (level / 255) * (stops.length - 1), from = Math.min(stops.length - 2, Math.floor(place));
    for (let part = 0; part < 3; part++) bytes[4 * level + part] = Math.round(stops[from][part] + (place - from) * (stops[from + 1][part] - stops[from][part]));
    bytes[4 * level + 3] = 255;
  }
  return (tables[key] = table);
}
async function inflated(panel) {
  if (panel.levels) return panel.levels;
  const packed = Uint8Array.from(atob(panel.data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const levels = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = panel.shape[0] * panel.shape[1];
  for (let at = size; at < levels.length; at++) levels[at] += levels[at - size]; // frames are differences, modulo 256
  return (panel.levels = levels);
}

// --- charts -------------------------------------------------------------------------------------------------------

class Chart {
  constructor(box, { height, left = 46, right = 12, top = 12, bottom = 34, label }) {
    this.width = Math.max(220, box.clientWidth);
    Object.assign(this, { height, left, right, top, bottom });
    this.svg = drawn("svg", { viewBox: `0 0 ${this.width} ${height}`, height, role: "img", "aria-label": label });
    box.replaceChildren(this.svg);
  }
  add(name, attributes, text) { const node = drawn(name, attributes, text); this.svg.append(node); return node; }
  x(domain) { const [low, high] = domain, span = high - low || 1; this.atX = (v) => this.left + ((v - low) / span) * (this.width - this.left - this.right); return this; }
  y(domain, log = false) {
    const scaled = log ? (v) => Math.log10(Math.max(v, domain[0])) : (v) => v;
    const low = scaled(domain[0]), span = scaled(domain[1]) - low || 1, room = this.height - this.top - this.bottom;
    this.atY = (v) => this.top + (1 - (scaled(v) - low) / span) * room;
    let marks = ticks(domain[0], domain[1], Math.max(2, room / 42));
    if (log) {
      marks = [];
      const each = span > 2.2 ? [1] : span > 1.2 ? [1, 3] : [1, 2, 5];
      for (let power = Math.floor(low); power <= low + span; power++) for (const lead of each) { const v = lead * 10 ** power; if (v >= domain[0] * 0.999 && v <= domain[1] * 1.001) marks.push(v); }
    }
    for (const mark of marks) {
      this.add("line", { class: "grid", x1: this.left, x2: this.width - this.right, y1: this.atY(mark), y2: this.atY(mark) });
      this.add("text", { x: this.left - 7, y: this.atY(mark) + 3.5, "text-anchor": "end" }, number(mark));
    }
    return this;
  }
  xTicks(domain, title) {
    const base = this.height - this.bottom;
    this.add("line", { class: "axis", x1: this.left, x2: this.width - this.right, y1: base, y2: base });
    for (const mark of ticks(domain[0], domain[1], (this.width - this.left) / 90)) this.add("text", { x: this.atX(mark), y: base + 15, "text-anchor": "middle" }, brief(mark));
    this.add("text", { class: "title", x: (this.left + this.width - this.right) / 2, y: this.height - 3, "text-anchor": "middle" }, title);
  }
  path(xs, ys) {
    let open = false, text = "";
    xs.forEach((x, place) => {
      if (ys[place] === null || ys[place] === undefined) { open = false; return; }
      text += `${open ? "L" : "M"}${this.atX(x).toFixed(1)} ${this.atY(ys[place]).toFixed(1)}`;
      open = true;
    });
    return text || "M0 0";
  }
}

// Time in the unit that the source counts in.
function times(trial) {
  const counted = trial.unit === "sequences" && trial.batch;
  return { at: trial.steps.map((step) => step * (counted ? trial.batch : 1)), title: counted ? "training sequences seen" : "steps" };
}

// Curves over all of training, of which the past is bold, with a cursor; a pointer may take it elsewhere.
function overTime(box, trial, series, { height, log, references = {}, phases = false, label, seek = false }) {
  const time = times(trial), xs = time.at, domain = [xs[0], xs[xs.length - 1]];
  const lined = Object.values(references).filter((value) => value !== null);
  let [low, high] = extent([...series.flatMap((one) => one.values), ...lined]);
  if (log && high > 0) { low = Math.max(low, high * 1e-4, 1e-12); } else { low = Math.min(low, 0); high += (high - low) * 0.06 || 1; }
  const narrow = box.clientWidth < 520;
  const chart = new Chart(box, { height, top: phases ? 24 : 10, right: lined.length && !narrow ? 78 : 14, label }).x(domain);
  if (phases && trial.phases.length) {
    const edge = (place) => place <= 0 ? xs[0] : place >= xs.length ? xs[xs.length - 1] : (xs[place - 1] + xs[place]) / 2;
    for (let from = 0; from < xs.length;) {
      let to = from;
      while (to < xs.length && trial.phases[to] === trial.phases[from]) to++;
      const a = chart.atX(edge(from)), b = chart.atX(edge(to)), name = trial.strategies[trial.phases[from]];
      chart.add("rect", { class: "band", x: a, width: Math.max(0, b - a), y: chart.top, height: height - chart.top - chart.bottom, fill: hue(trial.phases[from]) });
      if (b - a > 6.6 * name.length + 6) chart.add("text", { class: "band-name", x: (a + b) / 2, y: 14, "text-anchor": "middle", style: `fill: ${hue(trial.phases[from])}` }, name);
      from = to;
    }
  }
  chart.y([low, high], log && low > 0).xTicks(domain, time.title);
  let used = [];
  Object.entries(references).forEach(([name, value]) => {
    if (value === null) return;
    const place = trial.strategies.indexOf(name), color = place < 0 ? "var(--soft)" : hue(place), y = chart.atY(value);
    chart.add("line", { class: "reference", x1: chart.left, x2: chart.width - chart.right, y1: y, y2: y, stroke: color });
    if (used.every((other) => Math.abs(other - y) > 11)) {
      used.push(y);
      chart.add("text", narrow ? { x: chart.width - chart.right, y: y - 4, "text-anchor": "end", style: `fill: ${color}` } : { x: chart.width - chart.right + 6, y: y + 3.5, style: `fill: ${color}` }, name);
    }
  });
  const moving = series.map((one) => {
    chart.add("path", { class: "curve ahead", d: chart.path(xs, one.values), stroke: one.color });
    return { past: chart.add("path", { class: "curve", stroke: one.color }), dot: null, one };
  });
  const cursor = chart.add("line", { class: "cursor", y1: chart.top, y2: height - chart.bottom });
  for (const line of moving) line.dot = chart.add("circle", { class: "dot", r: 4.2, fill: line.one.color });
  if (seek) {
    const goTo = (event) => {
      const at = event.clientX - chart.svg.getBoundingClientRect().left;
      let best = 0;
      xs.forEach((x, place) => { if (Math.abs(chart.atX(x) - at) < Math.abs(chart.atX(xs[best]) - at)) best = place; });
      pause(); show(best);
    };
    box.onpointerdown = (event) => { box.setPointerCapture(event.pointerId); goTo(event); };
    box.onpointermove = (event) => { if (event.buttons) goTo(event); };
  }
  return (frame) => {
    const x = chart.atX(xs[frame]);
    cursor.setAttribute("x1", x); cursor.setAttribute("x2", x);
    for (const { past, dot, one } of moving) {
      past.setAttribute("d", chart.path(xs.slice(0, frame + 1), one.values.slice(0, frame + 1)));
      const value = one.values[frame], known = value !== null && value !== undefined;
      dot.setAttribute("visibility", known ? "visible" : "hidden");
      if (known) { dot.setAttribute("cx", x); dot.setAttribute("cy", chart.atY(value)); }
    }
  };
}

function legend(box, series, nearest = false) {
  const values = series.map((one) => {
    const entry = element("span"), mark = element("i"), value = element("b");
    mark.style.color = one.color;
    entry.append(mark, one.name, value);
    box.append(entry);
    return { entry, value, one };
  });
  return (frame) => {
    const now = values.map(({ one }) => one.values[frame]);
    const least = nearest ? Math.min(...now.filter((value) => value !== null)) : null;
    values.forEach(({ entry, value }, place) => { value.textContent = number(now[place]); entry.classList.toggle("near", nearest && now[place] === least); });
  };
}

const tall = (box) => Math.round(Math.min(360, Math.max(220, 0.82 * box.clientWidth)));

function bars(box, panel, label) {
  if (panel.free) return (frame) => barsOn(box, panel, label, panel.values[frame])(frame); // on the moment's own scale
  return barsOn(box, panel, label, panel.values.flat());
}
function barsOn(box, panel, label, scaled) {
  const marked = new Set(panel.marked);
  let [low, high] = extent(scaled);
  low = Math.min(0, low); high = Math.max(0, high); if (low === high) high = 1;
  const long = Math.max(...panel.names.map((name) => name.length)) > 3;
  const count = panel.names.length;
  if (long) { // names on the left, values on the right
    box.classList.add("listed");
    const step = Math.min(30, Math.max(17, 230 / count)), left = Math.min(box.clientWidth * 0.42, 8 + 6.3 * Math.max(...panel.names.map((name) => name.length)));
    const chart = new Chart(box, { height: step * count + 8, left, right: 52, top: 4, bottom: 4, label }).x([low, high]), zero = chart.atX(0);
    chart.add("line", { class: "axis", x1: zero, x2: zero, y1: 2, y2: chart.height - 2 });
    const rows = panel.names.map((name, place) => {
      const y = 4 + step * place;
      chart.add("text", { x: left - 8, y: y + step / 2 + 4, "text-anchor": "end" }, name);
      return { bar: chart.add("rect", { class: marked.has(place) ? "bar marked" : "bar", y: y + step * 0.17, height: step * 0.66, rx: 1.5 }), value: chart.add("text", { class: "value", x: chart.width - 46, y: y + step / 2 + 4 }) };
    });
    return (frame) => panel.values[frame].forEach((value, place) => {
      const at = chart.atX(value ?? 0), { bar, value: text } = rows[place];
      bar.setAttribute("x", Math.min(at, zero)); bar.setAttribute("width", Math.abs(at - zero)); text.textContent = number(value);
    });
  }
  const chart = new Chart(box, { height: tall(box), label }).x([0, count]).y([low, high * 1.03 || 0.01]), zero = chart.atY(0), wide = chart.atX(1) - chart.atX(0);
  chart.add("line", { class: "axis", x1: chart.left, x2: chart.width - chart.right, y1: zero, y2: zero });
  const every = Math.ceil(20 / wide), base = chart.height - chart.bottom;
  const rows = panel.names.map((name, place) => {
    if (place % every === 0) chart.add("text", { x: chart.atX(place + 0.5), y: base + 15, "text-anchor": "middle" }, name);
    return chart.add("rect", { class: marked.has(place) ? "bar marked" : "bar", x: chart.atX(place) + wide * 0.1, width: Math.max(1, wide * 0.8), rx: wide > 8 ? 1.5 : 0 });
  });
  chart.add("text", { class: "title", x: (chart.left + chart.width - chart.right) / 2, y: chart.height - 3, "text-anchor": "middle" }, panel.places);
  return (frame) => panel.values[frame].forEach((value, place) => {
    const at = chart.atY(value ?? 0);
    rows[place].setAttribute("y", Math.min(at, zero)); rows[place].setAttribute("height", Math.abs(at - zero));
  });
}

function lines(box, panel, label) {
  const names = Object.keys(panel.lines), domain = [0, Math.max(1, panel.lines[names[0]][0].length - 1)];
  let [low, high] = extent(names.flatMap((name) => panel.lines[name].flat()));
  if (low === high) high = low + 1;
  const pad = (high - low) * 0.06, chart = new Chart(box, { height: tall(box), label }).x(domain).y([low - pad, high + pad]);
  chart.xTicks(domain, panel.places);
  const places = panel.lines[names[0]][0].map((_, place) => place);
  const paths = names.map((name, place) => ({ name, path: chart.add("path", { class: "curve", stroke: hue(place + 1) }) }));
  return (frame) => { for (const { name, path } of paths) path.setAttribute("d", chart.path(places, panel.lines[name][frame])); };
}

// --- matrices -----------------------------------------------------------------------------------------------------

function heat(box, panel, label) {
  const [rows, columns] = panel.shape;
  const frame = element("div", { class: "heat-frame" }), canvas = element("canvas", { width: columns, height: rows, role: "img", "aria-label": label });
  canvas.style.aspectRatio = String(Math.min(rows < 5 ? 7 : 3, Math.max(0.9, columns / rows)));
  frame.append(element("span", { class: "rows" }, panel.rows), canvas);
  if (panel.marked.length) {
    const marks = element("div", { class: "marks", "aria-hidden": "true" });
    for (const column of panel.marked) { const mark = element("i"); mark.style.left = `${((column + 0.5) / columns) * 100}%`; marks.append(mark); }
    frame.append(marks);
  }
  frame.append(element("span", { class: "columns" }, panel.columns));
  const scale = element("div", { class: "scale" }), ramp = element("canvas", { width: 256, height: 1, "aria-hidden": "true" }), cell = element("span", { class: "cell" });
  const valueOf = (level) => { const shown = panel.low + ((panel.high - panel.low) * level) / 255; return panel.root ? shown * shown : shown; };
  scale.append(element("span", {}, number(valueOf(0))), ramp, element("span", {}, number(valueOf(255))), cell);
  box.replaceChildren(frame, scale);
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  let levels = null, now = 0, over = null;
  const paint = () => {
    const colours = palette(panel.signed);
    const strip = ramp.getContext("2d"), bar = strip.createImageData(256, 1);
    new Uint32Array(bar.data.buffer).set(colours); strip.putImageData(bar, 0, 0);
    if (!levels) return;
    const offset = now * rows * columns;
    for (let at = 0; at < pixels.length; at++) pixels[at] = colours[levels[offset + at]];
    context.putImageData(image, 0, 0);
    if (over) { const [row, column] = over; cell.textContent = `${panel.rows} ${row + 1}, ${panel.columns} ${column + 1}: ${number(valueOf(levels[offset + row * columns + column]))}`; }
  };
  canvas.onpointermove = (event) => {
    const edge = canvas.getBoundingClientRect(), pick = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
    over = [pick((event.clientY - edge.top) / edge.height, rows), pick((event.clientX - edge.left) / edge.width, columns)];
    paint();
  };
  canvas.onpointerleave = () => { over = null; cell.textContent = ""; };
  inflated(panel).then((found) => { levels = found; paint(); }, () => { cell.textContent = "this browser cannot inflate the frames"; });
  return (at) => { now = at; paint(); };
}

// --- the page -----------------------------------------------------------------------------------------------------

function build() {
  const trial = film.trials[state.trial], facts = $("facts"), panels = $("panels");
  const past = { converged: `converged after ${whole(trial.convergence ?? 0)} steps`, failed: "ran to the end of its budget", diverged: "diverged" };
  facts.replaceChildren(element("b", {}, trial.model), " on ", element("b", {}, trial.task), ` · ${trial.steps.length} moments of ${whole(trial.steps[trial.steps.length - 1])} steps · ${past[trial.outcome] ?? trial.outcome}`);
  const main = [{ name: trial.error.name, values: trial.error.values, color: "var(--ink)" }];
  $("timeline-title").textContent = trial.phases.length ? `${trial.error.name} and phases` : trial.error.name;
  $("timeline-legend").replaceChildren();
  state.updates = [legend($("timeline-legend"), main), overTime($("timeline"), trial, main, { height: innerWidth < 600 ? 200 : 230, references: trial.error.references, phases: true, seek: true, label: `${trial.error.name} over training; ${trial.strategies.length ? "bands show the nearest strategy" : "dashed lines are known beforehand"}` })];
  panels.replaceChildren();
  for (const panel of trial.panels) {
    const tile = element("figure", { class: "tile", "data-panel": panel.name, "data-kind": panel.kind }), head = element("div", { class: "panel-head" });
    const label = `${panel.name}: ${panel.about}`, plot = element("div", { class: panel.kind === "heat" ? "heat" : "plot" });
    head.append(element("h3", {}, panel.name));
    tile.append(head, element("figcaption", { class: "about" }, panel.about));
    if (panel.kind === "heat" && panel.shape[1] > 2.5 * panel.shape[0]) tile.classList.add("wide");
    panels.append(tile);
    if (panel.kind === "numbers" || panel.kind === "lines") {
      const keys = element("div", { class: "legend" });
      tile.append(keys);
      if (panel.kind === "lines") Object.keys(panel.lines).forEach((name, place) => { const entry = element("span"), mark = element("i"); mark.style.color = hue(place + 1); entry.append(mark, name); keys.append(entry); });
      else {
        const strategic = panel.names.every((name) => trial.strategies.includes(name));
        const series = panel.names.map((name, place) => ({ name, values: panel.values.map((row) => row[place]), color: hue(strategic ? trial.strategies.indexOf(name) : place + 1) }));
        tile.append(plot);
        state.updates.push(legend(keys, series, strategic), overTime(plot, trial, series, { height: Math.max(215, tall(plot) - 28), log: panel.log, label }));
        continue;
      }
    }
    tile.append(plot);
    state.updates.push({ heat, bars, lines }[panel.kind](plot, panel, label));
  }
  const strip = $("strip");
  strip.replaceChildren(...trial.phases.map((phase) => { const part = element("span"); part.style.flex = "1"; part.style.background = hue(phase); return part; }));
  strip.hidden = !trial.phases.length;
  $("frame").max = String(trial.steps.length - 1);
  show(Math.min(state.frame, trial.steps.length - 1));
}

function show(frame) {
  const trial = film.trials[state.trial], last = trial.steps.length - 1, slider = $("frame");
  state.frame = Math.min(last, Math.max(0, frame));
  for (const update of state.updates) update(state.frame);
  const step = trial.steps[state.frame], seen = trial.batch ? ` · ${brief(step * trial.batch)} ${trial.unit}` : "";
  const when = `step ${whole(step)}${seen}`, phase = trial.phases.length ? trial.strategies[trial.phases[state.frame]] : "";
  const before = $("phase").textContent;
  $("when").textContent = when;
  $("phase").hidden = !phase;
  $("phase").textContent = phase;
  if (phase) $("phase").style.color = hue(trial.phases[state.frame]);
  slider.value = String(state.frame);
  slider.setAttribute("aria-valuetext", `${when}, ${trial.error.name} ${number(trial.error.values[state.frame])}${phase ? `, nearest strategy ${phase}` : ""}`);
  if (phase && before && phase !== before) $("said").textContent = `phase: ${phase}`;
}

function play() {
  const last = film.trials[state.trial].steps.length - 1;
  if (state.frame >= last) show(0);
  state.playing = true; state.owed = 0; state.then = 0;
  dress();
  requestAnimationFrame(advance);
}
function pause() {
  if (!state.playing) return;
  state.playing = false;
  dress();
}
function dress() {
  $("play").setAttribute("aria-label", state.playing ? "Pause" : "Play");
  $("play-shape").setAttribute("d", state.playing ? "M7 5h3.6v14H7zM13.4 5H17v14h-3.6z" : "M8 5.5v13l10.5-6.5z");
}
function advance(now) {
  if (!state.playing) return;
  const last = film.trials[state.trial].steps.length - 1;
  const each = (still.matches ? 700 : Math.min(400, Math.max(40, LENGTH / (last + 1)))) / Number($("speed").value);
  state.owed += state.then ? now - state.then : each;
  state.then = now;
  const jump = Math.floor(state.owed / each);
  if (jump) { state.owed -= jump * each; show(state.frame + jump); }
  if (state.frame >= last) pause(); else requestAnimationFrame(advance);
}

// Keys work wherever the focus is, but a control that has its own use of a key keeps it.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const on = event.target instanceof Element ? event.target.tagName : "";
  if (on === "SELECT" || (on === "BUTTON" && event.key === " ")) return;
  const last = film.trials[state.trial].steps.length - 1, far = event.shiftKey ? 10 : 1;
  const goal = { ArrowLeft: state.frame - far, ArrowRight: state.frame + far, Home: 0, End: last }[event.key];
  if (event.key === " ") state.playing ? pause() : play();
  else if (goal !== undefined) { pause(); show(goal); }
  else return;
  event.preventDefault();
});
$("play").addEventListener("click", () => (state.playing ? pause() : play()));
$("frame").addEventListener("input", () => { pause(); show(Number($("frame").value)); });
$("trial").addEventListener("change", () => {
  const before = film.trials[state.trial].steps.length - 1, share = before ? state.frame / before : 0;
  pause();
  state.trial = Number($("trial").value);
  state.frame = Math.round(share * (film.trials[state.trial].steps.length - 1));
  build();
});
film.trials.forEach((trial, place) => $("trial").append(element("option", { value: place }, trial.label)));
$("chooser").hidden = film.trials.length < 2;
dark.addEventListener("change", () => show(state.frame));
let wide = innerWidth;
addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; build(); } });
build();
