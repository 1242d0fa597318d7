() => {
  // The page of a kept link: its address and the code that embeds it, to copy. See app/score/links.py.
  const title = document.title.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const code = document.querySelector("textarea");
  code.value = `<iframe src="${location.href}" title="${title}" width="100%" height="900" loading="lazy"></iframe>`;
  code.addEventListener("focus", () => code.select());
  document.getElementById("copy").addEventListener("click", async (event) => {
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    event.target.textContent = copied ? "Copied" : "Copy it from the address bar";
  });
  document.body.append(""); // the viewer draws what was added
}
