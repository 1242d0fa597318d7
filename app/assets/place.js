() => {
  // The address names the place: the tab, and what it shows. Opening an address, a reload and Back lead there. The
  // server reads the address when the page opens; it checks what is named there, as anybody can write an address.
  const OWNERS = { run: "evolve", benchmark: "benchmark", batch: "batch", before: "library", comparison: "score",
    library: "*", example: "" }; // the tab of each parameter: * for all, nothing for the one that is open
  const SLOW = ["run", "benchmark", "batch", "before"]; // the tab opens once they are there, so that nothing shifts
  const ASKED = ["library", "before"]; // may name a Library on the Hub, which is not loaded unasked

  const params = () => new URLSearchParams(location.search);
  const read = () => {
    const named = params();
    const values = [...named].filter(([name, value]) => name in OWNERS && value);
    const owners = values.map(([name]) => OWNERS[name]).filter((tab) => tab && tab !== "*");
    const tab = named.get("tab") || owners[0] || "score";
    const of = (...tabs) => Object.fromEntries(values.filter(([name]) => tabs.includes(OWNERS[name])));
    return [tab, of("", tab), of("*")];
  };
  let [shown, values, everywhere] = read();
  let arriving = shown;
  const places = { [shown]: values, "*": everywhere };

  const title = (button) => button.textContent.trim().toLowerCase();
  const tabs = () => [...document.querySelectorAll("#tabs > .tab-wrapper button:not([tabindex])")];
  const select = (tab) => tabs().find((button) => title(button) === tab)?.click(); // also one in the menu of a small screen

  const write = (way) => {
    const url = new URL(location.href);
    for (const name of ["tab", ...Object.keys(OWNERS)]) url.searchParams.delete(name);
    if (shown !== "score") url.searchParams.set("tab", shown);
    for (const [name, value] of Object.entries({ ...places["*"], ...places[shown] })) if (value) url.searchParams.set(name, value);
    if (url.href === location.href) return;
    history[way](null, "", url);
    // The page around a Space shows the address of the Space, and has to be told.
    if (parent !== window) parent.postMessage({ queryString: url.searchParams.toString() }, "https://huggingface.co");
  };

  addEventListener("popstate", () => {
    const [tab, values, everywhere] = read();
    const same = Object.entries(values).every(([name, value]) => places[tab]?.[name] === value);
    if (!same || (everywhere.library ?? "") !== (places["*"].library ?? "")) return location.reload();
    shown = tab;
    select(tab);
  });

  const loaded = () => JSON.parse(sessionStorage.getItem("rh-loaded") ?? "[]");
  const agree = (...names) => sessionStorage.setItem("rh-loaded", JSON.stringify([...loaded(), ...names].slice(-20)));
  const named = () => ASKED.map((name) => params().get(name)).filter(Boolean);
  document.addEventListener("click", (event) => event.target.closest?.("#place-load") && agree(...named()));
  // Gradio's login keeps only the first parameter of the address; the whole address has to come back.
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[id$=login]");
    if (!button?.textContent.includes("Log in")) return;
    event.stopImmediatePropagation();
    location.assign(`/login/huggingface?_target_url=${encodeURIComponent(`/${location.search}`)}`);
  }, true);

  window.rhPlace = {
    // The page has opened: says whether the visitor has asked for the Libraries of the address, by a click on this page
    // earlier, or on a link of this app.
    arrive: () => {
      if (!tabs().some((tab) => title(tab) === shown)) shown = arriving = "score";
      if (!SLOW.some((name) => values[name])) select(arriving);
      const own = document.referrer.startsWith(`${location.origin}/`);
      return own || named().every((name) => loaded().includes(name));
    },
    // What a tab shows on arrival is there.
    open: (tab) => tab === arriving && select(tab),
    // The rows of a table are there: the one that the address names is opened, once.
    example: (name) => {
      const field = document.querySelector(`#${name}-opened :is(textarea, input)`), row = values.example;
      if (!row || !field || shown !== name) return;
      values = {};
      field.value = row;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.dispatchEvent(new KeyboardEvent("keypress", { key: "Enter", bubbles: true }));
    },
    // Another tab is open.
    changed: () => setTimeout(() => {
      const tab = tabs().find((button) => button.getAttribute("aria-selected") === "true");
      if (!tab || title(tab) === shown && !arriving) return;
      shown = title(tab);
      write(shown === arriving ? "replaceState" : "pushState");
      arriving = null;
    }),
    // The tab shows something else: a parameter and its value, empty for none.
    put: (name, value) => {
      const tab = OWNERS[name] || shown, before = places[tab]?.[name];
      if ((before ?? "") === (value ?? "")) return;
      places[tab] = { ...places[tab], [name]: value };
      if (name !== "example") delete places[tab].example;
      if (ASKED.includes(name) && value) agree(value);
      if (tab === shown || tab === "*") write(before && value ? "pushState" : "replaceState");
    },
  };
}
