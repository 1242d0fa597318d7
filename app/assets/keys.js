() => {
  // Ctrl+Enter (Command+Enter) compares from anywhere on the Score tab.
  document.addEventListener("keydown", (event) => {
    const button = document.querySelector("button#compare");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && button && button.offsetParent && !button.disabled) {
      event.preventDefault();
      button.click();
    }
  });
}
