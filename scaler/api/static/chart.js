// A chart of some values over the last minutes, drawn as SVG. It knows nothing of workloads.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 190, LEFT = 44, RIGHT = 12, TOP = 10, BOTTOM = 22;
const GAP_MS = 20e3; // a longer silence between two points is shown as one
const TICKS = 4, MINUTE_MS = 60e3, LEAST_MS = 2 * MINUTE_MS, LABEL = 60; // pixels that a time needs below the axis
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const EXACT = new Intl.DateTimeFormat([], { timeStyle: "medium", hourCycle: "h23" });

export const shown = (value, unit = "") =>
  value == null ? "–" : value === Infinity ? "∞" : `${+value.toPrecision(3)}${unit}`;

function node(name, attributes = {}, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function html(name, className, ...inside) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...inside);
  return made;
}

// The distance between ticks: 1, 2 or 5 times a power of ten.
function step(highest, least) {
  const rough = highest / TICKS, power = 10 ** Math.floor(Math.log10(rough));
  return Math.max(least, power * [1, 2, 5, 10].find((digit) => digit * power >= rough * 0.999));
}

export class Chart {
  // `lines`: {name, of: point => value or null}. `marks`: levels in the same form, each with the band above it named `band`.
  // `steps`: values hold until the next point, and only whole ones are marked.
  constructor({ title, unit, lines, marks = [], steps = false }, spanMs) {
    Object.assign(this, { title, unit, lines, marks, steps, spanMs, points: [], pointed: null });
    this.moment = html("span", "moment");
    this.legend = html("ul", "legend");
    this.values = lines.map(({ name }, index) => {
      const value = html("b", "");
      const sample = node("svg", { width: 22, height: 10, "aria-hidden": true }, node("path", { d: "M0 5H22", class: `line l${index}` }));
      this.legend.append(html("li", "", sample, ` ${name} `, value));
      return value;
    });
    this.plot = node("svg", { class: "plot", role: "img", height: HEIGHT });
    this.element = html("figure", "", html("figcaption", "", title, this.moment), this.legend, this.plot);
    this.plot.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.plot.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw(this.points)).observe(this.plot);
  }

  point(x) {
    this.pointed = x;
    this.draw(this.points);
  }

  draw(points) {
    this.points = points;
    const now = Date.now(), width = this.plot.clientWidth || 600;
    const values = [...this.lines, ...this.marks].flatMap(({ of }) => points.map(of)).filter(Number.isFinite);
    const highest = Math.max(...values, 0);
    const needed = highest * 1.05 || 1, every = step(needed, this.steps ? 1 : 0), top = Math.ceil(needed / every) * every;
    const span = Math.min(this.spanMs, Math.max(LEAST_MS, now - (points[0]?.at ?? now))); // a young workload fills the chart, too
    this.x = (at) => width - RIGHT - ((now - at) / span) * (width - LEFT - RIGHT);
    this.y = (value) => HEIGHT - BOTTOM - (Math.min(value, top) / top) * (HEIGHT - BOTTOM - TOP);
    const lines = this.lines.map(({ of }, index) => node("path", { d: this.path(of), class: `line l${index}` }));
    const grid = this.grid(now, span, width, every, top);
    this.plot.replaceChildren(...grid, ...this.bands(top), ...lines, ...this.labels(), ...this.reading());
  }

  // Runs of points whose value is known, without a gap between them.
  runs(of) {
    const runs = [];
    let last = null;
    for (const one of this.points) {
      if (of(one) == null) last = null;
      else if (last && one.at - last.at <= GAP_MS) runs.at(-1).push((last = one));
      else runs.push([(last = one)]);
    }
    return runs;
  }

  corners(run, of) {
    return run.flatMap((one, index) => {
      const x = this.x(one.at).toFixed(1), y = this.y(of(one)).toFixed(1);
      return this.steps && index ? [`${x} ${this.y(of(run[index - 1])).toFixed(1)}`, `${x} ${y}`] : [`${x} ${y}`];
    });
  }

  path(of) {
    return this.runs(of).map((run) => `M${this.corners(run, of).join("L")}${run.length > 1 ? "" : "h1"}`).join("");
  }

  bands(top) {
    return this.marks.flatMap(({ of, band }, index) => {
      const above = this.marks[index + 1]?.of ?? (() => top);
      const filled = this.runs(of).map((run) => `M${[...this.corners(run, of), ...this.corners(run, above).reverse()].join("L")}Z`);
      return [node("path", { d: filled.join(""), class: `band ${band}` }), node("path", { d: this.path(of), class: `mark ${band}` })];
    });
  }

  labels() {
    return this.marks.flatMap(({ name, of, band }) => {
      const last = this.points.findLast((one) => of(one) != null);
      const text = last && `${name}: ${shown(of(last), this.unit)}`;
      return last ? [node("text", { x: LEFT + 6, y: this.y(of(last)) - 5, class: `mark ${band}` }, text)] : [];
    });
  }

  grid(now, span, width, every, top) {
    const pieces = [];
    for (let value = 0; value <= top * 1.001; value += every) {
      pieces.push(node("path", { d: `M${LEFT} ${this.y(value)}H${width - RIGHT}`, class: value ? "grid" : "axis" }));
      pieces.push(node("text", { x: LEFT - 6, y: this.y(value) + 4, class: "left" }, shown(value, this.unit)));
    }
    const beat = MINUTE_MS * [1, 2, 3, 5].find((minutes) => minutes === 5 || (minutes * MINUTE_MS * width) / span >= LABEL);
    for (let at = Math.ceil((now - span) / beat) * beat; at <= now; at += beat) {
      const x = this.x(at);
      if (x < LEFT + 16 || x > width - RIGHT - 14) continue;
      pieces.push(node("path", { d: `M${x} ${HEIGHT - BOTTOM}v4`, class: "axis" }));
      pieces.push(node("text", { x, y: HEIGHT - 5, class: "below" }, CLOCK.format(at)));
    }
    return pieces;
  }

  // What the legend says: the newest values, or those that are pointed at.
  reading() {
    const near = (best, one) => (Math.abs(this.x(one.at) - this.pointed) < Math.abs(this.x(best.at) - this.pointed) ? one : best);
    const one = this.pointed == null || !this.points.length ? this.points.at(-1) : this.points.reduce(near);
    this.values.forEach((value, index) => { value.textContent = one ? shown(this.lines[index].of(one), this.unit) : "–"; });
    this.moment.textContent = this.pointed == null || !one ? "" : ` at ${EXACT.format(one.at)}`;
    this.plot.setAttribute("aria-label", `${this.title}: ${[...this.legend.children].map((item) => item.textContent.trim()).join(", ")}`);
    return this.pointed == null || !one ? [] : [node("path", { d: `M${this.x(one.at)} ${TOP}V${HEIGHT - BOTTOM}`, class: "rule" })];
  }
}
