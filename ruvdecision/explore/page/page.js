"use strict";
// The page asks the program for everything: this file moves controls, sends what they say and shows what comes back.
// Every text goes in as text, never as markup; drawings are parsed as SVG and carry no style or script of their own.

const $ = (id) => document.getElementById(id);
const make = (tag, settings = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(settings)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};

let topics = [];
let example = null;
let topic = null;
let state = {}; // topic, values, max_risk, look, example, map
let scene = null;
let controls = {}; // name -> {set(value), get()}

// -- asking -----------------------------------------------------------------------------------------------

let busy = false;
let again = false;
let timer = null;

function query(extra = {}) {
  const sent = new URLSearchParams({ topic: topic.name });
  for (const [name, value] of Object.entries(state.values)) sent.set(name, spell(value));
  if (state.max_risk !== null) sent.set("max_risk", spell(state.max_risk));
  if (state.map !== null) sent.set("map", state.map);
  for (const [name, value] of Object.entries(extra)) sent.set(name, value);
  return sent;
}

const spell = (value) => (typeof value === "boolean" ? (value ? "yes" : "no") : String(value));

async function ask() {
  if (busy) {
    again = true; // only the last of many moves is worth an answer
    return;
  }
  busy = true;
  clearTimeout(timer);
  const moved = performance.now();
  const asked = topic;
  try {
    const width = Math.max(240, Math.min(1400, Math.floor($("stage").clientWidth)));
    const reply = await fetch("api/scene?" + query({ width, look: state.look, example: state.example }));
    const found = await reply.json();
    if (asked !== topic) again = true;
    else if (reply.status === 200) show(found, moved);
    else if (reply.status === 202) wait(found);
    else complain(found.message);
  } catch (error) {
    complain("The program does not answer. Is it still running? Start it again with: ruvdecision explore");
  }
  busy = false;
  if (again) {
    again = false;
    ask();
  }
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = false;
  document.body.classList.add("stale");
  running(false);
  count("problem");
}

function wait(found) {
  $("problem").hidden = true;
  document.body.classList.add("stale");
  $("run").hidden = false;
  $("progress").textContent = found.message;
  running(found.waiting === "running");
  if (found.waiting === "running") timer = setTimeout(ask, 400);
  count("waiting");
}

function running(on) {
  $("bar").hidden = !on;
  $("stop").hidden = !on;
  $("compute").disabled = on;
}

// Tests and screen recordings can tell by it that something new is on the page.
function count(what) {
  const root = document.documentElement.dataset;
  root.state = what;
  root.drawn = String(Number(root.drawn || 0) + 1);
}

// -- showing ----------------------------------------------------------------------------------------------

function drawing(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return parsed.nodeName === "svg" ? document.importNode(parsed, true) : make("p", { textContent: "The drawing could not be read." });
}

const items = (list) => list.map((text) => make("li", { textContent: text }));

function show(found, moved) {
  scene = found;
  document.body.classList.remove("stale");
  $("problem").hidden = true;
  running(false);
  $("progress").textContent = "";
  if (topic.kind === "study") {
    $("run").hidden = found.live;
    if (!found.live) $("progress").textContent = "Move the sliders, then press Compute.";
    offerMaps(found.maps);
    controls.max_risk.stops(found.threshold.stops);
    controls.max_risk.set(found.max_risk);
  }
  $("sentence").textContent = found.sentence;
  $("sentence").className = "banner " + found.kind;
  $("stage").replaceChildren(drawing(found.map.svg));
  $("legend").replaceChildren(...found.map.legend.map(legendItem));
  $("remarks").textContent = found.map.remarks.join(" ");
  $("short").textContent = found.chosen ? "Chosen: " + found.tips[found.chosen.row] : "Nothing is chosen.";
  $("facts").replaceChildren(...items(found.facts));
  $("users").replaceChildren(...found.users.map((text) => make("p", { textContent: text })));
  $("notes").replaceChildren(...items(found.notes));
  showLook(found);
  $("beliefs").hidden = found.panels.length === 0;
  $("panels").replaceChildren(...found.panels.map(panel));
  showTable(found.table);
  links();
  remember();
  performance.measure("redraw", { start: moved, end: performance.now() });
  document.documentElement.dataset.milliseconds = String(Math.round(performance.now() - moved));
  count("ready");
}

