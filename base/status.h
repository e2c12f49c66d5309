#ifndef BASE_STATUS_H
#define BASE_STATUS_H
/* The one error type. NULL means success. An error is an owned object with a code and one message
 * line that grows on its way up: "axis 5 out of range for rank 2; node 3 (softmax); m.clv".
 * Messages are lower case and state the value and what was expected. */
#include <stdarg.h>
#include <stddef.h>

typedef enum status_code {
  STATUS_OK = 0,
  STATUS_INVALID = 1,     /* the caller, a file or an input is wrong */
  STATUS_UNSUPPORTED = 2, /* valid, but this build or device cannot do it */
  STATUS_NO_MEMORY = 3,
  STATUS_DEVICE = 4, /* the device or its driver failed */
  STATUS_IO = 5,
  STATUS_CANCELLED = 6 /* the caller requested it; nothing is wrong */
} status_code;

typedef struct clave_error *clave_status; /* same type as in the public header */

#if defined(__GNUC__)
#define STATUS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define STATUS_CHECK __attribute__((warn_unused_result))
#define STATUS_NEVER_NULL __attribute__((returns_nonnull))
#else
#define STATUS_PRINTF(f, a)
#define STATUS_CHECK
#define STATUS_NEVER_NULL
#endif

/* Returns a new status. Control characters in the message are escaped, so that it stays one line.
 * Never returns NULL: when memory is out, it returns a static object. */
clave_status status_new(status_code code, const char *format, ...)
    STATUS_PRINTF(2, 3) STATUS_CHECK STATUS_NEVER_NULL;
/* Appends "; context" to a message; NULL stays NULL. Consumes and returns `st`. */
clave_status status_while(clave_status st, const char *format, ...)
    STATUS_PRINTF(2, 3) STATUS_CHECK;
clave_status status_no_memory(void) STATUS_CHECK STATUS_NEVER_NULL; /* a static object */

/* Returns a if it is an error, else b. If both are errors, frees b. */
clave_status status_first(clave_status a, clave_status b) STATUS_CHECK;

status_code status_code_of(const struct clave_error *st); /* returns STATUS_OK for NULL */
/* Returns "" for NULL; borrowed from st. */
const char *status_message(const struct clave_error *st);
void status_free(clave_status st); /* accepts NULL and the static object */

#define INVALID(...) status_new(STATUS_INVALID, __VA_ARGS__)
#define UNSUPPORTED(...) status_new(STATUS_UNSUPPORTED, __VA_ARGS__)
#define CANCELLED(...) status_new(STATUS_CANCELLED, __VA_ARGS__)

/* Returns the status of `expr` from the calling function if it is an error. */
#define TRY(expr)                        \
  do {                                   \
    clave_status try_status_ = (expr);   \
    if (try_status_) return try_status_; \
  } while (0)

#endif
