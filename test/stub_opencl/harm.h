/* Simulates drivers that harm a process, for stub.c: CLAVE_STUB_HARM=HOW CALL TEXT, where a call of
 * the function CALL for a kernel whose name, source or binary contains TEXT crashes (HOW: segv,
 * abort, exit) or never returns (hang). TEXT is "list" for calls that find devices. With
 * CLAVE_STUB_HARM_ONCE=FILE only the call does harm that can remove the file. */
#include <unistd.h>

static int *volatile nowhere; /* NULL */

static void do_harm(const char *how) {
  if (strncmp(how, "segv", 4) == 0) *(volatile int *)nowhere = 0;
  if (strncmp(how, "abort", 5) == 0) abort();
  if (strncmp(how, "exit", 4) == 0) _exit(3);
  for (;;) (void)pause();
}

/* Does harm if the call is the one, and the bytes contain the text. */
static void harm_bytes(const char *call, const void *bytes, size_t size) {
  const char *given = getenv("CLAVE_STUB_HARM"), *space = given ? strchr(given, ' ') : NULL;
  const size_t n = strlen(call);
  if (!space || strncmp(space + 1, call, n) != 0 || space[n + 1] != ' ') return;
  const char *text = space + n + 2;
  const char *once = getenv("CLAVE_STUB_HARM_ONCE");
  if (bytes && memmem(bytes, size, text, strlen(text)) && (!once || unlink(once) == 0))
    do_harm(given);
}

static void harm_name(const char *name) { harm_bytes("clCreateKernel", name, strlen(name)); }

static void harm_source(cl_program program) {
  cl_int (*query)(cl_program, cl_program_info, size_t, void *, size_t *);
  size_t size = 0;
  load_real("clGetProgramInfo", (void *)&query, sizeof query);
  query(program, CL_PROGRAM_SOURCE, 0, NULL, &size);
  char *source = calloc(1, size + 1);
  if (source && size) query(program, CL_PROGRAM_SOURCE, size, source, NULL);
  if (source) harm_bytes("clBuildProgram", source, size);
  free(source);
}

static void harm_launch(cl_kernel kernel) {
  cl_int (*query)(cl_kernel, cl_kernel_info, size_t, void *, size_t *);
  char name[256] = "";
  load_real("clGetKernelInfo", (void *)&query, sizeof query);
  query(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, NULL);
  harm_bytes("clEnqueueNDRangeKernel", name, strlen(name));
}
