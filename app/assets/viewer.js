() => {
  // The viewer of two images: see app/viewer/results.py for its markup.
  const states = new WeakMap();
  const state = (viewer) => {
    if (!states.has(viewer)) states.set(viewer, { zoom: 1, x: 0, y: 0, back: false });
    return states.get(viewer);
  };
  const chosen = (viewer, name) => viewer.querySelector(`input[name^="viewer-${name}-"]:checked`)?.value;
  const titleOf = (name) => (name.length > 1 ? name : `Candidate ${name}`);

  const source = (viewer, name) => {
    const image = viewer.querySelector(`.files img[data-name="${name}"]`);
    const marked = viewer.querySelector("input[name=marks]")?.checked && image.dataset.marked;
    return [marked || image.src, marked ? ", changes marked" : ""];
  };

  const draw = (viewer) => {
    const now = state(viewer);
    const mode = chosen(viewer, "mode");
    viewer.dataset.mode = mode;
    viewer.dataset.back = now.back;
    const cut = viewer.querySelector("input[name=cut]");
    viewer.style.setProperty("--cut", `${cut.value}%`);
    viewer.style.setProperty("--move", `translate(${now.x}px, ${now.y}px) scale(${now.zoom})`);
    viewer.classList.toggle("zoomed", now.zoom > 1);
    viewer.querySelector("output").value = `${Math.round(now.zoom * 100)}%`;
    for (const side of ["left", "right"]) {
      const name = chosen(viewer, side);
      const [src, marked] = source(viewer, name);
      const image = viewer.querySelector(`.pane.${side} img`);
      if (image.getAttribute("src") !== src) image.src = src;
      image.alt = titleOf(name) + marked;
      viewer.querySelector(`.pane.${side} figcaption`).textContent = titleOf(name) + marked;
    }
    cut.setAttribute("aria-valuetext", `${Math.round(cut.value)}% ${titleOf(chosen(viewer, "left"))}`);
  };

  const zoom = (viewer, factor, at) => {
    const now = state(viewer);
    const pane = viewer.querySelector(".pane").getBoundingClientRect();
    const { x, y } = at ?? { x: pane.width / 2, y: pane.height / 2 };
    const next = Math.min(16, Math.max(1, now.zoom * factor));
    now.x = x - ((x - now.x) * next) / now.zoom;
    now.y = y - ((y - now.y) * next) / now.zoom;
    now.zoom = next;
    move(viewer, 0, 0);
  };

  const move = (viewer, dx, dy) => {
    const now = state(viewer);
    const pane = viewer.querySelector(".pane").getBoundingClientRect();
    now.x = Math.min(0, Math.max(pane.width * (1 - now.zoom), now.x + dx));
    now.y = Math.min(0, Math.max(pane.height * (1 - now.zoom), now.y + dy));
    draw(viewer);
  };

  const place = (event) => {
    const pane = event.target.closest(".pane")?.getBoundingClientRect();
    return pane && { x: event.clientX - pane.x, y: event.clientY - pane.y, width: pane.width };
  };
  const viewerOf = (event) => event.target.closest?.(".viewer");

  // The marks of an image that was removed from the app cannot be drawn.
  document.addEventListener("error", (event) => {
    const box = viewerOf(event)?.querySelector("input[name=marks]:checked");
    if (box) { box.checked = false; draw(viewerOf(event)); }
  }, true);

  document.addEventListener("input", (event) => viewerOf(event) && draw(viewerOf(event)));
  document.addEventListener("click", (event) => {
    const viewer = viewerOf(event);
    const name = event.target.closest?.("button")?.name;
    if (!viewer || !name) return;
    if (name === "in") zoom(viewer, 1.5);
    if (name === "out") zoom(viewer, 1 / 1.5);
    if (name === "fit") zoom(viewer, 0);
    if (name === "flip") { state(viewer).back = !state(viewer).back; draw(viewer); }
  });
  document.addEventListener("dblclick", (event) => {
    const at = viewerOf(event) && place(event);
    if (at) zoom(viewerOf(event), state(viewerOf(event)).zoom > 1 ? 0 : 3, at);
  });
  // The wheel zooms, and scrolls the page where nothing is left to zoom out. Ctrl is a pinch on a trackpad.
  document.addEventListener("wheel", (event) => {
    const viewer = viewerOf(event), at = viewer && place(event);
    if (!at || (!event.ctrlKey && event.deltaY >= 0 && state(viewer).zoom === 1)) return;
    event.preventDefault();
    zoom(viewer, Math.exp(-event.deltaY / (event.ctrlKey ? 200 : 400)), at);
  }, { passive: false });
  document.addEventListener("keydown", (event) => {
    const factor = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[event.key];
    if (factor === undefined || !viewerOf(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    zoom(viewerOf(event), factor);
  });

  let dragged = null;
  document.addEventListener("pointerdown", (event) => {
    const viewer = event.button === 0 && viewerOf(event);
    if (viewer && event.target.closest(".pane")) dragged = viewer;
    if (dragged && event.pointerType === "mouse") event.preventDefault();
    drag(event);
  });
  const drag = (event) => {
    if (!dragged) return;
    const now = state(dragged);
    if (now.zoom > 1 && event.type === "pointermove") move(dragged, event.movementX, event.movementY);
    if (now.zoom === 1 && dragged.dataset.mode === "slider") {
      const pane = dragged.querySelector(".pane").getBoundingClientRect();
      dragged.querySelector("input[name=cut]").value = (100 * (event.clientX - pane.x)) / pane.width;
      draw(dragged);
    }
  };
  document.addEventListener("pointermove", drag);
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => { dragged = null; });

  new MutationObserver(() => {
    for (const viewer of document.querySelectorAll(".viewer")) if (!viewer.dataset.mode) draw(viewer);
  }).observe(document.body, { childList: true, subtree: true });
}