function legendItem(entry) {
  const swatch = drawing(entry.svg);
  swatch.setAttribute("aria-hidden", "true"); // its name stands beside it
  return make("li", {}, swatch, make("span", { textContent: entry.name }));
}

function showLook(found) {
  const place = found.order.indexOf(found.look.row);
  const slider = $("release");
  slider.max = String(found.order.length - 1);
  slider.value = String(place);
  slider.setAttribute("aria-valuetext", found.look.label);
  $("release-name").textContent = found.look.label;
  $("look-chosen").setAttribute("aria-pressed", String(found.look.how === "chosen"));
  $("look-own").setAttribute("aria-pressed", String(found.look.how === "own"));
  $("look-own").hidden = topic.kind === "study";
  const names = { risk: "Risk", utility: "Utility", intruder_uncertainty: "Intruder's U", scientist_uncertainty: "Scientist's U" };
  const cells = Object.entries(found.looked || {}).map(([key, value]) =>
    make("div", {}, make("dt", { textContent: names[key] || key }), make("dd", { id: "looked-" + key, textContent: value })));
  $("numbers").replaceChildren(...cells);
}

function panel(entry) {
  const who = entry.who === "intruder" ? "The intruder" : "The scientist";
  const box = make("div", { className: "panel" }, make("h3", { textContent: entry.title ? who + ": " + entry.title : who }));
  if (entry.svg) box.append(drawing(entry.svg));
  box.append(make("p", { textContent: entry.words }));
  return box;
}

function showTable(table) {
  const last = table.head.length - 1;
  const kind = (i) => (i > 0 && i < last ? "number" : "");
  const head = make("tr", {}, ...table.head.map((text, i) => make("th", { scope: "col", className: kind(i), textContent: text })));
  const rows = table.rows.map((row) =>
    make("tr", { className: row.kind }, ...row.cells.map((text, i) =>
      i === 0 ? make("th", { scope: "row", textContent: text }) : make("td", { className: kind(i), textContent: text }))));
  $("table").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  $("more").textContent = table.more > 0 ? "And " + table.more + " more; the CSV file has them all." : "";
}

function links() {
  for (const [id, file] of [["take-csv", "map.csv"], ["take-png", "map.png"], ["take-py", "map.py"], ["take-report", "report.html"]]) {
    $(id).href = "api/" + file + "?" + query();
  }
}

// -- finding a release with a pointer -----------------------------------------------------------------------

function nearest(event) {
  const svg = $("stage").querySelector("svg");
  if (!scene || !svg) return null;
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
  let best = null, least = 32 * 32;
  for (const point of scene.map.points) {
    const distance = (point[0] - x) ** 2 + (point[1] - y) ** 2;
    if (distance < least) [best, least] = [point, distance];
  }
  return best && { point: best, scale };
}

function hover(event) {
  const found = nearest(event);
  const tip = $("tip");
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = scene.tips[found.point[2]];
  const room = $("map").clientWidth;
  tip.style.left = Math.max(0, Math.min(found.point[0] / found.scale + 12, room - tip.offsetWidth)) + "px";
  tip.style.top = found.point[1] / found.scale + 14 + "px";
}

function pickRelease(row) {
  state.look = "release:" + scene.labels[row];
  ask();
}

// -- controls -----------------------------------------------------------------------------------------------

function place(stops, value) {
  let best = 0;
  stops.forEach((stop, i) => { if (Math.abs(stop - value) < Math.abs(stops[best] - value)) best = i; });
  return best;
}

