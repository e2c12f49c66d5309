#ifndef JINJA_RENDER_H
#define JINJA_RENDER_H
/* One rendering: where names are kept, where text goes, and what the evaluating files share. */
#include "jinja/ast.h"

/* The names of one call of a function; the template itself is the outermost. */
typedef struct activation {
  value *slots;
  struct activation *parent;
} activation;

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

typedef struct render {
  arena arena;
  const jinja_template *t;
  const jinja_options *options;
  value *inputs; /* (n_inputs) */
  activation *now;
  builder *out;
  int depth, calls;
  flow flow;
  bool located; /* the error says where it is, or is the template's own */
} render;

struct macro {
  const node *node;
  activation *closure;
};

struct loop_state {
  list items;
  size_t at;
  int depth;
  value last_seen; /* by loop.changed */
  bool changed_before;
};

enum { RENDER_MAX_DEPTH = 1500, RENDER_MAX_CALLS = 150 };

typedef struct named_value {
  const char *name;
  value v;
} named_value;

typedef struct call_args {
  value *items;
  size_t count;
  named_value *named;
  size_t n_named;
} call_args;

/* Arguments by the names of parameters. */
enum { MAX_PARAMETERS = 5 };
typedef struct signature {
  const char *names[MAX_PARAMETERS];
  size_t required;
} signature;
typedef struct bound {
  value v[MAX_PARAMETERS];
  bool given[MAX_PARAMETERS];
} bound;
clave_status bind_args(const char *what, const signature *s, const call_args *args,
                       bound *out) STATUS_CHECK;
/* An integer among bound arguments, or `otherwise`. */
clave_status bound_integer(const bound *b, size_t i, int64_t otherwise, int64_t *out) STATUS_CHECK;
clave_status want_string(value v, const string **out) STATUS_CHECK;
clave_status want_integer(value v, int64_t *out) STATUS_CHECK;
clave_status refuse_undefined(value v) STATUS_CHECK; /* CLAVE_INVALID if it is */

/* eval.c, exec.c, call.c */
clave_status eval(render *r, const node *n, value *out) STATUS_CHECK;
clave_status exec(render *r, const node *n) STATUS_CHECK;
/* What `body` prints, through `filters` if those are not NULL. */
clave_status exec_to_string(render *r, const node *body, const node *filters,
                            value *out) STATUS_CHECK;
clave_status enter_scope(render *r, const scope *s) STATUS_CHECK;
clave_status assign(render *r, const node *target, value v) STATUS_CHECK;
clave_status eval_args(render *r, const node *arguments, call_args *out) STATUS_CHECK;
clave_status call_value(render *r, value callee, const call_args *args, value *out) STATUS_CHECK;
clave_status make_macro(render *r, const node *n, value *out) STATUS_CHECK;

/* arithmetic.c */
clave_status arithmetic(render *r, binary_op op, value x, value y, value *out) STATUS_CHECK;
clave_status negate(value x, value *out) STATUS_CHECK;
clave_status compare(render *r, binary_op op, value x, value y, bool *out) STATUS_CHECK;
clave_status repeat_string(render *r, const string *s, int64_t times, value *out) STATUS_CHECK;

/* attributes.c: as x.name and x[key] look things up */
clave_status get_attribute(render *r, value of, const string *name, value *out) STATUS_CHECK;
value get_loop(const loop_state *l, int number); /* by find_loop_name */
clave_status get_item(render *r, value of, value key, value *out) STATUS_CHECK;
clave_status get_slice(render *r, value of, const value bounds[3], value *out) STATUS_CHECK;
/* "a.0.b" on a value, as the filters' attribute= does. */
clave_status get_path(render *r, value of, value path, value *out) STATUS_CHECK;

/* methods.c */
const char *method_name(int index);
clave_status call_method(render *r, const method *m, const call_args *args,
                         value *out) STATUS_CHECK;

/* strings.c: what methods and filters do with strings */
typedef enum case_change {
  CHANGE_LOWER,
  CHANGE_UPPER,
  CHANGE_TITLE, /* str.title */
  CHANGE_WORDS, /* the filter title */
  CHANGE_CAPITALIZE,
  CHANGE_SWAP
} case_change;
clave_status string_case(render *r, const string *s, case_change change, value *out) STATUS_CHECK;
typedef enum strip_side { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 } strip_side;
/* chars: NULL for white space. */
clave_status string_strip(render *r, const string *s, const string *chars, strip_side side,
                          value *out) STATUS_CHECK;
/* most: -1 for all. */
clave_status string_replace(render *r, const string *s, const string *old, const string *new,
                            int64_t most, value *out) STATUS_CHECK;
/* separator: NULL for runs of white space; most: -1 for all. */
clave_status string_split(render *r, const string *s, const string *separator, int64_t most,
                          bool from_right, value *out) STATUS_CHECK;
clave_status string_lines(render *r, const string *s, bool keep_ends, value *out) STATUS_CHECK;
clave_status string_join(render *r, const string *separator, const list *items, bool as_text,
                         value *out) STATUS_CHECK;
/* & < > ' " as entities; the result is escaped text. */
clave_status escape_html(render *r, value s, value *out) STATUS_CHECK;
/* Byte of the i-th code point, which may be the end. */
size_t string_at(const string *s, size_t i);
/* Where `what` stands in code points from `start` to `end`, as Python takes them; -1: nowhere. */
clave_status string_find(render *r, const string *s, const string *what, const int64_t range[2],
                         bool last, int64_t *out) STATUS_CHECK;

/* functions.c */
bool find_global(const char *name, value *out);
bool is_template_itself(value v); /* the name `self` */
clave_status call_function(render *r, int index, const call_args *args, value *out) STATUS_CHECK;

/* filters.c, sequences.c, tests.c */
typedef clave_status (*filter_function)(render *r, value input, const bound *b, value *out);
typedef clave_status (*filter_any)(render *r, value input, const call_args *args, value *out);
clave_status filter_map(render *r, value v, const call_args *args, value *out) STATUS_CHECK;
clave_status filter_select(render *r, value v, const call_args *args, value *out) STATUS_CHECK;
clave_status filter_reject(render *r, value v, const call_args *args, value *out) STATUS_CHECK;
clave_status filter_selectattr(render *r, value v, const call_args *args, value *out) STATUS_CHECK;
clave_status filter_rejectattr(render *r, value v, const call_args *args, value *out) STATUS_CHECK;
clave_status filter_sort(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_unique(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_min(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_max(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_sum(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_dictsort(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_join(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_first(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_last(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_reverse(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_items(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status filter_list(render *r, value v, const bound *b, value *out) STATUS_CHECK;
clave_status call_filter(render *r, int index, value input, const call_args *args,
                         value *out) STATUS_CHECK;
clave_status call_test(render *r, int index, value input, const call_args *args,
                       bool *out) STATUS_CHECK;

/* format.c */
clave_status format_percent(render *r, const string *format, value args, value *out) STATUS_CHECK;
clave_status format_braces(render *r, const string *format, const call_args *args,
                           value *out) STATUS_CHECK;

/* inputs.c */
clave_status read_inputs(render *r) STATUS_CHECK;
/* date.c */
clave_status format_date(render *r, const string *format, value *out) STATUS_CHECK;

#endif
