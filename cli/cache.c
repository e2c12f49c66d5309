/* clave cache: shows and trims the kernel binaries and tuning tables on disk, and carries kernel
 * binaries to other machines. */
#include <inttypes.h>

#include "clave_files.h"
#include "cli/command.h"
#include "json/writer.h"

typedef struct cache_arguments {
  const char *exported, *imported; /* files */
  bool clear, json;
  int64_t max_mb; /* -1: not given */
} cache_arguments;

static const flag cache_flags[] = {
    {"--clear", FLAG_SWITCH, offsetof(cache_arguments, clear), NULL,
     "removes all files of the cache", 0, 0},
    {"--max-mb", FLAG_INT, offsetof(cache_arguments, max_mb), "N",
     "removes the least recently used files until at most N MB remain", 0, 1000000000},
    {"--export", FLAG_WRITTEN, offsetof(cache_arguments, exported), "FILE",
     "writes all kernel binaries to FILE, for machines with the same devices and drivers", 0, 0},
    {"--import", FLAG_PATH, offsetof(cache_arguments, imported), "FILE",
     "adds the kernel binaries of FILE that are for devices and drivers of this machine", 0, 0},
    {"--json", FLAG_SWITCH, offsetof(cache_arguments, json), NULL, "machine-readable output", 0, 0},
};

static const cache_arguments cache_defaults = {.max_mb = -1};

/* ---------------------------------------------------------------- the cache */

static void cli_cache_write_json(const clave_cache_info *info, uint64_t removed, page *out) {
  json_writer writer = {.out = out};
  emit_object(&writer, NULL);
  emit_string(&writer, "path", info->path);
  emit_size(&writer, "bytes", info->bytes);
  emit_size(&writer, "files", info->files);
  emit_size(&writer, "limit_bytes", info->limit_bytes);
  emit_size(&writer, "tables", info->tables);
  emit_size(&writer, "removed_bytes", removed);
  emit_end_object(&writer);
}

static void cli_cache_write_text(const clave_cache_info *info, uint64_t removed, page *out) {
  if (!info->path) {
    text_puts(out, "no kernel cache\n");
    return;
  }
  if (removed) {
    text_puts(out, "removed  ");
    page_size(out, removed);
    text_puts(out, "\n");
  }
  text_puts(out, "path     ");
  page_visible(out, info->path);
  text_printf(out, "\nfiles    %" PRIu64 "\n", info->files);
  if (info->tables) text_printf(out, "tables   %" PRIu64 " of them, of clave tune\n", info->tables);
  text_puts(out, "size     ");
  page_size(out, info->bytes);
  text_puts(out, "\nlimit    ");
  page_size(out, info->limit_bytes);
  text_puts(out, "\n");
}

/* ---------------------------------------------------------------- files of kernels */

typedef struct kernel_moves {
  json_writer writer;
  page lines;
  bool imports;
  uint64_t kernels;
} kernel_moves;

static void cli_cache_write_group(void *ctx, const clave_cache_kernels *kernels) {
  kernel_moves *moves = ctx;
  json_writer *writer = &moves->writer;
  emit_record(writer, NULL);
  emit_string(writer, "platform", kernels->platform);
  emit_string(writer, "device", kernels->device);
  emit_string(writer, "driver", kernels->driver);
  emit_size(writer, "kernels", kernels->kernels);
  emit_size(writer, "bytes", kernels->bytes);
  if (moves->imports) emit_size(writer, "added", kernels->added);
  if (moves->imports) emit_bool(writer, "present", kernels->is_present);
  emit_end_object(writer);
  page *lines = &moves->lines;
  text_printf(lines, "%" PRIu64 " for ", kernels->kernels);
  page_visible(lines, kernels->device);
  text_puts(lines, ", driver ");
  page_visible(lines, kernels->driver);
  if (moves->imports && !kernels->is_present)
    text_puts(lines, ": not imported, because this machine lacks the device or the driver");
  else if (moves->imports)
    text_printf(lines, ": %" PRIu64 " imported, %" PRIu64 " cached before", kernels->added,
                kernels->kernels - kernels->added);
  text_puts(lines, "\n");
  moves->kernels += kernels->kernels;
}

static int cli_cache_move(const cache_arguments *arguments, page *out) {
  page document = {0};
  kernel_moves moves = {.writer = {.out = &document}, .imports = arguments->imported != NULL};
  emit_object(&moves.writer, NULL);
  emit_string(&moves.writer, "file", moves.imports ? arguments->imported : arguments->exported);
  emit_array(&moves.writer, "devices");
  clave_status st = moves.imports
                        ? clave_cache_import(arguments->imported, cli_cache_write_group, &moves)
                        : clave_cache_export(arguments->exported, cli_cache_write_group, &moves);
  emit_end_array(&moves.writer);
  emit_end_object(&moves.writer);
  const page *shown = arguments->json ? &document : &moves.lines;
  if (!st && !arguments->json && !moves.kernels) text_puts(out, "no kernel binaries\n");
  if (!st && shown->size) text_append(out, shown->data, shown->size);
  const bool failed = shown->failed;
  text_free(&document);
  text_free(&moves.lines);
  if (st) return fail_status(st);
  return failed ? fail_memory() : EXIT_GOOD;
}

/* ---------------------------------------------------------------- the command */

static int show_cache(const void *given, page *out) {
  const cache_arguments *arguments = given;
  const bool trims = arguments->clear || arguments->max_mb >= 0;
  clave_cache_info info = {.size = sizeof info};
  uint64_t removed = 0;
  if (arguments->clear && arguments->max_mb >= 0)
    return fail_usage("--clear and --max-mb exclude each other");
  if ((arguments->exported != NULL) + (arguments->imported != NULL) + trims > 1)
    return fail_usage("--export, --import and removing files exclude each other");
  if (arguments->exported || arguments->imported) return cli_cache_move(arguments, out);
  if (trims) {
    TRY_STATUS(
        clave_cache_trim(arguments->clear ? 0 : (uint64_t)arguments->max_mb * 1000000, &removed));
  }
  TRY_STATUS(clave_cache_get_info(&info));
  (arguments->json ? cli_cache_write_json : cli_cache_write_text)(&info, removed, out);
  return EXIT_GOOD;
}

const command cache_command = {
    .name = "cache",
    .usage = "cache [--clear | --max-mb N | --export FILE | --import FILE] [--json]",
    .summary =
        "Shows, limits, clears or copies the cache of kernel binaries and tuning tables on disk.",
    .more = "CLAVE_CACHE_DIR sets the cache folder; off: nothing is cached.\n",
    .flags = cache_flags,
    .n_flags = LENGTH(cache_flags),
    .arguments_size = sizeof(cache_arguments),
    .defaults = &cache_defaults,
    .run = show_cache,
};
