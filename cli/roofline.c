/* A roofline: GFLOP/s over FLOP a byte, both logarithmic. A dot for each node, as large as its
 * share of the time, under the roofs that the devices' peaks are. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/breakdown.h"
#include "cli/graph.h"
#include "cli/html.h"

enum { WIDTH = 960, HEIGHT = 600, LEFT = 76, RIGHT = 190, TOP = 58, BOTTOM = 56 };

/* Powers of ten at the edges. */
typedef struct axes {
  double x0, x1, y0, y1;
} axes;

static bool is_shown(const work_row *r) { return r->flops > 0 && r->bytes > 0 && r->ns > 0; }

static double place_x(const axes *a, double x) {
  return LEFT + (log10(x) - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}
static double place_y(const axes *a, double y) {
  return HEIGHT - BOTTOM - (log10(y) - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

static void include_point(axes *a, double x, double y) {
  if (!(x > 0) || !(y > 0)) return;
  a->x0 = fmin(a->x0, log10(x));
  a->x1 = fmax(a->x1, log10(x));
  a->y0 = fmin(a->y0, log10(y));
  a->y1 = fmax(a->y1, log10(y));
}

static axes find_axes(const breakdown *b) {
  axes a = {.x0 = 0, .x1 = 1, .y0 = 1, .y1 = 1};
  for (uint32_t i = 0; i < b->n_rows; i++) {
    const work_row *r = &b->rows[i];
    if (is_shown(r)) include_point(&a, r->flops / r->bytes, rate_of(r->flops, r->ns));
  }
  for (size_t i = 0; i < b->n_peaks; i++) {
    const clave_peak *p = &b->peaks[i];
    if (p->bytes_a_second > 0)
      include_point(&a, 2 * p->flops_a_second / p->bytes_a_second, 1.5e-9 * p->flops_a_second);
  }
  a = (axes){floor(a.x0), ceil(a.x1), floor(a.y0), ceil(a.y1)};
  a.y0 = fmax(a.y0, a.y1 - 6); /* what takes no time worth it lies on the edge */
  a.x0 = fmax(a.x0, a.x1 - 8);
  return a;
}

/* ---------------------------------------------------------------- the frame */

static void draw_text(page *out, double x, double y, const char *anchor, const char *words) {
  text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  page_markup(out, words);
  text_puts(out, "</text>\n");
}

static void draw_line(page *out, const char *style, double x0, double y0, double x1, double y1) {
  text_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", style,
              x0, y0, x1, y1);
}

static void draw_label(page *out, double x, double y, const char *anchor, double power) {
  text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.15g</text>\n", x, y, anchor,
              pow(10, power));
}

static void draw_frame(const axes *a, const char *title, page *out) {
  const double bottom = HEIGHT - BOTTOM, right = WIDTH - RIGHT;
  for (double p = a->x0; p <= a->x1; p++) {
    const double x = place_x(a, pow(10, p));
    draw_line(out, "grid", x, TOP, x, bottom);
    draw_label(out, x, bottom + 18, "middle", p);
  }
  for (double p = a->y0; p <= a->y1; p++) {
    const double y = place_y(a, pow(10, p));
    draw_line(out, "grid", LEFT, y, right, y);
    draw_label(out, LEFT - 8, y + 4, "end", p);
  }
  draw_text(out, LEFT, 28, "start", title);
  draw_text(out, (LEFT + right) / 2, HEIGHT - 14, "middle", "FLOP a byte");
  draw_text(out, LEFT, TOP - 10, "end", "GFLOP/s");
}

/* ---------------------------------------------------------------- roofs */

static void draw_peak(const axes *a, const clave_peak *p, page *out) {
  const double gflops = p->flops_a_second * 1e-9, gbytes = p->bytes_a_second * 1e-9;
  const double ridge = gbytes > 0 ? fmax(gflops / gbytes, pow(10, a->x0)) : pow(10, a->x0);
  const double y = place_y(a, gflops), right = WIDTH - RIGHT;
  page label = {0};
  draw_line(out, "roof", place_x(a, ridge), y, right, y);
  text_printf(&label, "%.0f GFLOP/s %s", gflops, clave_dtype_name(p->dtype));
  draw_text(out, right - 4, y - 5, "end", label.data ? label.data : "");
  out->failed |= label.failed;
  text_free(&label);
}

/* From the left, or the bottom, to the highest peak of the device. */
static void draw_bandwidth(const axes *a, const breakdown *b, const clave_peak *of, page *out) {
  const double gbytes = of->bytes_a_second * 1e-9;
  double most = of->flops_a_second;
  page label = {0};
  for (size_t i = 0; i < b->n_peaks; i++)
    if (strcmp(b->peaks[i].device, of->device) == 0) most = fmax(most, b->peaks[i].flops_a_second);
  const double x1 = most * 1e-9 / gbytes, x0 = fmax(pow(10, a->x0), pow(10, a->y0) / gbytes);
  if (x1 <= x0) return;
  const double left = place_x(a, x0), y = place_y(a, x0 * gbytes);
  draw_line(out, "roof", left, y, place_x(a, x1), place_y(a, x1 * gbytes));
  text_printf(&label, "%.1f GB/s ", gbytes);
  page_visible(&label, of->device);
  const double across = place_x(a, x1) - left, up = y - place_y(a, x1 * gbytes);
  text_printf(out, "<g transform=\"translate(%.1f %.1f) rotate(%.1f)\">", left, y,
              -atan2(up, across) * 180 / M_PI);
  draw_text(out, 12, -6, "start", label.data ? label.data : "");
  text_puts(out, "</g>\n");
  out->failed |= label.failed;
  text_free(&label);
}

static void draw_roofs(const axes *a, const breakdown *b, page *out) {
  for (size_t i = 0; i < b->n_peaks; i++) {
    const clave_peak *p = &b->peaks[i];
    if (p->dtype == CLAVE_F32 && p->bytes_a_second > 0 && p->flops_a_second > 0)
      draw_bandwidth(a, b, p, out);
    if (p->flops_a_second > 0) draw_peak(a, p, out);
  }
}

/* ---------------------------------------------------------------- dots */

static void draw_dot(const axes *a, const breakdown *b, const work_row *r, page *out) {
  const double share = r->ns / b->total, gflops = rate_of(r->flops, r->ns);
  const double x = fmax(place_x(a, r->flops / r->bytes), LEFT),
               y = fmin(place_y(a, gflops), HEIGHT - BOTTOM);
  text_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"><title>", x, y,
              2.5 + 30 * sqrt(share), colour_of_op(r->op));
  text_printf(out, "node %" PRIu32 ", ", r->node);
  page_markup(out, r->op);
  text_puts(out, ", ");
  page_markup(out, r->name);
  text_puts(out, "\n");
  page_markup(out, r->shapes);
  text_printf(out, "\n%.3f ms, %.1f %% of the run\n%.1f GFLOP/s, %.1f GB/s, %.2f FLOP a byte",
              r->ns * 1e-6, 100 * share, gflops, rate_of(r->bytes, r->ns), r->flops / r->bytes);
  if (r->limit > 0)
    text_printf(out, "\n%.0f %% of its limit: %s", percent_of_limit(r),
                is_compute_bound(r) ? "compute" : "memory");
  text_puts(out, "</title></circle>\n");
}

