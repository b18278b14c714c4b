for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.onclick = () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    const key = row => row.cells[at].textContent;
    const number = text => parseFloat(text.replace(/^[+]/, ""));
    const compare = (a, b) => {
      const [x, y] = [number(a), number(b)];
      return isNaN(x) && isNaN(y) ? a.localeCompare(b) : isNaN(x) ? 1 : isNaN(y) ? -1 : x - y;
    };
    const rows = [...body.rows].map(row => [key(row), row]);
    rows.sort((a, b) => up ? compare(a[0], b[0]) : compare(b[0], a[0]));
    body.append(...rows.map(([, row]) => row));
  };
}
