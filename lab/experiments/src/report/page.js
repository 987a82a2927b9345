// SPDX-License-Identifier: Apache-2.0
// Draws plots when they come into view, in the colours of the page. Tabs choose views, and a list
// chooses cells.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // element -> { figure }, replaced at each drawing
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Returns ticks of a logarithmic axis at round numbers, as many as fit; and further ticks beyond
  // the shown range, for zooming out.
  const ticksBetween = (low, high, room) => {
    const decades = Math.log10(high / low);
    const steps = decades > room / 1.2 ? [1] : decades > 1.3 ? [1, 2, 5] : decades > 0.4 ? [1, 1.5, 2, 3, 4, 5, 7] : [1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.2, 2.5, 2.7, 3, 3.2, 3.5, 3.7, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5];
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)) + 1; power++) {
      for (const step of steps) ticks.push(Number((step * 10 ** power).toPrecision(3)));
    }
    const inside = ticks.filter((t) => t >= low / 1.2 && t <= high * 1.2).length;
    const every = Math.ceil(inside / (room * 2));
    return ticks.filter((t, i) => every < 2 || i % every === 0);
  };
  const prefixed = (x) => {
    const [scale, unit] = x < 1e-6 ? [1e9, "ns"] : x < 1e-3 ? [1e6, "µs"] : x < 1 ? [1e3, "ms"] : [1, "s"];
    return Number((x * scale).toPrecision(3)) + " " + unit;
  };
  const valuesOf = (figure, letter) => figure.data.flatMap((t) => {
    const plain = [...(t[letter] || []), ...(letter === "y" ? [t.lowerfence, t.upperfence] : []).flat()];
    const error = letter === "x" && t.error_x ? t.x.flatMap((x, i) => [x - t.error_x.arrayminus[i], x + t.error_x.array[i]]) : [];
    return [...plain, ...error];
  }).filter((v) => typeof v === "number" && v > 0);

  // A long name is cut before its last part, in which neighbouring names differ.
  const shortened = (name, most) => {
    if (name.length <= most) return name;
    const at = name.lastIndexOf(" · ");
    const tail = at > 0 && name.length - at < most - 4 ? name.slice(at) : "";
    return name.slice(0, most - 1 - tail.length) + "…" + tail;
  };

  // A name that is too long for a line is wrapped after the last part that fits.
  const inLines = (name, most) => {
    if (name.length <= most) return name;
    const fits = (sign) => name.lastIndexOf(sign, most);
    const at = Math.max(fits(" · ") > 0 ? fits(" · ") : fits(" "), 0);
    return at ? name.slice(0, at) + "<br>" + shortened(name.slice(at + 1), most) : shortened(name, most);
  };

  // Returns the figure's layout in the page's colours and at the page's width.
  const layoutOf = (figure, element) => {
    const narrow = element.clientWidth < 600;
    const layout = structuredClone(figure.layout);
    const shown = figure.data.filter((t) => t.showlegend !== false).map((t) => t.name || "");
    const longest = Math.max(4, ...shown.map((n) => n.length));
    const perRow = Math.max(1, Math.floor((element.clientWidth - 60) / (longest * 6.6 + 50)));
    const rows = Math.ceil(shown.length / perRow);
    const categories = new Set(figure.data.flatMap((t) => (t.orientation === "h" || t.error_x ? t.y : [])));
    // Long names take half the plot at most.
    const mostOfName = narrow ? 18 : 44;
    const row = [...categories].some((n) => n.length > mostOfName) ? 42 : 34;
    // Each row has a fixed height, so the plot grows with the number of rows. Plots of curves have
    // a fixed height.
    const body = categories.size ? Math.max(110, categories.size * row) : narrow ? 300 : 360;
    layout.height = body + 88 + rows * 20;
    layout.autosize = true;
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: colour("--ink"), family: "system-ui, sans-serif", size: narrow ? 11 : 13 };
    // Half of the label of the last tick extends to the right.
    layout.margin = { l: narrow ? 48 : 64, r: narrow ? 24 : 36, t: 32 + rows * 20, b: 52 };
    layout.legend = { orientation: "h", traceorder: "normal", x: 0, xanchor: "left", y: 1, yanchor: "bottom", font: { size: narrow ? 10 : 12 } };
    // A single trace is named as well.
    layout.showlegend = true;
    layout.hoverlabel = { namelength: -1 };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--link") };
    for (const key of Object.keys(layout).filter((k) => /^[xy]axis/.test(k))) {
      const axis = layout[key];
      Object.assign(axis, { gridcolor: colour("--grid"), zerolinecolor: colour("--rule"), linecolor: colour("--rule"), automargin: true });
      // Places the title next to the tick labels, not between them.
      if (axis.title) axis.title.standoff = narrow ? 6 : 12;
      if (axis.type === "log" && axis.tickmode !== "array") {
        const values = valuesOf(figure, key[0]);
        if (values.length) {
          const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
          axis.tickvals = ticksBetween(low, high, key.startsWith("x") && narrow ? 3 : 7);
          const suffix = axis.ticksuffix || "";
          axis.ticktext = axis.tickvals.map((v) => (suffix === "s" ? prefixed(v) : v + suffix));
          axis.tickmode = "array";
        }
      }
      // Times of bars, with a space before their unit, as in all texts.
      if (axis.type !== "log" && axis.ticksuffix === "s") {
        const ends = new Map();
        for (const t of figure.data) t.y.forEach((name, i) => ends.set(name, (ends.get(name) || 0) + t.x[i]));
        const most = Math.max(...ends.values()), rough = most / (narrow ? 3 : 6), power = 10 ** Math.floor(Math.log10(rough));
        const step = most > 0 ? [1, 2, 5, 10].find((m) => m * power >= rough) * power : 1;
        axis.tickmode = "array";
        axis.tickvals = Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
        axis.ticktext = axis.tickvals.map((v) => (v === 0 ? "0" : prefixed(v)));
      }
      if (axis.type === "category" && key.startsWith("y")) {
        const names = [...categories];
        axis.tickmode = "array";
        axis.tickvals = names;
        axis.ticktext = names.map((n) => inLines(n, mostOfName));
      }
    }
    return layout;
  };
  // For screen readers, and for the tests: marks plots that are still to be drawn.
  const busy = (element, is) => element.setAttribute("aria-busy", is);
  const draw = (element, figure) => {
    const drawing = { figure };
    drawn.set(element, drawing);
    busy(element, true);
    const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"], displayModeBar: "hover" };
    Plotly.react(element, structuredClone(figure.data), layoutOf(figure, element), config).finally(() => {
      if (drawn.get(element) === drawing) busy(element, false);
    });
  };
  const redraw = () => [...drawn].forEach(([element, { figure }]) => draw(element, figure));
  dark.addEventListener("change", redraw);
  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 150);
  });

  const whenSeen = (element, plot, then) => {
    busy(plot, true);
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((e) => e.isIntersecting)) {
        observer.disconnect();
        then();
      }
    }, { rootMargin: "400px" });
    observer.observe(element);
  };
  const dataOf = (element) => JSON.parse(element.querySelector(":scope > script").textContent);

  for (const element of document.querySelectorAll("[data-plot]")) {
    whenSeen(element, element, () => {
      const figure = dataOf(element);
      element.textContent = "";
      // Nothing else is drawn there, so the reserved height is released.
      element.style.minHeight = "0";
      draw(element, figure);
    });
  }

  const explore = (box, number) => {
    const { cells: all, views } = dataOf(box);
    const [tabs, list, select, note, plot] = ["[role=tablist]", ".cell", "select", ".legend", ".plot"].map((s) => box.querySelector(s));
    plot.id = `explorer-${number}`;
    // Chosen cells, the latest first: a view shows the first one that it has.
    let current = views[0], wanted = [];
    const show = () => {
      const cells = current.plots.map((p) => p.cell);
      const cell = wanted.find((c) => cells.includes(c)) ?? cells[0];
      select.replaceChildren(...cells.map((c) => new Option(c, c, false, c === cell)));
      // With several cells to choose from, the view names its cell.
      list.hidden = all.length < 2 && cells.length < 2;
      select.disabled = cells.length < 2;
      note.textContent = current.note;
      for (const tab of tabs.children) {
        const chosen = tab.dataset.view === current.id;
        tab.setAttribute("aria-selected", chosen);
        tab.tabIndex = chosen ? 0 : -1;
      }
      plot.setAttribute("aria-label", `${current.title}: ${cell}`);
      draw(plot, current.plots.find((p) => p.cell === cell).plot);
    };
    for (const view of views) {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.textContent = view.title;
      tab.dataset.view = view.id;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", plot.id);
      tab.addEventListener("click", () => { current = view; show(); });
      tabs.append(tab);
    }
    tabs.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (views.indexOf(current) + step + views.length) % views.length;
      current = views[next];
      show();
      tabs.children[next].focus();
      event.preventDefault();
    });
    select.addEventListener("change", () => { wanted = [select.value, ...wanted.filter((c) => c !== select.value)]; show(); });
    show();
  };
  document.querySelectorAll(".explorer").forEach((box, number) => whenSeen(box, box.querySelector(".plot"), () => explore(box, number)));
})();
