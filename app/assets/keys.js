() => {
  // Ctrl+Enter (Command+Enter) compares from anywhere on the Score tab.
  document.addEventListener("keydown", (event) => {
    const button = document.querySelector("button#compare");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && button && button.offsetParent && !button.disabled) {
      event.preventDefault();
      button.click();
    }
  });

  // Votes by a key, unless text is being typed.
  const answers = { a: "vote-is-a", b: "vote-is-b", t: "vote-tie", x: "vote-bad", s: "vote-next" };
  document.addEventListener("keydown", (event) => {
    const button = document.getElementById(answers[event.key.toLowerCase()]);
    if (!button?.offsetParent || button.disabled || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, [contenteditable]")) return;
    event.preventDefault();
    button.click();
  });

  // Several images at once, and images from the clipboard, are sent to the app together.
  const zones = ["source", "candidate-a", "candidate-b", "candidate-c", "candidate-d",
    "reference-2", "reference-3", "reference-4"];
  const names = ["Source", "Candidate A", "Candidate B", "Candidate C", "Candidate D", "Image 2", "Image 3", "Image 4"];
  const zoneOf = (part) => zones.findIndex((id) => document.getElementById(id)?.contains(part));

  const give = (files, place) => {
    const input = document.querySelector("#dropped input[type=file]");
    if (!input) return;
    const transfer = new DataTransfer();
    for (const file of files) transfer.items.add(file);
    window.rhPlace = place;
    input.files = transfer.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };

  document.addEventListener("dragover", (event) => {
    if (event.target.closest?.("#pictures") && event.dataTransfer.types.includes("Files")) event.preventDefault();
  });

  document.addEventListener("drop", (event) => {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (!files.length || !event.target.closest?.("#pictures")) return;
    event.preventDefault();
    const place = zoneOf(event.target);
    if (files.length === 1 && place >= 0 && !document.querySelector(`#${zones[place]} img`)) return;
    event.stopPropagation();
    event.target.dispatchEvent(new DragEvent("dragleave", { bubbles: true }));
    give(files, place);
  }, true);

  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (!files.length || !document.querySelector("#pictures")?.offsetParent) return;
    event.preventDefault();
    give(files, zoneOf(document.activeElement));
  });

  // The buttons of all images have the same names, so each gets the name of its image as a prefix.
  const pictures = [...zones, "vote-source", "vote-a", "vote-b"];
  const titles = [...names, "Source", "Edit A", "Edit B"];
  const name = () => pictures.forEach((id, place) => {
    for (const button of document.querySelectorAll(`#${id} button`)) {
      const label = button.getAttribute("aria-label") || button.title || button.innerText.trim() || "image";
      if (!label.startsWith(titles[place])) button.setAttribute("aria-label", `${titles[place]}: ${label}`);
    }
  });
  let waiting = false;
  const soon = () => {
    if (!waiting) requestAnimationFrame(() => { waiting = false; name(); });
    waiting = true;
  };
  const watched = { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-label"] };
  new MutationObserver(soon).observe(document.body, watched);
  name();
}
