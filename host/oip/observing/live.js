"use strict";
// What the live pages of a board and of a fleet share: elements, numbers, charts, and the loop that asks.
const NS = "http://www.w3.org/2000/svg";
const colour = (stage) => `var(--s${stage % 6})`;
const before = new Map();
let paused = false;

function node(name, attributes, ...children) {
  const made = name === "svg" || name.startsWith("svg:")
    ? document.createElementNS(NS, name.replace("svg:", "")) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}
const ms = (us) => us == null ? "–" : us < 1000 ? `${us} µs` : us < 1e5 ? `${(us / 1e3).toFixed(us < 1e4 ? 2 : 1)} ms` : `${(us / 1e6).toFixed(2)} s`;
const count = (n) => n.toLocaleString("en");
const perSecond = (x) => x == null ? "–" : `${x.toFixed(x < 10 ? 1 : 0)}/s`;

// The growth of a counter a second since the last look; null at the first.
function rate(key, value) {
  const now = performance.now(), last = before.get(key);
  before.set(key, { value, at: now });
  return last ? Math.max(0, (value - last.value) / ((now - last.at) / 1e3)) : null;
}

function figures(list) {
  return list.map(([value, name]) => node("div", {}, node("b", {}, value), node("span", {}, name)));
}

// The width of a chart whose text a narrow screen must not shrink: what main and a card leave, at most `most`.
const fitting = (most) => Math.max(240, Math.min(most, document.documentElement.clientWidth - 82));

function chart(title, width, height, draw, className) {
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  draw((name, attributes, text) => {
    const one = node(`svg:${name}`, attributes);
    if (text !== undefined) one.textContent = text;
    svg.append(one);
    return one;
  });
  return node("div", className ? { class: className } : {}, node("h3", {}, title), svg);
}

// A dot an answer of `recent` ([when, latency in us, ...]), logarithmic, with the objective as a dashed line.
function latencies(title, most, recent, slo, fill, className) {
  const width = fitting(most), height = 190, left = 46, bottom = 24;
  const top = Math.max(2 * slo, ...recent.map((r) => r[1])), low = Math.max(1, Math.min(slo / 10, ...recent.map((r) => r[1])));
  const y = (us) => (height - bottom) * (1 - Math.log(us / low) / Math.log(top / low));
  const x = (i) => left + (width - left) * (i + 0.5) / Math.max(1, recent.length);
  return chart(title, width, height, (put) => {
    for (const tick of [1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7]) {
      if (tick < low || tick > top) continue;
      put("line", { x1: left, x2: width, y1: y(tick), y2: y(tick), class: "axis" });
      put("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, ms(tick).replace(".00", "").replace(".0", ""));
    }
    recent.forEach((one, i) => put("circle", { cx: x(i), cy: y(Math.max(low, one[1])), r: 2, fill: fill(one), opacity: 0.85 }));
    const dashed = { stroke: "var(--warn)", "stroke-dasharray": "5 4" };
    put("line", { x1: left, x2: width, y1: y(slo), y2: y(slo), ...dashed });
    put("line", { x1: 0, x2: 24, y1: height - 8, y2: height - 8, ...dashed });
    put("text", { x: 32, y: height - 4 }, `objective of a request that names none, ${ms(slo)}`);
  }, className);
}

// Ask for the numbers twice a second and draw them, until the reader pauses.
function poll(draw, silent) {
  const said = document.getElementById("said");
  async function look() {
    if (!paused) {
      try {
        const answer = await fetch("live.json", { cache: "no-store" });
        if (answer.status === 401) return location.reload(); // the server has another token now
        const found = await answer.json();
        draw(found);
        said.textContent = `version ${found.version}, as of ${new Date().toLocaleTimeString()}`;
      } catch (error) {
        said.textContent = silent;
      }
    }
    setTimeout(look, 500);
  }
  document.getElementById("pause").addEventListener("click", (event) => {
    paused = !paused;
    event.target.setAttribute("aria-pressed", paused);
  });
  look();
}
