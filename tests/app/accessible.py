"""Accessibility checks that run in the page. Each returns a list of faults in words."""

from playwright.sync_api import Page

_VISIBLE = """
const visible = (part) => {
  const box = part.getBoundingClientRect();
  return box.width > 1 && box.height > 1 && part.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    && !part.closest(".visually-hidden, [inert], [aria-hidden=true]");
};
const words = (part) => {
  const text = part.getAttribute("aria-label") || part.innerText || part.textContent || part.placeholder || "";
  return text.trim().replace(/\\s+/g, " ").slice(0, 40);
};
const place = (part) => {
  const owner = part.closest("[id]:not([id^=range_id])");
  return `${owner ? "#" + owner.id + " " : ""}${part.tagName.toLowerCase()} '${words(part)}'`;
};
"""

LOW_CONTRAST = (
    "() => {"
    + _VISIBLE
    + """
  const parse = (text) => {
    const numbers = text.match(/[\\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    const scale = text.startsWith("color(srgb") ? 255 : 1;
    return [...numbers.slice(0, 3).map((v) => v * scale), numbers[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (color) => {
    const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = color.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (part) => {
    const layers = [];
    for (let node = part; node; node = node.parentElement) {
      const shape = node.matches("g.node") && node.querySelector("rect, path, polygon, circle");
      layers.push(parse(shape ? getComputedStyle(shape).fill : getComputedStyle(node).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const opacity = (part) => part ? Number(getComputedStyle(part).opacity) * opacity(part.parentElement) : 1;
  const low = new Set();
  const check = (part, style, text) => {
    const below = background(part);
    const color = parse(part.closest("svg text") ? style.fill : style.color);
    color[3] *= opacity(part);
    const [one, other] = [luminance(over(color, below)), luminance(below)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) low.add(`${place(part)} (${text.slice(0, 30)}): ${ratio.toFixed(2)}`);
  };
  for (const part of document.querySelectorAll("body *")) {
    if (part.closest("[disabled], [aria-disabled=true], style, script") || !visible(part)) continue;
    const field = part.matches("textarea, input:not([type=checkbox], [type=radio], [type=range], [type=file])");
    const own = [...part.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent).join("");
    if (field && part.value) check(part, getComputedStyle(part), part.value);
    if (field && part.placeholder) check(part, getComputedStyle(part, "::placeholder"), part.placeholder);
    if (!field && own.trim()) check(part, getComputedStyle(part), own.trim());
  }
  return [...low];
}"""
)
"""Texts whose contrast is below 4.5 to 1 (3 to 1 for large text), with their contrast; disabled ones do not count."""

SMALL_TARGETS = (
    "() => {"
    + _VISIBLE
    + """
  const controls = "button, summary, input, select, textarea, a[href], [role=button], [role=tab], [role=option]";
  const hit = (part) => {
    const boxes = [part, ...(part.matches("input") ? part.labels : [])].map((each) => each.getBoundingClientRect());
    return [Math.max(...boxes.map((box) => box.width)), Math.max(...boxes.map((box) => box.height))];
  };
  const inline = (part) => part.matches("p a, li a, td a, dd a") && getComputedStyle(part).display === "inline";
  return [...document.querySelectorAll(controls)]
    .filter((part) => !part.disabled && visible(part) && !inline(part))
    .map((part) => [part, hit(part)])
    .filter(([, [width, height]]) => width < 23.5 || height < 23.5)
    .map(([part, [width, height]]) => `${place(part)}: ${width.toFixed(0)} x ${height.toFixed(0)}`);
}"""
)
"""Controls smaller than 24 x 24 CSS pixels (WCAG 2.5.8). A label is part of its control; links in text do not count."""

WATCH_SHIFTS = """() => { window.shifts = 0; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({ type: "layout-shift", buffered: true }); }"""
"""Adds up in `window.shifts` by how much the page shifts without user input (cumulative layout shift)."""

_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

_CONTROLS = {
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "radio", "radiogroup", "searchbox", "slider",
    "spinbutton", "switch", "tab", "textbox",
}  # fmt: skip


def nameless(page: Page) -> list[str]:
    """Return the controls without a name in the accessibility tree of the browser."""
    session = page.context.new_cdp_session(page)
    faults = []
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        if not node["ignored"] and role in _CONTROLS and not node.get("name", {}).get("value", "").strip():
            element = session.send("DOM.describeNode", {"backendNodeId": node["backendDOMNodeId"]})["node"]
            faults.append(f"{role}: {element['nodeName'].lower()} {' '.join(element.get('attributes', []))[:150]}")
    session.detach()
    return faults


def faults(page: Page) -> list[str]:
    """Return what is wrong with the page whatever its colors: names and sizes of controls, overflow."""
    overflow = page.evaluate(_OVERFLOW)
    return [
        *(f"small: {each}" for each in page.evaluate(SMALL_TARGETS)),
        *(f"without a name: {each}" for each in nameless(page)),
        *([f"overflow by {overflow} pixels"] if overflow > 0 else []),
    ]
