// Boxes that scroll can be reached and scrolled by the keyboard alone.
addEventListener("load", () => {
  for (const box of document.querySelectorAll("pre, .math, .table-wrapper, .output_area")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});
