"""What makes a page usable for everybody, as functions that run in it."""

LOW_CONTRAST = """() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return [...found.slice(0, 3), found[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (color) => {
    const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = color.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (part) => {
    const layers = [];
    for (let node = part; node; node = node.parentElement) {
      layers.push(parse(getComputedStyle(node).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const low = new Set();
  for (const part of document.querySelectorAll("body *")) {
    const words = [...part.childNodes].filter((node) => node.nodeType === 3);
    const text = words.map((node) => node.textContent).join("").trim();
    const style = getComputedStyle(part);
    const seen = part.offsetParent && style.visibility !== "hidden" && Number(style.opacity) > 0;
    if (!text || !seen || part.closest("[disabled], .visually-hidden")) continue;
    const below = ground(part);
    const [one, other] = [light(over(parse(style.color), below)), light(below)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) low.add(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return [...low];
}"""
"""Texts whose contrast is below 4.5 to 1, with their contrast. What is disabled does not count."""

SMALL = """() => [...document.querySelectorAll("button, summary")]
  .filter((part) => part.offsetParent && !part.closest(".visually-hidden"))
  .map((part) => [part.getAttribute("aria-label") || part.innerText, part.getBoundingClientRect()])
  .filter(([, box]) => box.height > 1 && (box.width < 23.5 || box.height < 23.5))
  .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)"""
"""What can be clicked and is smaller than 24 pixels; not the unseen copies by which Gradio measures tabs."""

WATCH_JUMPS = """window.jumps = 0; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.jumps += entry.value;
}).observe({ type: "layout-shift", buffered: true });"""
"""Adds up by how much the page jumps without having been touched (cumulative layout shift) in `window.jumps`."""
