/* The frame of a page, its style, and text within it. */
#include "cli/html.h"

#include <string.h>

#include "base/utf8.h"

void page_markup(page *t, const char *s) {
  for (const unsigned char *p = (const unsigned char *)s; *p;) {
    size_t size = utf8_sequence((const char *)p, 4); /* ends at NUL */
    if (!size || *p < 0x20 || *p == 0x7f) {
      text_puts(t, "?");
    } else if (strchr("&<>\"'", *p)) {
      text_printf(t, "&#%d;", *p);
    } else {
      text_append(t, (const char *)p, size);
    }
    p += size ? size : 1;
  }
}

static const char page_style[] =
    "<style>body{font-family:system-ui,sans-serif;margin:24px;color:#1b2430}"
    ".graph{overflow:auto;max-height:80vh;border:1px solid #ccd2da}table{border-collapse:collapse;"
    "margin-top:12px;font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:12px}td,th{"
    "padding:2px 10px;border-bottom:1px solid #ffffff;text-align:left}span{padding:2px 8px}"
    "</style>\n";

void begin_html(page *out, const char *title) {
  text_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
  page_markup(out, title);
  text_printf(out, "</title>\n%s</head><body>\n<h1>", page_style);
  page_markup(out, title);
  text_puts(out, "</h1>\n");
}

void end_html(page *out) { text_puts(out, "</body></html>\n"); }
