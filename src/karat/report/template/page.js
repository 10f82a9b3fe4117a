// Sorts, filters and pages the table, shows rows of the charts by pointer or keyboard, and switches the theme.  Values are
// inserted as text.
(() => {
  "use strict";
  const PAGE = 25, PRINTED = 200, NEAR = 28, TIP = 10;
  const get = (id) => document.getElementById(id);
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const root = document.documentElement;
  root.classList.add("scripted");

  get("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const { columns, shown } = JSON.parse(get("rows-data").textContent);
  const THIN = "\u202f", POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, THIN);

  // The number format of karat.core.wording.number, to six digits.
  function number(value) {
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return grouped(value).replace("-", "−");
    const [digits, power] = value.toExponential(5).split("e");
    const exponent = Number(power);
    let text;
    if (exponent >= -3 && exponent < 7) {
      const [whole, part] = Number(`${digits}e${power}`).toFixed(Math.max(0, 5 - exponent)).split(".");
      const rest = part ? part.replace(/0+$/, "") : "";
      text = grouped(whole) + (rest ? `.${rest}` : "");
    } else {
      const raised = String(Math.abs(exponent)).replace(/\d/g, (d) => POWERS[d]);
      text = `${digits.replace(/\.?0+$/, "")} × 10${exponent < 0 ? "⁻" : ""}${raised}`;
    }
    return text.replace("-", "−");
  }
  const show = (column, row) => {
    const value = column.values[row];
    if (value === null) return "–";
    if (typeof value !== "number") return String(value);
    return number(value);
  };

  // Where a key leads among some things in a row; null if nowhere.
  function step(key, at, count, sideways) {
    const back = sideways ? ["ArrowLeft"] : ["ArrowLeft", "ArrowDown"], on = sideways ? ["ArrowRight"] : ["ArrowRight", "ArrowUp"];
    if (key === "Home") return 0;
    if (key === "End") return count - 1;
    if (back.includes(key)) return Math.max(0, at - 1);
    return on.includes(key) ? Math.min(count - 1, at + 1) : null;
  }

  // The table.
  const everyRow = Array.from({ length: shown }, (_, i) => i);
  let rows = everyRow, first = 0, size = PAGE, sorted = null;
  const head = get("table").tHead.rows[0], body = get("table").tBodies[0];

  function draw() {
    const fresh = document.createDocumentFragment();
    for (const row of rows.slice(first, first + size)) {
      const line = make("tr");
      for (const column of columns) {
        const value = column.values[row];
        const cell = make("td", show(column, row), value === null ? "none" : typeof value === "number" ? "num" : "");
        if (value !== null) cell.title = String(value);
        line.append(cell);
      }
      fresh.append(line);
    }
    body.replaceChildren(fresh);
    const last = Math.min(first + size, rows.length);
    get("place").textContent = rows.length ? `${grouped(first + 1)}–${grouped(last)} of ${grouped(rows.length)}` : "0 of 0";
    get("found").textContent = rows.length === shown ? "" : `${grouped(rows.length)} of ${grouped(shown)} ${shown === 1 ? "row matches" : "rows match"}`;
    get("back").disabled = first === 0;
    get("forward").disabled = last >= rows.length;
  }

  let words = null;
  const text = () => (words ??= everyRow.map((row) => columns.map((c) => (c.values[row] === null ? "" : String(c.values[row]))).join("\n").toLowerCase()));
  const compare = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "=": (a, b) => a === b };

  function select() {
    const wanted = get("filter").value.trim();
    const condition = wanted.match(/^(.+?)\s*(<=|>=|<|>|=)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)$/);
    const column = condition && columns.find((c) => c.name === condition[1]);
    if (!wanted) rows = everyRow.slice();
    else if (column) rows = everyRow.filter((row) => column.values[row] !== null && compare[condition[2]](column.values[row], Number(condition[3])));
    else rows = everyRow.filter((row) => text()[row].includes(wanted.toLowerCase()));
    if (sorted) {
      const { values } = columns[sorted.column], sign = sorted.down ? -1 : 1;
      rows.sort((a, b) => {
        const x = values[a], y = values[b];
        if (x === null || y === null) return (x === null) - (y === null) || a - b;  // missing values come last
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return sign * order || a - b;
      });
    }
    first = 0;
    draw();
  }

  const buttons = [];
  [...head.cells].forEach((cell, column) => {
    const button = make("button", cell.textContent);
    button.type = "button";
    button.tabIndex = column ? -1 : 0;  // one stop for Tab; the arrow keys go on from there
    button.setAttribute("aria-describedby", "sort-help");
    buttons.push(button);
    cell.replaceChildren(button);
    cell.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = sorted !== null && sorted.column === column && !sorted.down;
      const off = sorted !== null && sorted.column === column && sorted.down;
      sorted = off ? null : { column, down };
      for (const other of head.cells) other.setAttribute("aria-sort", "none");
      if (sorted) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      select();
    });
  });
  head.addEventListener("keydown", (event) => {
    const to = step(event.key, buttons.indexOf(document.activeElement), buttons.length, true);
    if (to === null) return;
    event.preventDefault();
    for (const button of buttons) button.tabIndex = -1;
    buttons[to].tabIndex = 0;
    buttons[to].focus();
  });
  get("filter").addEventListener("input", select);
  get("back").addEventListener("click", () => { first = Math.max(0, first - size); draw(); });
  get("forward").addEventListener("click", () => { first += size; draw(); });
  addEventListener("beforeprint", () => { first = 0; size = PRINTED; draw(); document.querySelectorAll("main details").forEach((d) => { d.open = true; }); });
  addEventListener("afterprint", () => { size = PAGE; draw(); });
  draw();

  // The charts: a box beside the pointer, or beside the mark that the arrow keys have reached, says what it is.
  const plane = get("plane"), focus = get("focus"), tip = get("tip"), histogram = get("histogram");
  const circles = [...plane.querySelectorAll(".rows circle")].map((c) => ({ x: c.cx.baseVal.value, y: c.cy.baseVal.value, r: c.r.baseVal.value, row: Number(c.dataset.row), mark: c }));
  const across = circles.slice().sort((a, b) => a.x - b.x || a.y - b.y), bars = [...histogram.querySelectorAll(".bars rect")];

  function nearest(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(plane.getScreenCTM().inverse());
    let best = null, least = NEAR;
    for (const circle of circles) {
      const distance = Math.hypot(circle.x - point.x, circle.y - point.y);
      if (distance < least) [best, least] = [circle, distance];
    }
    return best;
  }
  function leave() {
    tip.hidden = true;
    focus.setAttribute("r", 0);
    for (const bar of bars) bar.classList.remove("here");
  }
  function place(x, y) {  // the box, beside a point of the window
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(y + 12, innerHeight - box.height - 8))}px`;
  }
  function placeAt(mark) {
    const box = mark.getBoundingClientRect();
    place(box.x + box.width / 2, box.y + box.height / 2);
  }
  function describe(circle) {
    focus.setAttribute("cx", circle.x); focus.setAttribute("cy", circle.y); focus.setAttribute("r", circle.r + 2.5);
    const table = make("table");
    for (const column of columns.slice(0, TIP)) {
      const line = make("tr");
      line.append(make("th", column.name), make("td", show(column, circle.row)));
      table.append(line);
    }
    tip.replaceChildren(table);
    const more = columns.length - TIP;
    if (more > 0) tip.append(make("div", `and ${more} more ${more === 1 ? "column" : "columns"}`));
  }
  function showInTable(circle) {
    get("filter").value = `row = ${columns[0].values[circle.row]}`;
    select();
  }

  function point(event) {
    const circle = nearest(event);
    if (!circle) { leave(); return; }
    describe(circle);
    place(event.clientX, event.clientY);
  }
  plane.addEventListener("pointermove", point);
  plane.addEventListener("pointerdown", point);  // a finger does not hover: the box stays until the next touch
  plane.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
  addEventListener("pointerdown", (event) => { if (!plane.contains(event.target)) leave(); });
  plane.addEventListener("click", (event) => { const circle = nearest(event); if (circle) showInTable(circle); });

  // One stop for Tab per chart; the arrow keys walk along its marks.
  function walk(chart, count, reach, enter) {
    let at = -1;
    chart.setAttribute("tabindex", "0");
    chart.setAttribute("role", "application");
    chart.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { leave(); return; }
      if (event.key === "Enter" && at >= 0 && enter) { enter(at); return; }
      const to = step(event.key, at, count, false);
      if (to === null) return;
      event.preventDefault();
      leave();
      at = to;
      reach(at);
    });
    chart.addEventListener("blur", leave);
  }
  plane.setAttribute("aria-describedby", "plane-help");
  walk(plane, across.length, (at) => { describe(across[at]); placeAt(across[at].mark); }, (at) => showInTable(across[at]));
  walk(histogram, bars.length, (at) => {
    bars[at].classList.add("here");
    tip.replaceChildren(make("div", bars[at].querySelector("title").textContent));
    placeAt(bars[at]);
  });
})();