function slider(spec, start, changed, strong = false) {
  let stops = spec.stops;
  const id = "c-" + spec.name;
  const range = make("input", { type: "range", id, min: "0", max: String(stops.length - 1), step: "1" });
  const box = make("input", { type: "number", id: id + "-number", step: "any" });
  box.setAttribute("aria-label", spec.label + ", as a number");
  const label = make("label", { htmlFor: id, textContent: spec.label });
  const whole = make("div", { className: "control" + (strong ? " strong" : "") }, make("div", { className: "row" }, label, box));
  if (spec.hint) {
    whole.append(make("span", { className: "hint", id: id + "-hint", textContent: spec.hint }));
    range.setAttribute("aria-describedby", id + "-hint");
  }
  whole.append(range);
  const put = (value) => {
    range.value = String(place(stops, value));
    range.setAttribute("aria-valuetext", String(value));
    box.value = String(value);
  };
  const limit = () => {
    range.max = String(stops.length - 1);
    box.min = String(stops[0]);
    box.max = String(stops[stops.length - 1]);
  };
  limit();
  put(start);
  range.addEventListener("input", () => { const value = stops[Number(range.value)]; put(value); changed(value); });
  box.addEventListener("change", () => {
    if (box.value === "" || !Number.isFinite(Number(box.value))) return;
    const value = Number(box.value);
    range.value = String(place(stops, value));
    range.setAttribute("aria-valuetext", String(value));
    changed(value);
  });
  return { element: whole, set: put, stops: (list) => { stops = list; limit(); } };
}

function pick(spec, start, changed) {
  const id = "c-" + spec.name;
  const select = make("select", { id }, ...spec.options.map(([value, text]) => make("option", { value, textContent: text })));
  select.value = start;
  select.addEventListener("change", () => changed(select.value));
  return { element: make("div", { className: "control" }, make("label", { htmlFor: id, textContent: spec.label }), select), set: (value) => { select.value = value; } };
}

function toggle(spec, start, changed) {
  const id = "c-" + spec.name;
  const input = make("input", { type: "checkbox", id, checked: start });
  input.addEventListener("change", () => changed(input.checked));
  return { element: make("div", { className: "control row" }, make("label", { htmlFor: id, textContent: spec.label }), input), set: (value) => { input.checked = value; } };
}

const kinds = { slider, pick, switch: toggle };

function moved(spec, value) {
  state.values[spec.name] = value;
  hide();
  if (spec.looks) state.look = "own";
  ask();
}

