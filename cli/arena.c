/* Draws the planned memory of a run: byte offset against command. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_debug.h"
#include "cli/html.h"
#include "cli/picture.h"

static const double wide = 1080, high = 360, left = 90, top = 26, bottom = 30;

typedef struct arena {
  const char *device;
  uint32_t chunk;
  clave_block_info *blocks; /* owned; blocks of all arenas */
  uint32_t n_blocks, n_commands;
  uint64_t bytes; /* bytes of the drawn arena */
} arena;

static const struct {
  clave_slot_kind kind;
  const char *fill, *name;
} kinds[] = {{CLAVE_SLOT_INPUT, "#6d8fc7", "inputs"},
             {CLAVE_SLOT_OUTPUT, "#5fae6e", "outputs"},
             {CLAVE_SLOT_TEMPORARY, "#f0c267", "temporaries"},
             {CLAVE_SLOT_STATE, "#b48ad0", "state"},
             {CLAVE_SLOT_CONSTANT, "#a9b2be", "constants"}};

static bool is_here(const arena *arena, const clave_block_info *info) {
  return info->chunk == arena->chunk && strcmp(info->device, arena->device) == 0;
}

/* Returns the command at which the most bytes are alive. *bytes receives their number. */
static uint32_t cli_arena_find_peak(const arena *arena, uint64_t *bytes) {
  uint32_t peak = 0;
  *bytes = 0;
  for (uint32_t c = 0; c < arena->n_commands; c++) {
    uint64_t alive = 0;
    for (uint32_t i = 0; i < arena->n_blocks; i++) {
      const clave_block_info *info = &arena->blocks[i];
      if (is_here(arena, info) && info->first <= c && c <= info->last) alive += info->bytes;
    }
    if (alive <= *bytes) continue;
    *bytes = alive;
    peak = c;
  }
  return peak;
}

static double x_of(const arena *arena, uint32_t at) {
  return left + wide * at / (arena->n_commands ? arena->n_commands : 1);
}

static double y_of(const arena *arena, uint64_t offset) {
  return top + high * (1 - (double)offset / (double)(arena->bytes ? arena->bytes : 1));
}

/* Writes the name, cut to the block's width, if the block is wide and high enough. */
static void label_block(const clave_block_info *info, double x, double y, double width,
                        double height, page *out) {
  char label[64];
  const size_t max_characters = width < 6.8 * sizeof label ? (size_t)(width / 6.8) : sizeof label;
  if (max_characters < 6 || height < 14) return;
  (void)snprintf(label, max_characters, "%s", *info->name ? info->name : "a copy");
  text_printf(out, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">", x + width / 2,
              y + height / 2 + 4);
  page_markup(out, label);
  text_puts(out, "</text>\n");
}

static void draw_block(const arena *arena, const graph *graph, const clave_block_info *info,
                       page *out) {
  const char *fill = "#cccccc";
  for (size_t i = 0; i < LENGTH(kinds); i++)
    if (kinds[i].kind == info->kind && *info->name) fill = kinds[i].fill;
  const double x = x_of(arena, info->first), y = y_of(arena, info->offset + info->bytes);
  const double width = x_of(arena, info->last + 1) - x, height = y_of(arena, info->offset) - y;
  text_printf(out,
              "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
              "stroke=\"#ffffff\" stroke-width=\"0.6\"><title>",
              x, y, width, height, fill);
  page_markup(out, *info->name ? info->name : "a copy");
  text_puts(out, ", ");
  page_size(out, info->bytes);
  text_printf(out, " at %" PRIu64 ", commands %" PRIu32 " to %" PRIu32 ", from ", info->offset,
              info->first, info->last);
  page_markup(out, info->node < graph->n_nodes ? graph->nodes[info->node].name : "the start");
  text_puts(out, "</title></rect>\n");
  label_block(info, x, y, width, height, out);
}