/* The ops with the largest shares, and what is not drawn. */
static void draw_legend(const breakdown *b, const work_row *groups, uint32_t n, page *out) {
  enum { MOST = 18 };
  double hidden = b->between, y = TOP + 12;
  page words = {0};
  for (uint32_t i = 0; i < b->n_rows; i++) hidden += is_shown(&b->rows[i]) ? 0 : b->rows[i].ns;
  for (uint32_t i = 0; i < n && i < MOST; i++) {
    if (!is_shown(&groups[i])) continue;
    words.size = 0;
    text_printf(&words, "%s %.1f %%", groups[i].op, 100 * groups[i].ns / b->total);
    text_printf(out, "<circle cx=\"%d\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", WIDTH - RIGHT + 22, y,
                colour_of_op(groups[i].op));
    draw_text(out, WIDTH - RIGHT + 34, y + 4, "start", words.data ? words.data : "");
    y += 18;
  }
  words.size = 0;
  text_printf(&words, "without FLOP %.1f %%", 100 * hidden / b->total);
  draw_text(out, WIDTH - RIGHT + 34, y + 4, "start", words.data ? words.data : "");
  out->failed |= words.failed;
  text_free(&words);
}

static const char style[] =
    "<style>text{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
    "font-size:11px;fill:#1b2430}.grid{stroke:#e3e6ea}.roof{stroke:#2f3b4c;stroke-width:1.6}"
    "circle{fill-opacity:.55}circle:hover{fill-opacity:1}</style>\n"
    "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";

/* Explains dots above the roof: FLOP are counted by the definition of an op. */
static void explain_above(const breakdown *b, page *out) {
  for (uint32_t i = 0; i < b->n_rows; i++) {
    const work_row *r = &b->rows[i];
    if (!is_shown(r) || strncmp(r->op, "conv", 4) != 0 || !(r->limit > 0)) continue;
    if (percent_of_limit(r) <= 100) continue;
    draw_text(out, LEFT, 44, "start",
              "Above the roof: convolutions by Winograd's method, counted as direct ones");
    return;
  }
}

int write_roofline(const breakdown *b, const char *title, page *out) {
  const axes a = find_axes(b);
  uint32_t n;
  work_row *groups = group_by_op(b, &n);
  if (!groups) return fail_memory();
  text_printf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\">\n%s",
              WIDTH, HEIGHT, WIDTH, HEIGHT, style);
  draw_frame(&a, title, out);
  draw_roofs(&a, b, out);
  explain_above(b, out);
  for (uint32_t i = 0; i < b->n_rows; i++)
    if (is_shown(&b->rows[i])) draw_dot(&a, b, &b->rows[i], out);
  draw_legend(b, groups, n, out);
  text_puts(out, "</svg>\n");
  free(groups);
  return out->failed ? fail_memory() : EXIT_GOOD;
}
