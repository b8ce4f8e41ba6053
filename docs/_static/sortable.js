// Sort a table by the column whose title is selected, and filter its lines by a text.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const value = (row, column) => {
    const cell = row.cells[column], text = cell.dataset.value ?? cell.textContent;
    return cell.classList.contains("number") ? (text === "" ? null : Number(text)) : text;
  };
  [...table.tHead.rows[0].cells].forEach((title, column) => {
    title.querySelector("button").addEventListener("click", () => {
      const numbers = rows[0].cells[column].classList.contains("number");
      const order = title.ariaSort === (numbers ? "descending" : "ascending") ? !numbers : numbers;
      for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
      title.ariaSort = order ? "descending" : "ascending";
      rows.sort((one, other) => {
        const [a, b] = [value(one, column), value(other, column)];
        if (a === b) return 0;
        if (a === null || a === "") return 1;  // empty cells stay last
        if (b === null || b === "") return -1;
        return (a < b ? -1 : 1) * (order ? -1 : 1);
      });
      body.append(...rows);
    });
  });
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "Filter, for instance ViT_B16 384";
  filter.ariaLabel = "Filter the table";
  filter.className = "filter";
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  const frame = document.createElement("div");
  frame.className = "sortable-frame";
  table.before(filter, frame);
  frame.append(table);
}
