/* Builds relu(x @ w.T + b) with clave's C API, saves it and runs it: build PROGRAM.clv */
#include <clave.h>
#include <clave_builder.h>
#include <stdio.h>

enum { ROWS = 2, IN = 3, OUT = 2 };

/* Any call may fail: a status that is not NULL says why. */
static int report(clave_status status) {
  fprintf(stderr, "build: %s\n", clave_status_message(status));
  clave_status_free(status);
  return 1;
}

/* Adds x @ w.T + b. The weight is stored (out, in), as in torch; a Permute transposes it at no
 * cost. */
static void add_linear(clave_builder *builder, clave_id x, clave_id out) {
  static float weight[OUT * IN] = {1, -2, 0.5F, 3, 1, -1}, bias[OUT] = {0.25F, -4};
  const int64_t stored[] = {OUT, IN}, turned[] = {IN, OUT};
  const clave_tensor tensor = clave_tensor_make(CLAVE_F32, 2, stored, weight);
  const clave_tensor value = clave_tensor_make(CLAVE_F32, 1, stored, bias);
  clave_id wt = clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, 2, turned, NULL);

  clave_builder_op(builder, "Permute", "transpose");
  clave_builder_set_tensor(builder, "x", clave_builder_constant(builder, "weight", &tensor, false));
  clave_builder_set_ints(builder, "dims", (const int32_t[]){1, 0}, 2);
  clave_builder_set_tensor(builder, "out", wt);

  clave_builder_op(builder, "Matmul", "linear");
  clave_builder_set_tensor(builder, "a", x);
  clave_builder_set_tensor(builder, "b", wt);
  clave_builder_set_tensor(builder, "bias", clave_builder_constant(builder, "bias", &value, false));
  clave_builder_set_tensor(builder, "out", out);
}

static void add_relu(clave_builder *builder, clave_id x, clave_id out) {
  const clave_operand operand = {.source = CLAVE_OPERAND_INPUT, .index = 0};
  clave_builder_op(builder, "Elementwise", "relu");
  clave_builder_set_tensors(builder, "inputs", &x, 1);
  clave_builder_step(builder, "relu", CLAVE_F32, &operand, 1);
  clave_builder_set_tensor(builder, "out", out);
}

/* Builds the program. x: (batch, 3) for any batch, y: (batch, 2). finish returns the first
 * error. */
static clave_status build(clave_program **program) {
  clave_builder *builder;
  clave_status status = clave_builder_create(&builder);
  if (status) return status;
  clave_id batch = clave_builder_value(builder, "batch", CLAVE_I64, 1, INT64_MAX);
  const int64_t in[] = {0, IN}, out[] = {0, OUT};
  const clave_id sizes[] = {batch, 0}; /* a value replaces the entry of dims */
  clave_id x = clave_builder_tensor(builder, CLAVE_SLOT_INPUT, "x", CLAVE_F32, 2, in, sizes);
  clave_id z = clave_builder_tensor(builder, CLAVE_SLOT_TEMPORARY, "z", CLAVE_F32, 2, out, sizes);
  clave_id y = clave_builder_tensor(builder, CLAVE_SLOT_OUTPUT, "y", CLAVE_F32, 2, out, sizes);
  clave_builder_method(builder, "forward");
  clave_builder_input(builder, "x", x);
  add_linear(builder, x, z);
  add_relu(builder, z, y);
  clave_builder_output(builder, "y", y);
  status = clave_builder_finish(builder, program);
  clave_builder_destroy(builder);
  return status;
}

static clave_status run(clave_session *session, clave_tensor *tensor) {
  static float values[ROWS * IN] = {1, 2, 3, -1, -3, 4};
  const int64_t dims[] = {ROWS, IN};
  clave_tensor value = clave_tensor_make(CLAVE_F32, 2, dims, values);
  clave_status status = clave_session_set_input(session, "forward", 0, &value);
  if (!status) status = clave_session_run(session, "forward");
  return status ? status : clave_session_output(session, "forward", 0, tensor);
}

int main(int argc, char **argv) {
  clave_device *device = NULL;
  clave_program *program = NULL;
  clave_session *session = NULL;
  clave_tensor tensor;
  if (argc != 2) {
    fprintf(stderr, "usage: build PROGRAM.clv\n");
    return 2;
  }
  clave_status status = build(&program);
  if (!status) status = clave_program_save(program, argv[1]);
  if (!status) status = clave_device_open(NULL, NULL, &device);
  if (!status) status = clave_session_create(program, device, NULL, &session);
  if (!status) status = run(session, &tensor);
  for (int i = 0; !status && i < ROWS; i++) {
    const float *row = (const float *)tensor.data + i * OUT;
    printf("%g %g\n", row[0], row[1]);
  }
  clave_session_destroy(session);
  clave_program_destroy(program);
  clave_device_destroy(device);
  return status ? report(status) : 0;
}
