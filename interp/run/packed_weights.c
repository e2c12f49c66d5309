/* The packed weights that commands read. The constant store, which sessions share, packs each
 * weight once or uses the packed weight in the program's file. */
#include "interp/run/packed_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void note_damaged(const session *session, uint32_t constant) {
  const session_options *options = &session->options;
  char line[256];
  if (!options->message) return;
  (void)snprintf(line, sizeof line,
                 "the packed weight of constant '%.100s' in the program's file is damaged (hash) "
                 "and is packed again",
                 session->prog->ir.constants.items[constant].name);
  options->message(options->message_ctx, line);
}

static bool is_packed_for(const program *program, const device_set *devices) {
  for (size_t i = 0; i < program->n_packed_weights; i++)
    for (int b = 0; b < devices->count; b++) {
      const char *own = devices->backends[b]->info.weight_layout;
      if (own && strcmp(program->packed_weights[i].layout, own) == 0) return true;
    }
  return false;
}

/* Reports once that weights are packed again because the packed ones are for other devices. */
static void note_elsewhere(const running *run, const backend_info *on) {
  session *session = run->session;
  const session_options *options = &session->options;
  char line[192];
  if (session->has_reported_packing || !session->prog->n_packed_weights || options->packs ||
      !options->message)
    return;
  session->has_reported_packing = true;
  if (is_packed_for(session->prog, &session->devices)) return;
  (void)snprintf(line, sizeof line, "the weights are packed for %s and are packed again for %s",
                 session->prog->packed_weights[0].layout,
                 on->weight_layout ? on->weight_layout : on->kind);
  options->message(options->message_ctx, line);
}

static clave_status get_packed_weight(const running *run, const command *command, int i,
                                      command_state *state) {
  const packed_weight_request *request = &command->recorded->weights[i];
  const packing_means means = {.stream = run->session->streams[command->backend],
                               .operands = run->binding->bound[command->backend],
                               .checks = !run->session->options.unchecked,
                               .clears = run->session->options.packs};
  const packed_weight *weight;
  bool is_damaged;
  clave_status st = constant_store_pack(run->session->stores[command->backend], &means, request,
                                        &weight, &is_damaged);
  if (is_damaged) note_damaged(run->session, request->constant);
  if (st) return st;
  state->weights[i] = weight ? weight->buf : NULL;
  if (!request->pack || !weight->is_packed_here) return NULL;
  state->packs = true;
  note_elsewhere(run, &run->session->devices.backends[command->backend]->info);
  return NULL;
}

/* A weight that another recording packs may not exist yet; the next call looks for it again. */
clave_status get_packed_weights(const running *run, const command *command, command_state *state) {
  const recording *recorded = command->recorded;
  bool has_all = true;
  if (!recorded->n_weights || state->weights_of == recorded->serial) return NULL;
  state->packs = false;
  for (int i = 0; i < recorded->n_weights; i++) {
    TRY(get_packed_weight(run, command, i, state));
    has_all = has_all && state->weights[i];
  }
  if (has_all) state->weights_of = recorded->serial;
  return NULL;
}

/* ---------------------------------------------------------------- preparing */

static size_t largest_bytes(const command *command) {
  size_t most = 0;
  for (int i = 0; command->recorded && i < command->recorded->n_weights; i++)
    if (command->recorded->weights[i].bytes > most) most = command->recorded->weights[i].bytes;
  return most;
}

void pack_largest(const running *run, packing_progress *made) {
  const schedule *schedule = run->binding->schedule;
  const int64_t begin = clock_ns();
  uint32_t largest = schedule->first_command;
  if (run->session->options.packs) return;
  for (uint32_t i = schedule->first_command; i < schedule->n_commands; i++)
    if (largest_bytes(&schedule->commands[i]) > largest_bytes(&schedule->commands[largest]))
      largest = i;
  if (largest < schedule->n_commands && schedule->commands[largest].recorded)
    status_free(
        get_packed_weights(run, &schedule->commands[largest], &run->binding->commands[largest]));
  made->elapsed_ns += clock_ns() - begin;
}

packing_progress begin_packing(const running *run) {
  const schedule *schedule = run->binding->schedule;
  packing_progress made = {0};
  for (uint32_t i = schedule->first_command; i < schedule->n_commands; i++)
    made.total += largest_bytes(&schedule->commands[i]) > 0;
  return made;
}

static void report_packing(const running *run, packing_progress *progress) {
  const session_options *options = &run->session->options;
  progress->is_reported = true;
  if (options->progress)
    options->progress(options->progress_ctx, "packing weights", progress->done, progress->total);
}

clave_status prepare_packed_weights(const running *run, const command *command,
                                    command_state *state, packing_progress *progress) {
  enum { QUIET_NS = 1000000000 }; /* packing that takes less time is not reported */
  int64_t begin = clock_ns();
  if (!command->recorded->n_weights) return NULL;
  TRY(get_packed_weights(run, command, state));
  progress->done += largest_bytes(command) > 0;
  progress->elapsed_ns += clock_ns() - begin;
  if (progress->elapsed_ns > QUIET_NS) report_packing(run, progress);
  return NULL;
}

void end_packing(const running *run, packing_progress *progress) {
  bool is_open = progress->is_reported && progress->done < progress->total;
  progress->done = progress->total;
  if (is_open) report_packing(run, progress);
}