static void cli_arena_draw_peak(const arena *arena, page *out) {
  uint64_t bytes;
  const uint32_t at = cli_arena_find_peak(arena, &bytes);
  const double x = x_of(arena, at) + wide / (2.0 * (arena->n_commands ? arena->n_commands : 1));
  text_printf(out,
              "<path d=\"M%.2f %.2f V%.2f\" stroke=\"#c0392b\" stroke-width=\"1.5\" "
              "stroke-dasharray=\"4 3\"/>\n<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" "
              "fill=\"#c0392b\">peak ",
              x, top, top + high, x, top - 8, x > wide / 2 ? "end" : "start");
  page_size(out, bytes);
  text_printf(out, " at command %" PRIu32 "</text>\n", at);
}

static void cli_arena_draw_frame(const arena *arena, page *out) {
  text_printf(out,
              "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"#f6f7f9\"/>\n"
              "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">0</text>"
              "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">",
              left, top, wide, high, left - 6, top + high, left - 6, top + 10);
  page_size(out, arena->bytes);
  text_printf(out, "</text>\n<text x=\"%.0f\" y=\"%.0f\">command 0</text>", left, top + high + 18);
  text_printf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%" PRIu32 "</text>\n",
              left + wide, top + high + 18, arena->n_commands);
}

static void draw_arena(const arena *arena, const graph *graph, page *out) {
  text_printf(out, "<h3>%s, %" PRIu32 " commands, arena", arena->device, arena->n_commands);
  if (arena->chunk) text_printf(out, " part %" PRIu32, arena->chunk + 1);
  text_printf(out,
              "</h3>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
              "font-family=\"monospace\" font-size=\"11\">\n",
              left + wide + 20, top + high + bottom);
  cli_arena_draw_frame(arena, out);
  for (uint32_t i = 0; i < arena->n_blocks; i++)
    if (is_here(arena, &arena->blocks[i])) draw_block(arena, graph, &arena->blocks[i], out);
  cli_arena_draw_peak(arena, out);
  text_puts(out, "</svg>\n");
}

/* True if block i is the first of its arena. */
static bool begins_arena(const arena *shown, uint32_t i) {
  const arena own = {.device = shown->blocks[i].device, .chunk = shown->blocks[i].chunk};
  for (uint32_t k = 0; k < i; k++)
    if (is_here(&own, &shown->blocks[k])) return false;
  return true;
}

static int read_blocks(const model *model, arena *arena) {
  TRY_STATUS(clave_session_count_blocks(model->session, model->method.name, &arena->n_blocks,
                                        &arena->n_commands));
  arena->blocks = calloc((size_t)arena->n_blocks + 1, sizeof *arena->blocks);
  if (!arena->blocks) return fail_memory();
  for (uint32_t i = 0; i < arena->n_blocks; i++) {
    arena->blocks[i].size = sizeof arena->blocks[i];
    TRY_STATUS(clave_session_block(model->session, model->method.name, i, &arena->blocks[i]));
  }
  return EXIT_GOOD;
}

static void write_legend(page *out) {
  text_puts(out, "<p>");
  for (size_t i = 0; i < LENGTH(kinds); i++)
    text_printf(out, "<span style=\"background:%s\">%s</span> ", kinds[i].fill, kinds[i].name);
  text_puts(out, "<span style=\"background:#cccccc\">copies</span></p>\n");
}

int write_arena(const model *model, const graph *graph, page *out) {
  arena arena = {0};
  int result = read_blocks(model, &arena);
  if (!result) write_legend(out);
  for (uint32_t i = 0; !result && i < arena.n_blocks; i++) {
    if (!begins_arena(&arena, i)) continue;
    arena.device = arena.blocks[i].device;
    arena.chunk = arena.blocks[i].chunk;
    arena.bytes = 0;
    for (uint32_t k = 0; k < arena.n_blocks; k++) {
      const uint64_t end = arena.blocks[k].offset + arena.blocks[k].bytes;
      if (is_here(&arena, &arena.blocks[k]) && end > arena.bytes) arena.bytes = end;
    }
    draw_arena(&arena, graph, out);
  }
  free(arena.blocks);
  return result;
}
