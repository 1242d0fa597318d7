() => {
  // Tables of results: see app/table/page.py. Clicks and selections go to the app through hidden fields.
  const fieldOf = (part, name) =>
    part.closest(".result-table")?.querySelector(`.table-${name} textarea, .table-${name} input`);
  const send = (field, value) => {
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new KeyboardEvent("keypress", { key: "Enter", bubbles: true }));
  };

  document.addEventListener("click", (event) => {
    const field = event.target.dataset?.open && fieldOf(event.target, "opened");
    if (field) send(field, event.target.dataset.open);
  });

  document.addEventListener("change", (event) => {
    const row = event.target.dataset?.row;
    const field = row && fieldOf(event.target, "selected");
    if (!field) return;
    const chosen = new Set(JSON.parse(field.value || "[]"));
    if (event.target.checked) chosen.add(Number(row)); else chosen.delete(Number(row));
    send(field, JSON.stringify([...chosen]));
    const count = event.target.closest(".rh").querySelector(".selected");
    count.textContent = `${chosen.size.toLocaleString()} row${chosen.size === 1 ? "" : "s"} selected.`;
  });

  // Steps through examples, of a table or of a list; arrow keys only on the buttons, as they also move sliders.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("textarea, [contenteditable]")) return;
    if (event.target.closest?.("input:not([type=checkbox], [type=radio], [type=range])")) return;
    const onStep = event.target.closest?.(".example-steps");
    const keys = { j: 1, k: -1, ...(onStep ? { ArrowRight: 1, ArrowLeft: -1 } : {}) };
    const by = keys[event.key];
    if (!by) return;
    const shown = (selector) => [...document.querySelectorAll(selector)].filter((part) => part.offsetParent);
    const [button] = shown(`button.example-${by > 0 ? "next" : "previous"}`);
    const listed = shown("#evolve-examples input, #evolve-queued input");
    const part = button ?? listed[listed.findIndex((input) => input.checked) + by];
    if (!part) return;
    event.preventDefault();
    part.click();
  });
}
