/* Draws a roofline: GFLOP/s over FLOP per byte, both logarithmic. One dot per node, sized by its
 * share of the time, below the roofs given by the devices' peaks. */
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

static bool is_shown(const work_row *row) {
  return row->flops > 0 && row->bytes > 0 && row->ns > 0;
}

static double place_x(const axes *axes, double x) {
  return LEFT + (log10(x) - axes->x0) / (axes->x1 - axes->x0) * (WIDTH - LEFT - RIGHT);
}
static double place_y(const axes *axes, double y) {
  return HEIGHT - BOTTOM - (log10(y) - axes->y0) / (axes->y1 - axes->y0) * (HEIGHT - TOP - BOTTOM);
}

static void include_point(axes *axes, double x, double y) {
  if (!(x > 0) || !(y > 0)) return;
  axes->x0 = fmin(axes->x0, log10(x));
  axes->x1 = fmax(axes->x1, log10(x));
  axes->y0 = fmin(axes->y0, log10(y));
  axes->y1 = fmax(axes->y1, log10(y));
}

static axes roofline_find_axes(const breakdown *breakdown) {
  axes a = {.x0 = 0, .x1 = 1, .y0 = 1, .y1 = 1};
  for (uint32_t i = 0; i < breakdown->n_rows; i++) {
    const work_row *row = &breakdown->rows[i];
    if (is_shown(row)) include_point(&a, row->flops / row->bytes, rate_of(row->flops, row->ns));
  }
  for (size_t i = 0; i < breakdown->n_peaks; i++) {
    const clave_peak *peak = &breakdown->peaks[i];
    if (peak->bytes_a_second > 0)
      include_point(&a, 2 * peak->flops_a_second / peak->bytes_a_second,
                    1.5e-9 * peak->flops_a_second);
  }
  a = (axes){floor(a.x0), ceil(a.x1), floor(a.y0), ceil(a.y1)};
  a.y0 = fmax(a.y0, a.y1 - 6); /* slower points are drawn at the edge */
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

static void roofline_draw_frame(const axes *axes, const char *title, page *out) {
  const double bottom = HEIGHT - BOTTOM, right = WIDTH - RIGHT;
  for (double p = axes->x0; p <= axes->x1; p++) {
    const double x = place_x(axes, pow(10, p));
    draw_line(out, "grid", x, TOP, x, bottom);
    draw_label(out, x, bottom + 18, "middle", p);
  }
  for (double p = axes->y0; p <= axes->y1; p++) {
    const double y = place_y(axes, pow(10, p));
    draw_line(out, "grid", LEFT, y, right, y);
    draw_label(out, LEFT - 8, y + 4, "end", p);
  }
  draw_text(out, LEFT, 28, "start", title);
  draw_text(out, (LEFT + right) / 2, HEIGHT - 14, "middle", "FLOP a byte");
  draw_text(out, LEFT, TOP - 10, "end", "GFLOP/s");
}

/* ---------------------------------------------------------------- roofs */

static void roofline_draw_peak(const axes *axes, const clave_peak *peak, page *out) {
  const double gflops = peak->flops_a_second * 1e-9, gbytes = peak->bytes_a_second * 1e-9;
  const double ridge = gbytes > 0 ? fmax(gflops / gbytes, pow(10, axes->x0)) : pow(10, axes->x0);
  const double y = place_y(axes, gflops), right = WIDTH - RIGHT;
  page label = {0};
  draw_line(out, "roof", place_x(axes, ridge), y, right, y);
  text_printf(&label, "%.0f GFLOP/s %s", gflops, clave_dtype_name(peak->dtype));
  draw_text(out, right - 4, y - 5, "end", label.data ? label.data : "");
  out->failed |= label.failed;
  text_free(&label);
}

/* Draws the bandwidth line from the left or bottom edge to the device's highest peak. */
static void draw_bandwidth(const axes *axes, const breakdown *breakdown, const clave_peak *of,
                           page *out) {
  const double gbytes = of->bytes_a_second * 1e-9;
  double most = of->flops_a_second;
  page label = {0};
  for (size_t i = 0; i < breakdown->n_peaks; i++)
    if (strcmp(breakdown->peaks[i].device, of->device) == 0)
      most = fmax(most, breakdown->peaks[i].flops_a_second);
  const double x1 = most * 1e-9 / gbytes, x0 = fmax(pow(10, axes->x0), pow(10, axes->y0) / gbytes);
  if (x1 <= x0) return;
  const double left = place_x(axes, x0), y = place_y(axes, x0 * gbytes);
  draw_line(out, "roof", left, y, place_x(axes, x1), place_y(axes, x1 * gbytes));
  text_printf(&label, "%.1f GB/s ", gbytes);
  page_visible(&label, of->device);
  const double across = place_x(axes, x1) - left, up = y - place_y(axes, x1 * gbytes);
  text_printf(out, "<g transform=\"translate(%.1f %.1f) rotate(%.1f)\">", left, y,
              -atan2(up, across) * 180 / M_PI);
  draw_text(out, 12, -6, "start", label.data ? label.data : "");
  text_puts(out, "</g>\n");
  out->failed |= label.failed;
  text_free(&label);
}

static void draw_roofs(const axes *axes, const breakdown *breakdown, page *out) {
  for (size_t i = 0; i < breakdown->n_peaks; i++) {
    const clave_peak *peak = &breakdown->peaks[i];
    if (peak->dtype == CLAVE_F32 && peak->bytes_a_second > 0 && peak->flops_a_second > 0)
      draw_bandwidth(axes, breakdown, peak, out);
    if (peak->flops_a_second > 0) roofline_draw_peak(axes, peak, out);
  }
}

/* ---------------------------------------------------------------- dots */

static void draw_dot(const axes *axes, const breakdown *breakdown, const work_row *row, page *out) {
  const double share = row->ns / breakdown->total, gflops = rate_of(row->flops, row->ns);
  const double x = fmax(place_x(axes, row->flops / row->bytes), LEFT),
               y = fmin(place_y(axes, gflops), HEIGHT - BOTTOM);
  text_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"><title>", x, y,
              2.5 + 30 * sqrt(share), colour_of_op(row->op));
  text_printf(out, "node %" PRIu32 ", ", row->node);
  page_markup(out, row->op);
  text_puts(out, ", ");
  page_markup(out, row->name);
  text_puts(out, "\n");
  page_markup(out, row->shapes);
  text_printf(out, "\n%.3f ms, %.1f %% of the run\n%.1f GFLOP/s, %.1f GB/s, %.2f FLOP a byte",
              row->ns * 1e-6, 100 * share, gflops, rate_of(row->bytes, row->ns),
              row->flops / row->bytes);
  if (row->limit > 0)
    text_printf(out, "\n%.0f %% of its limit: %s", percent_of_limit(row),
                is_compute_bound(row) ? "compute" : "memory");
  text_puts(out, "</title></circle>\n");
}

