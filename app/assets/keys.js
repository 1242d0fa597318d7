() => {
  // Ctrl+Enter (Command+Enter) compares from anywhere on the Score tab.
  document.addEventListener("keydown", (event) => {
    const button = document.querySelector("button#compare");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && button && button.offsetParent && !button.disabled) {
      event.preventDefault();
      button.click();
    }
  });

  // Votes by a key, unless text is being typed. Enter goes on after a vote, unless it presses something else; pressed
  // before the result is there, it waits for it.
  const part = (id) => document.getElementById(id), question = () => part("vote-question")?.innerText;
  const answers = { t: "vote-tie", x: "vote-bad", s: "vote-next", u: "vote-undo", enter: "vote-next" };
  for (const letter of "abcd") answers[letter] = `vote-is-${letter}`;
  let voted = "", later = false;
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest?.("#vote-answers button");
    if (pressed) later = false;
    if (pressed) voted = /next|undo/.test(pressed.id) ? "" : question();
  });
  document.addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase(), button = part(answers[key]);
    if (!button?.offsetParent || button.disabled || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input:not([type=radio], [type=checkbox], [type=range]), textarea, [contenteditable]")) return;
    if (key === "enter" && event.target.closest?.("a, button:not(:disabled, [role=tab][aria-selected=true]), summary, input")) return;
    later = button.id === "vote-next" && voted === question() && !button.classList.contains("primary");
    if (later || (key === "enter" && part("vote-tie")?.disabled === false)) return;
    event.preventDefault();
    event.target.closest?.("#vote-answers button")?.blur(); // Enter would press the button that was clicked last
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
  const pictures = [...zones, "vote-source", "vote-a", "vote-b", "vote-c", "vote-d"];
  const titles = [...names, "Source", "Edit A", "Edit B", "Edit C", "Edit D"];
  const name = () => pictures.forEach((id, place) => {
    for (const button of document.querySelectorAll(`#${id} button`)) {
      const label = button.getAttribute("aria-label") || button.title || button.innerText.trim() || "image";
      if (!label.startsWith(titles[place])) button.setAttribute("aria-label", `${titles[place]}: ${label}`);
    }
  });
  // Panels do not say whether they are open, and their arrow would be read out.
  const panels = () => {
    for (const panel of document.querySelectorAll("button.label-wrap")) {
      panel.setAttribute("aria-expanded", panel.classList.contains("open"));
      panel.querySelector(".icon")?.setAttribute("aria-hidden", "true");
    }
    // What scrolls can be scrolled by keys.
    for (const part of document.querySelectorAll(".block, .rh pre, .rh table, .rh .scroll")) {
      const over = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
      if (over && /auto|scroll/.test(getComputedStyle(part).overflow)) part.tabIndex = 0;
    }
  };
  let waiting = false;
  const soon = () => {
    if (!waiting) requestAnimationFrame(() => {
      waiting = false;
      name();
      panels();
      if (later && part("vote-next")?.classList.contains("primary")) part("vote-next").click();
    });
    waiting = true;
  };
  const watched = { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-label", "class"] };
  new MutationObserver(soon).observe(document.body, watched);
  name();
}
