// Filters long tables. Pages work without this script.
"use strict";

/** Returns what a filter shows or hides: rows of tables, and names in lists of names. */
function entriesOf(part) {
  const rows = [...part.querySelectorAll("tbody tr")];
  const names = [...part.querySelectorAll(".names code")];
  return [...rows, ...names].map((element) => ({ element, text: element.textContent.toLowerCase() }));
}

/** Shows the entries that contain all words, and opens the sections that contain such entries. */
function apply(part, entries, text, status) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { element, text } of entries) {
    const isShown = words.every((word) => text.includes(word));
    element.hidden = !isShown;
    shown += isShown ? 1 : 0;
  }
  // Without commas, the names that remain are chips.
  part.classList.toggle("is-filtered", words.length > 0);
  for (const section of part.querySelectorAll("details, .md-typeset__scrollwrap, .md-typeset__table, table, h2")) {
    const scope = section.tagName === "H2" ? section.nextElementSibling : section;
    const own = scope ? [...scope.querySelectorAll("tbody tr, .names code")] : [];
    const hasEntries = own.some((entry) => !entry.hidden);
    section.hidden = words.length > 0 && own.length > 0 && !hasEntries;
    if (section.tagName === "DETAILS") section.open = words.length > 0 && hasEntries;
  }
  status.textContent = words.length ? `${shown} of ${entries.length}` : "";
}

for (const part of document.querySelectorAll(".filterable")) {
  const entries = entriesOf(part);
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = `Filter ${part.dataset.what}`;
  field.setAttribute("aria-label", field.placeholder);
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  const bar = document.createElement("div");
  bar.className = "filter";
  bar.append(field, status);
  part.prepend(bar);
  field.addEventListener("input", () => apply(part, entries, field.value, status));
  // The page's own shortcuts do not apply while someone types.
  field.addEventListener("keydown", (event) => event.stopPropagation());
  apply(part, entries, "", status);
}