/* Lists the ops with the largest shares, and those not drawn. */
static void draw_legend(const breakdown *breakdown, const work_row *groups, uint32_t n, page *out) {
  enum { MOST = 18 };
  double hidden = breakdown->between, y = TOP + 12;
  page words = {0};
  for (uint32_t i = 0; i < breakdown->n_rows; i++)
    hidden += is_shown(&breakdown->rows[i]) ? 0 : breakdown->rows[i].ns;
  for (uint32_t i = 0; i < n && i < MOST; i++) {
    if (!is_shown(&groups[i])) continue;
    words.size = 0;
    text_printf(&words, "%s %.1f %%", groups[i].op, 100 * groups[i].ns / breakdown->total);
    text_printf(out, "<circle cx=\"%d\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", WIDTH - RIGHT + 22, y,
                colour_of_op(groups[i].op));
    draw_text(out, WIDTH - RIGHT + 34, y + 4, "start", words.data ? words.data : "");
    y += 18;
  }
  words.size = 0;
  text_printf(&words, "without FLOP %.1f %%", 100 * hidden / breakdown->total);
  draw_text(out, WIDTH - RIGHT + 34, y + 4, "start", words.data ? words.data : "");
  out->failed |= words.failed;
  text_free(&words);
}

static const char style[] =
    "<style>text{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
    "font-size:11px;fill:#1b2430}.grid{stroke:#e3e6ea}.roof{stroke:#2f3b4c;stroke-width:1.6}"
    "circle{fill-opacity:.55}circle:hover{fill-opacity:1}</style>\n"
    "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";

/* Explains points above the roof: FLOP are counted by an op's definition. */
static void explain_above(const breakdown *breakdown, page *out) {
  for (uint32_t i = 0; i < breakdown->n_rows; i++) {
    const work_row *row = &breakdown->rows[i];
    if (!is_shown(row) || strncmp(row->op, "conv", 4) != 0 || !(row->limit > 0)) continue;
    if (percent_of_limit(row) <= 100) continue;
    draw_text(out, LEFT, 44, "start",
              "Above the roof: convolutions by Winograd's method, counted as direct ones");
    return;
  }
}

int write_roofline(const breakdown *breakdown, const char *title, page *out) {
  const axes axes = roofline_find_axes(breakdown);
  uint32_t n;
  work_row *groups = group_by_op(breakdown, &n);
  if (!groups) return fail_memory();
  text_printf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\">\n%s",
              WIDTH, HEIGHT, WIDTH, HEIGHT, style);
  roofline_draw_frame(&axes, title, out);
  draw_roofs(&axes, breakdown, out);
  explain_above(breakdown, out);
  for (uint32_t i = 0; i < breakdown->n_rows; i++)
    if (is_shown(&breakdown->rows[i])) draw_dot(&axes, breakdown, &breakdown->rows[i], out);
  draw_legend(breakdown, groups, n, out);
  text_puts(out, "</svg>\n");
  free(groups);
  return out->failed ? fail_memory() : EXIT_GOOD;
}
