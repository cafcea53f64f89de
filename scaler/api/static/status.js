// Keeps the page up to date. The server's HTML is the only source of what is said: when a decision is published, or none for a while, the
// page is fetched again and what differs is replaced. Charts are the one thing that is drawn here.

import { Chart } from "./chart.js";

const LEAST_MS = 1000, MOST_MS = 5000;
const TIME = new Intl.DateTimeFormat([], { timeStyle: "medium", hourCycle: "h23" });
const live = document.getElementById("stream"), section = document.getElementById("charts");

// --- the page's text --------------------------------------------------------------------------------------------------

// Makes `old` what `fresh` is, and leaves alone what is equal already: links keep the focus, and selected text its selection.
function renew(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const alike = old.nodeName === fresh.nodeName && old.childNodes.length === fresh.childNodes.length;
  if (!alike || !old.childNodes.length) return old.replaceWith(fresh);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
  const newer = [...fresh.childNodes];
  [...old.childNodes].forEach((child, index) => renew(child, newer[index]));
}

let refreshedAt = Date.now(), fetching = false, due = false;

async function refresh() {
  if (fetching) return;
  fetching = true;
  due = false;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!page.getElementById("charts") !== !section) return location.reload(); // the workload came, or is gone
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(old.id);
      if (fresh) renew(old, document.adoptNode(fresh));
    }
    refreshedAt = Date.now();
  } catch {
    tell(false); // the stream says when the server is back
  } finally {
    fetching = false;
  }
}

function tell(isLive) {
  live.className = isLive ? "live" : "lost";
  live.textContent = isLive ? "live" : `not live: this is what was known at ${TIME.format(refreshedAt)}`;
}

// --- the charts -------------------------------------------------------------------------------------------------------

const value = (name) => (point) => (point[name] === "inf" ? Infinity : point[name]);
const spanMs = section ? section.dataset.span * 1000 : 0, edge = section ? +section.dataset.edge : 0;
const charts = !section ? [] : [
  new Chart({
    title: "Requests a second",
    unit: "",
    lines: [
      { name: "offered", of: value("offered_per_s") },
      { name: "admitted", of: value("arrival_per_s") },
      { name: "refused", of: value("refused_per_s") },
    ],
  }, spanMs),
  new Chart({
    title: "Queue wait against budget",
    unit: " s",
    lines: [{ name: "queue wait", of: value("queue_wait_s") }],
    marks: [
      { name: `${edge} × budget`, of: (point) => point.budget_s && edge * point.budget_s, band: "yellow" },
      { name: "budget", of: value("budget_s"), band: "red" },
    ],
  }, spanMs),
  new Chart({
    title: "Replicas",
    unit: "",
    steps: true,
    lines: [
      { name: "asked", of: value("desired") },
      { name: "ready", of: value("ready") },
      { name: "starting", of: value("starting") },
    ],
  }, spanMs),
];
section?.replaceChildren(...charts.map((chart) => chart.element));

let points = [];
const at = (point) => ({ ...point, at: Date.now() - point.age_s * 1000 });

function draw() {
  points = points.filter((point) => point.at > Date.now() - spanMs);
  for (const chart of charts) chart.draw(points);
}

async function begin() {
  if (!section) return;
  const answer = await fetch(section.dataset.history, { cache: "no-store" });
  if (!answer.ok) return;
  const told = (await answer.json()).points.map(at), newest = told.at(-1)?.at ?? 0;
  points = [...told, ...points.filter((point) => point.at > newest)]; // and those that came meanwhile
  draw();
}

// --- the stream -------------------------------------------------------------------------------------------------------

let stream = null;

function open() {
  stream?.close();
  stream = new EventSource(document.body.dataset.events);
  stream.onopen = () => { tell(true); begin().catch(() => tell(false)); };
  stream.onerror = () => tell(false);
  for (const kind of ["decision", "pending", "gone"]) stream.addEventListener(kind, () => { due = true; });
  if (section) {
    stream.addEventListener("decision", (event) => {
      points.push(at(JSON.parse(event.data)));
      draw();
    });
  }
}

// A page that nobody looks at holds no stream: browsers open six connections to one server at most.
function look() {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else {
    open();
  }
}

setInterval(() => {
  if (document.hidden) return;
  const age = Date.now() - refreshedAt;
  if (age >= MOST_MS || (due && age >= LEAST_MS)) refresh();
  if (age >= MOST_MS && (!stream || stream.readyState === EventSource.CLOSED)) open(); // it was refused: there are too many
  draw();
}, LEAST_MS);
document.addEventListener("visibilitychange", look);
look();
