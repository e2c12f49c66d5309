/* Writes the frame of an HTML page, its style, its script, and escaped text. */
#include "cli/html.h"

#include <string.h>

#include "base/utf8.h"

void page_markup(page *page, const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    size_t size = utf8_sequence((const char *)p, 4); /* stops at NUL */
    if (!size || *p < 0x20 || *p == 0x7f) {
      text_puts(page, "?");
    } else if (strchr("&<>\"'", *p)) {
      text_printf(page, "&#%d;", *p);
    } else {
      text_append(page, (const char *)p, size);
    }
    p += size ? size : 1;
  }
}

static const char page_style[] =
    "<style>body{font-family:system-ui,sans-serif;margin:24px;color:#1b2430}"
    ".graph{overflow:auto;max-height:80vh;border:1px solid #ccd2da}table{border-collapse:collapse;"
    "margin-top:12px;font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:12px}td,th{"
    "padding:2px 10px;border-bottom:1px solid #ffffff;text-align:left}span{padding:2px 8px}"
    ".tools{display:flex;gap:8px;align-items:center;margin:8px 0}.folded>svg+svg,"
    ".unfolded>svg:first-child{display:none}.box.found rect{stroke:#d6006c;stroke-width:4}"
    "tr[data-node]{cursor:pointer}tr[data-node]:hover{outline:1px solid #8a919c}"
    "</style>\n";

/* Script for each graph: searches the hover texts of boxes, zooms, and switches between the folded
 * and the full drawing. A click on a table row scrolls to the node's box. */
static const char page_script[] =
    "<script>\n"
    "for (const frame of document.querySelectorAll('.graph')) {\n"
    "  const tools = frame.previousElementSibling;\n"
    "  const part = name => tools.querySelector('.' + name);\n"
    "  const drawings = [...frame.querySelectorAll('svg')];\n"
    "  const shown = () => drawings[frame.classList.contains('unfolded') ? 1 : 0];\n"
    "  const sizes = drawings.map(d => [d.width.baseVal.value, d.height.baseVal.value]);\n"
    "  let scale = 1, hits = [], at = -1;\n"
    "  const zoom = factor => {\n"
    "    scale = Math.min(8, Math.max(0.05, factor));\n"
    "    drawings.forEach((d, i) => {\n"
    "      d.setAttribute('width', sizes[i][0] * scale);\n"
    "      d.setAttribute('height', sizes[i][1] * scale);\n"
    "    });\n"
    "    part('percent').textContent = Math.round(100 * scale) + ' %';\n"
    "  };\n"
    "  const go = box => box && box.scrollIntoView({block: 'center', inline: 'center'});\n"
    "  const find = () => {\n"
    "    const words = part('find').value.toLowerCase();\n"
    "    const boxes = [...shown().querySelectorAll('.box')];\n"
    "    const holds = box => box.textContent.toLowerCase().includes(words);\n"
    "    hits = words ? boxes.filter(holds) : [];\n"
    "    boxes.forEach(box => box.classList.toggle('found', hits.includes(box)));\n"
    "    at = -1;\n"
    "    part('hits').textContent = words ? hits.length + ' found' : '';\n"
    "  };\n"
    "  const next = step => {\n"
    "    if (!hits.length) return;\n"
    "    at = (at + step + hits.length) % hits.length;\n"
    "    part('hits').textContent = at + 1 + ' of ' + hits.length;\n"
    "    go(hits[at]);\n"
    "  };\n"
    "  const unfold = whole => {\n"
    "    if (drawings.length < 2) return;\n"
    "    frame.classList.toggle('unfolded', whole);\n"
    "    frame.classList.toggle('folded', !whole);\n"
    "    part('fold').textContent = whole ? 'fold repeated blocks' : 'show all blocks';\n"
    "    find();\n"
    "  };\n"
    "  part('find').oninput = find;\n"
    "  part('find').onkeydown = e => { if (e.key === 'Enter') next(e.shiftKey ? -1 : 1); };\n"
    "  part('out').onclick = () => zoom(scale / 1.25);\n"
    "  part('in').onclick = () => zoom(scale * 1.25);\n"
    "  part('percent').onclick = () => zoom(1);\n"
    "  part('fit').onclick = () => zoom((frame.clientWidth - 2) / "
    "sizes[drawings.indexOf(shown())][0]);\n"
    "  if (part('fold')) part('fold').onclick = () => "
    "unfold(!frame.classList.contains('unfolded'));\n"
    "  frame.addEventListener('wheel', e => {\n"
    "    if (!e.ctrlKey) return;\n"
    "    e.preventDefault();\n"
    "    zoom(scale * (e.deltaY < 0 ? 1.1 : 1 / 1.1));\n"
    "  }, {passive: false});\n"
    "  for (const row of document.querySelectorAll('tr[data-node]')) {\n"
    "    row.addEventListener('click', () => {\n"
    "      const which = '.box[data-node=\"' + row.dataset.node + '\"]';\n"
    "      if (!shown().querySelector(which)) unfold(true);\n"
    "      go(shown().querySelector(which));\n"
    "    });\n"
    "  }\n"
    "}\n"
    "</script>\n";

void begin_graph(page *out, bool has_folds) {
  text_puts(
      out,
      "<div class=\"tools\"><input class=\"find\" type=\"search\" placeholder=\"search nodes, "
      "Enter: next\" size=\"32\"><span class=\"hits\"></span><button class=\"out\">&#8722;"
      "</button><button class=\"percent\">100 %</button><button class=\"in\">+</button>"
      "<button class=\"fit\">fit width</button>");
  if (has_folds) text_puts(out, "<button class=\"fold\">show all blocks</button>");
  text_printf(out, "</div>\n<div class=\"graph%s\">\n", has_folds ? " folded" : "");
}

void end_graph(page *out) { text_puts(out, "</div>\n"); }

void begin_html(page *out, const char *title) {
  text_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
  page_markup(out, title);
  text_printf(out, "</title>\n%s</head><body>\n<h1>", page_style);
  page_markup(out, title);
  text_puts(out, "</h1>\n");
}

void end_html(page *out) { text_printf(out, "%s</body></html>\n", page_script); }
