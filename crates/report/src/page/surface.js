// Draws the surfaces of the group that contains this script, and rotates them together.
(() => {
  const group = document.currentScript.closest(".surfaces");
  const { steps, colours, ticks, views } = JSON.parse(group.querySelector("script[type='application/json']").textContent);
  const canvases = [...group.querySelectorAll("canvas.surface")];
  // The plane reaches from -1 to 1; the heights take this much.
  const HEIGHT = 1.5;
  const MARGIN_X = 42, MARGIN_Y = 18;
  const MIN_TILT = 0.12, MAX_TILT = Math.PI / 2;
  let turn = -0.6, tilt = 0.8;
  let printing = false, waiting = false;

  // The scale fits every angle, so that the surface does not grow and shrink while it rotates.
  function projection(width, height) {
    const scale = Math.max(1, Math.min((width / 2 - MARGIN_X) / Math.SQRT2,
                                       (height / 2 - MARGIN_Y) / Math.hypot(Math.SQRT2, HEIGHT / 2)));
    const [sin, cos] = [Math.sin(turn), Math.cos(turn)];
    const [sinTilt, cosTilt] = [Math.sin(tilt), Math.cos(tilt)];
    // Seen from above and not rotated, direction 1 leads to the right and direction 2 upwards, as in the figures.
    return (x, y, z) => [
      width / 2 + scale * (x * cos + y * sin),
      height / 2 + scale * ((x * sin - y * cos) * sinTilt - (z - 0.5) * HEIGHT * cosTilt),
    ];
  }

  function inks() {
    if (printing) return { ink: "#000", faint: "#444", line: "#bbb", paper: "#fff" };
    const style = getComputedStyle(group);
    const named = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
    return { ink: named("--ink", style.color), faint: named("--faint", style.color),
             line: named("--line", "#888"), paper: named("--paper", "Canvas") };
  }

  function draw(canvas, rows) {
    const { clientWidth: width, clientHeight: height } = canvas;
    const density = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
    const context = canvas.getContext("2d");
    context.scale(density, density);
    context.lineJoin = "round";
    const project = projection(width, height);
    const ink = inks();
    drawFrame(context, project, ink);
    const model = modelOf(rows, project);
    const hidden = drawQuads(context, project, rows, ink, model?.map(part => part * density));
    if (model) drawModel(context, model, hidden, ink);
    drawLabels(context, project, ink, width, height);
  }

  // The floor, and the corners behind the surface.
  function drawFrame(context, project, ink) {
    const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1]];
    context.strokeStyle = ink.line;
    context.lineWidth = 1;
    context.beginPath();
    corners.forEach(([x, y]) => context.lineTo(...project(x, y, 0)));
    context.closePath();
    const nearest = Math.max(...corners.map(depth));
    for (const corner of corners.filter(corner => depth(corner) < nearest)) {
      context.moveTo(...project(...corner, 0));
      context.lineTo(...project(...corner, 1));
    }
    context.stroke();
  }

  function depth([x, y]) {
    return x * Math.sin(turn) - y * Math.cos(turn);
  }

  // Painter's algorithm, from back to front. Returns whether the model, in pixels, is hidden.
  function drawQuads(context, project, rows, ink, model) {
    let hidden = false;
    const last = rows.length - 1;
    const place = index => 2 * index / last - 1;
    const points = rows.map((row, j) => row.map((step, i) =>
      step === null ? null : project(place(i), place(j), step / steps)));
    const cells = [...Array(Math.max(0, last)).keys()];
    const backwards = [...cells].reverse();
    const columns = Math.sin(turn) >= 0 ? cells : backwards;
    const lines = Math.cos(turn) >= 0 ? backwards : cells;
    context.lineWidth = 0.5;
    for (const j of lines) {
      for (const i of columns) {
        const corners = [points[j][i], points[j][i + 1], points[j + 1][i + 1], points[j + 1][i]];
        if (corners.includes(null)) continue;
        const mean = (rows[j][i] + rows[j][i + 1] + rows[j + 1][i + 1] + rows[j + 1][i]) / 4;
        context.fillStyle = colours[Math.round(mean / steps * (colours.length - 1))];
        context.beginPath();
        corners.forEach(corner => context.lineTo(...corner));
        context.closePath();
        context.globalAlpha = 1;
        context.fill();
        if (model && isBefore(i, j, last / 2) && context.isPointInPath(...model)) hidden = true;
        context.strokeStyle = ink.ink;
        context.globalAlpha = 0.35;
        context.stroke();
      }
    }
    context.globalAlpha = 1;
    return hidden;
  }

  // Whether a cell is nearer than the centre of the plane and does not touch it.
  function isBefore(i, j, middle) {
    const touches = Math.abs(i + 0.5 - middle) < 1 && Math.abs(j + 0.5 - middle) < 1;
    return !touches && depth([i + 0.5 - middle, j + 0.5 - middle]) > 0;
  }

  // The trained model, at the centre of the plane.
  function modelOf(rows, project) {
    const middle = (rows.length - 1) / 2;
    const step = rows[middle]?.[middle] ?? null;
    return step === null ? null : project(0, 0, step / steps);
  }

  function drawModel(context, model, hidden, ink) {
    context.globalAlpha = hidden ? 0.4 : 1;
    context.beginPath();
    context.arc(...model, 4, 0, 2 * Math.PI);
    for (const [colour, width] of [[ink.paper, 4], [ink.ink, 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  // Direction labels along the near edges of the floor, losses along the leftmost corner.
  function drawLabels(context, project, ink, width, height) {
    context.font = `12px ${getComputedStyle(group).fontFamily}`;
    context.textBaseline = "middle";
    const write = (text, x, y) => {
      // Keep the text on the canvas.
      const half = context.measureText(text).width / 2;
      x = Math.min(Math.max(x, half + 2), width - half - 2);
      y = Math.min(Math.max(y, 8), height - 8);
      context.fillText(text, x - half, y);
    };
    context.fillStyle = ink.faint;
    const middle = project(0, 0, 0);
    const nearX = Math.sin(turn) >= 0 ? 1 : -1, nearY = Math.cos(turn) >= 0 ? -1 : 1;
    for (const [text, x, y] of [["direction 1", 0, nearY], ["direction 2", nearX, 0]]) {
      const at = project(x, y, 0);
      const away = Math.hypot(at[0] - middle[0], at[1] - middle[1]) || 1;
      const [right, down] = [(at[0] - middle[0]) / away, (at[1] - middle[1]) / away];
      const half = context.measureText(text).width / 2;
      write(text, at[0] + right * (half + 6), at[1] + down * 14);
    }
    const leftmost = [[-1, -1], [1, -1], [1, 1], [-1, 1]]
      .reduce((best, corner) => project(...corner, 0)[0] < project(...best, 0)[0] ? corner : best);
    // From above, heights cannot be distinguished.
    if (Math.cos(tilt) < 0.35) return;
    let below = Infinity;
    for (const [share, label] of ticks) {
      const [x, y] = project(...leftmost, share);
      if (below - y < 13) continue;
      below = y;
      context.strokeStyle = ink.faint;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x - 4, y);
      context.lineTo(x, y);
      context.stroke();
      write(label, x - 7 - context.measureText(label).width / 2, y);
    }
  }

  function drawAll() {
    waiting = false;
    canvases.forEach((canvas, index) => draw(canvas, views[index]));
  }

  function drawSoon() {
    if (!waiting) requestAnimationFrame(drawAll);
    waiting = true;
  }

  function rotateBy(aroundVertical, aroundHorizontal) {
    turn += aroundVertical;
    tilt = Math.min(Math.max(tilt + aroundHorizontal, MIN_TILT), MAX_TILT);
    drawSoon();
  }

  const KEYS = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, -0.07], ArrowDown: [0, 0.07] };
  for (const canvas of canvases) {
    let last = null;
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      last = [event.clientX, event.clientY];
    });
    canvas.addEventListener("pointermove", event => {
      if (!canvas.hasPointerCapture(event.pointerId) || last === null) return;
      rotateBy((last[0] - event.clientX) * 0.01, (event.clientY - last[1]) * 0.007);
      last = [event.clientX, event.clientY];
    });
    canvas.addEventListener("keydown", event => {
      if (!(event.key in KEYS) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      rotateBy(...KEYS[event.key]);
    });
  }
  new ResizeObserver(drawSoon).observe(group);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);
  const print = now => () => { printing = now; drawAll(); };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
  drawAll();
})();
