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
    ".graph g.hit rect{stroke:#d1242f;stroke-width:4}"
    "</style>\n";

void begin_html(page *out, const char *title) {
  text_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
  page_markup(out, title);
  text_printf(out, "</title>\n%s</head><body>\n<h1>", page_style);
  page_markup(out, title);
  text_puts(out, "</h1>\n");
}

void begin_graph(page *out) {
  text_puts(out,
            "<p><input type=\"search\" placeholder=\"find a node\"> <button>-</button> "
            "<button>+</button> <button>1:1</button> <span></span></p>\n<div class=\"graph\">\n");
}

/* Finds nodes by what they show, Enter goes to the next; zooms by buttons, or by Ctrl and wheel. */
static const char page_script[] =
    "<script>document.querySelectorAll('.graph').forEach(box=>{"
    "const svg=box.querySelector('svg'),bar=box.previousElementSibling;"
    "const field=bar&&bar.querySelector('input');if(!svg||!field)return;"
    "const [less,more,whole]=bar.querySelectorAll('button'),said=bar.querySelector('span');"
    "const wide=svg.width.baseVal.value,high=svg.height.baseVal.value;let zoom=1,hits=[],at=-1;"
    "const show=(to,x,y)=>{to=Math.min(8,Math.max(.05,to));const by=to/zoom;zoom=to;"
    "const left=(box.scrollLeft+x)*by-x,top=(box.scrollTop+y)*by-y;"
    "svg.setAttribute('width',wide*to);svg.setAttribute('height',high*to);"
    "box.scrollLeft=left;box.scrollTop=top};"
    "const middle=to=>show(to,box.clientWidth/2,box.clientHeight/2);"
    "less.onclick=()=>middle(zoom/1.25);more.onclick=()=>middle(zoom*1.25);"
    "whole.onclick=()=>middle(1);"
    "box.addEventListener('wheel',e=>{if(!e.ctrlKey)return;e.preventDefault();"
    "const r=box.getBoundingClientRect();"
    "show(zoom*(e.deltaY<0?1.2:1/1.2),e.clientX-r.left,e.clientY-r.top)},{passive:false});"
    "const go=()=>{if(!hits.length)return;at=(at+1)%hits.length;"
    "hits[at].scrollIntoView({block:'center',inline:'center'});"
    "said.textContent=at+1+' of '+hits.length};"
    "field.oninput=()=>{const text=field.value.toLowerCase();at=-1;"
    "hits.forEach(g=>g.classList.remove('hit'));"
    "hits=text?[...svg.querySelectorAll('g')].filter(g=>g.textContent.toLowerCase()."
    "includes(text)):[];hits.forEach(g=>g.classList.add('hit'));"
    "said.textContent=text&&!hits.length?'none':'';go()};"
    "field.onkeydown=e=>{if(e.key=='Enter')go()}})</script>\n";

void end_html(page *out) {
  text_puts(out, page_script);
  text_puts(out, "</body></html>\n");
}