function build() {
  controls = {};
  $("settings").replaceChildren();
  for (const spec of topic.controls) {
    controls[spec.name] = kinds[spec.kind](spec, state.values[spec.name], (value) => moved(spec, value));
    $("settings").append(controls[spec.name].element);
  }
  const threshold = topic.threshold || { name: "max_risk", label: "Largest tolerable risk", hint: "", stops: [0, 1], default: 0 };
  controls.max_risk = slider(threshold, state.max_risk ?? threshold.default, (value) => { state.max_risk = value; ask(); }, true);
  $("settings").append(controls.max_risk.element);
  hide();
  controls.example = slider(example, state.example, (value) => { state.example = value; ask(); });
  $("example").replaceChildren(controls.example.element);
  $("title").textContent = topic.title;
  $("about").textContent = topic.about;
  document.title = topic.title + " · ruvdecision";
  $("run").hidden = topic.kind !== "study";
  for (const button of $("topics").children) {
    if (button.value === topic.name) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
}

// Controls that the present picks make no use of are out of the way.
function hide() {
  for (const spec of topic.controls) {
    if (spec.when) controls[spec.name].element.hidden = !spec.when[1].includes(state.values[spec.when[0]]);
  }
}

function offerMaps(names) {
  if (names.length < 2 || controls.map) return;
  const spec = { name: "map", label: "Map", options: names.map((name) => [name, name]) };
  controls.map = pick(spec, state.map ?? names[0], (value) => {
    // Another map has other risks, so its threshold starts anew.
    Object.assign(state, { map: value, look: "chosen", max_risk: null });
    ask();
  });
  $("settings").prepend(controls.map.element);
}

// -- the state and the address --------------------------------------------------------------------------------

function begin(name, sent = new URLSearchParams()) {
  topic = topics.find((one) => one.name === name) || topics[0];
  const number = (text, fallback) => (text !== null && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : fallback);
  state = { values: {}, map: sent.get("map"), look: sent.get("look") || "chosen" };
  for (const spec of topic.controls) {
    const text = sent.get(spec.name);
    if (text === null) state.values[spec.name] = spec.default;
    else if (spec.kind === "slider") state.values[spec.name] = number(text, spec.default);
    else if (spec.kind === "switch") state.values[spec.name] = text === "yes";
    else state.values[spec.name] = spec.options.some(([value]) => value === text) ? text : spec.default;
  }
  state.max_risk = number(sent.get("max_risk"), topic.threshold ? topic.threshold.default : null);
  state.example = number(sent.get("example"), example.default);
  build();
  ask();
}

let later = null;

function remember() {
  clearTimeout(later);
  // Browsers allow only so many changes of the address, and a slider makes many.
  later = setTimeout(() => history.replaceState(null, "", "?" + address()), 250);
}

function address() {
  const sent = new URLSearchParams({ topic: topic.name });
  for (const spec of topic.controls) if (state.values[spec.name] !== spec.default) sent.set(spec.name, spell(state.values[spec.name]));
  if (state.max_risk !== null && (!topic.threshold || state.max_risk !== topic.threshold.default)) sent.set("max_risk", spell(state.max_risk));
  if (state.map !== null) sent.set("map", state.map);
  if (state.look !== "chosen") sent.set("look", state.look);
  if (state.example !== example.default) sent.set("example", String(state.example));
  return sent.toString();
}

async function share() {
  const link = location.origin + location.pathname + "?" + address();
  try {
    await navigator.clipboard.writeText(link);
    $("shared").textContent = "Copied. Whoever runs ruvdecision explore can open it.";
  } catch (error) {
    $("shared").textContent = link;
  }
}

// -- light and dark -------------------------------------------------------------------------------------------

const themes = ["auto", "light", "dark"];

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  $("theme").textContent = "Theme: " + name;
  try { localStorage.setItem("theme", name); } catch (error) { /* a browser may keep nothing */ }
}

function storedTheme() {
  try { return themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto"; } catch (error) { return "auto"; }
}

// -- start ----------------------------------------------------------------------------------------------------

async function start() {
  theme(storedTheme());
  $("theme").addEventListener("click", () => theme(themes[(themes.indexOf(storedTheme()) + 1) % themes.length]));
  const found = await (await fetch("api/page")).json();
  topics = found.topics;
  example = found.example;
  $("version").textContent = found.version;
  if (topics.length > 1) {
    $("topics").append(...topics.map((one) => {
      const button = make("button", { type: "button", className: "plain", value: one.name, textContent: one.title });
      button.addEventListener("click", () => begin(one.name));
      return button;
    }));
  }
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("stage").addEventListener("pointermove", hover);
  $("stage").addEventListener("pointerleave", () => { $("tip").hidden = true; });
  $("stage").addEventListener("click", (event) => { const near = nearest(event); if (near) pickRelease(near.point[2]); });
  $("release").addEventListener("input", () => pickRelease(scene.order[Number($("release").value)]));
  $("look-chosen").addEventListener("click", () => { state.look = "chosen"; ask(); });
  $("look-own").addEventListener("click", () => { state.look = "own"; ask(); });
  $("compute").addEventListener("click", async () => { await fetch("api/compute?" + query(), { method: "POST" }); ask(); });
  $("stop").addEventListener("click", async () => { await fetch("api/stop", { method: "POST" }); ask(); });
  $("reset").addEventListener("click", () => begin(topic.name));
  $("share").addEventListener("click", share);
  let width = 0;
  new ResizeObserver(() => {
    const now = $("stage").clientWidth;
    if (Math.abs(now - width) > 4) { const first = width === 0; width = now; if (!first) ask(); }
  }).observe($("stage"));
  const sent = new URLSearchParams(location.search);
  begin(sent.get("topic"), sent);
}

start().catch(() => complain("The program does not answer. Is it still running? Start it again with: ruvdecision explore"));
