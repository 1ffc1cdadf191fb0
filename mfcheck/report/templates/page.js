"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const table = get("table"), body = table.tBodies[0];
  const search = get("search"), verdict = get("verdict"), family = get("family"), shown = get("shown");
  const rows = [...body.rows];
  // what can be searched of a claim: its row and all of its article
  const texts = new Map(rows.map((row) => {
    const article = get("claim-" + row.dataset.claim);
    return [row, (row.textContent + " " + article.textContent).toLowerCase()];
  }));

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const families = new Set();
    let count = 0;
    for (const row of rows) {
      const claim = row.dataset.claim;
      const keep = (!verdict.value || row.dataset.verdict === verdict.value)
        && (!family.value || claim[0] === family.value)
        && words.every((word) => texts.get(row).includes(word));
      row.hidden = !keep;
      get("claim-" + claim).hidden = !keep;
      if (keep) { count += 1; families.add(claim[0]); }
    }
    for (const heading of document.querySelectorAll("[data-family]")) {
      heading.hidden = !families.has(heading.dataset.family);
    }
    shown.textContent = count + " shown";
  }
  for (const input of [search, verdict, family]) input.addEventListener("input", filter);

  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = heading.querySelector("button");
    button.addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const value = (row) => {
        const cell = row.cells[column];
        return button.dataset.kind === "text" ? cell.textContent : Number(cell.dataset.value);
      };
      const order = (a, b) => {
        const x = value(a), y = value(b);
        return typeof x === "string" ? x.localeCompare(y) : x - y;
      };
      body.append(...rows.slice().sort((a, b) => (falling ? -1 : 1) * order(a, b)));
    });
  });

  // the gallery shows each figure again, which the file holds once
  for (const image of document.querySelectorAll("img[data-of]")) {
    const figure = get(image.dataset.of);
    if (figure) image.src = figure.querySelector("img").src;
  }

  // a link to a claim, or to a figure in it, that the filter hides shows it
  addEventListener("hashchange", () => {
    const target = location.hash && get(location.hash.slice(1));
    const article = target && target.closest("article");
    if (article && article.hidden) { search.value = verdict.value = family.value = ""; filter(); target.scrollIntoView(); }
  });
})();
