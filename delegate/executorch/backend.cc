// ClaveBackend for ExecuTorch: turns a delegate's payload into a method of an instance and binds
// its arguments in place. It is registered when the library is loaded.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <charconv>
#include <cstring>
#include <exception>
#include <new>
#include <vector>

#include "delegate/executorch/instances.h"

namespace clave {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

constexpr char kName[] = "ClaveBackend";

// One delegate: a method of an instance.
struct Delegate {
  std::shared_ptr<Instance> instance;
  std::string method;
  std::vector<clave_tensor_info> inputs, outputs;
  ~Delegate() {
    if (instance) leave_instance(*instance, method);
  }
};

// ---------------------------------------------------------------- loading

// Reads "clave 1\n", the key of the program, "\n", its method, "\n".
bool read_payload(const FreeableBuffer &processed, std::string *key, std::string *method) {
  constexpr char head[] = "clave 1\n";
  if (processed.size() > 4096) return false;
  const std::string text(static_cast<const char *>(processed.data()), processed.size());
  if (text.compare(0, sizeof head - 1, head) != 0 || text.back() != '\n') return false;
  const size_t middle = text.find('\n', sizeof head - 1);
  if (middle == std::string::npos || text.find('\n', middle + 1) != text.size() - 1) return false;
  *key = text.substr(sizeof head - 1, middle - (sizeof head - 1));
  *method = text.substr(middle + 1, text.size() - middle - 2);
  return true;
}

bool parse_number(const std::string &text, uint64_t *out) {
  const char *end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, *out);
  return read.ec == std::errc() && read.ptr == end;
}

// Sets a setting by its name, as in a compile spec or a load-time option of the host.
bool set(Settings *settings, const std::string &name, const std::string &value) {
  uint64_t n = 0;
  const bool is_number = parse_number(value, &n);
  if (name == "device") {
    settings->device = value;
  } else if (name == "cache_dir") {
    settings->cache_dir = value;
  } else if (name == "n_threads" && is_number && n <= 1024) {
    settings->n_threads = static_cast<int>(n);
  } else if (name == "memory_budget" && is_number) {
    settings->memory_budget = n;
  } else if (name == "fast" && is_number && n <= 1) {
    settings->fast = n == 1;
  } else {
    return false;
  }
  return true;
}

const char *const kSettings[] = {"device", "cache_dir", "n_threads", "memory_budget", "fast"};

// Returns the host's option of this name as text; empty if there is none.
std::string option(const BackendInitContext &context, const char *name) {
  if (auto text = context.get_runtime_spec<const char *>(name); text.ok()) return *text;
  if (auto number = context.get_runtime_spec<int>(name); number.ok())
    return std::to_string(*number);
  if (auto flag = context.get_runtime_spec<bool>(name); flag.ok()) return *flag ? "1" : "0";
  return "";
}

// Ignores other compile specs, which are only for the export.
Error read_settings(BackendInitContext &context, ArrayRef<CompileSpec> specs, Settings *settings) {
  for (const char *name : kSettings) {
    std::string value = option(context, name);
    for (const CompileSpec &spec : specs)
      if (value.empty() && spec.key && std::strcmp(spec.key, name) == 0)
        value.assign(static_cast<const char *>(spec.value.buffer), spec.value.nbytes);
    if (!value.empty() && !set(settings, name, value))
      return failed(Error::InvalidArgument, std::string(name) + " is '" + value + "'");
  }
  for (const CompileSpec &spec : specs)
    if (spec.key && std::strcmp(spec.key, "share_mutable_buffers") == 0)
      settings->shares_state = true;
  settings->node_events = context.event_tracer() != nullptr;
  return Error::Ok;
}

using Describe = clave_status (*)(clave_delegate_handle, const char *, uint32_t,
                                  clave_tensor_info *);

Error describe(const Delegate &d, uint32_t n, Describe get, std::vector<clave_tensor_info> *out) {
  for (uint32_t i = 0; i < n; i++) {
    clave_tensor_info info = {};
    info.size = sizeof info;
    const clave_status st = get(d.instance->program->handle, d.method.c_str(), i, &info);
    if (st) return failed(st, "reading a .pte's program");
    out->push_back(info);
  }
  return Error::Ok;
}

Error describe_arguments(Delegate *delegate) {
  const clave_delegate_handle program = delegate->instance->program->handle;
  clave_program_info whole = {};
  whole.size = sizeof whole;
  if (clave_status st = plugin().program_info(program, &whole))
    return failed(st, "reading a .pte's program");
  for (uint32_t i = 0; i < whole.n_methods; i++) {
    clave_method_info info = {};
    info.size = sizeof info;
    if (clave_status st = plugin().method(program, i, &info))
      return failed(st, "reading a .pte's program");
    if (delegate->method != info.name) continue;
    const Error e = describe(*delegate, info.n_inputs, plugin().input, &delegate->inputs);
    return e == Error::Ok ? describe(*delegate, info.n_outputs, plugin().output, &delegate->outputs)
                          : e;
  }
  return failed(Error::InvalidProgram, "the program has no method '" + delegate->method + "'");
}

Error init_delegate(BackendInitContext &context, const FreeableBuffer &processed,
                    ArrayRef<CompileSpec> specs, Delegate *delegate) {
  std::string key, method;
  Settings settings;
  if (!read_payload(processed, &key, &method))
    return failed(Error::DelegateInvalidCompatibility, "the delegate's payload is not of clave 1");
  if (!context.get_named_data_map())
    return failed(Error::NotFound, "the .pte has no named data, where its program should be");
  if (Error e = read_settings(context, specs, &settings); e != Error::Ok) return e;
  if (Error e =
          find_instance(*context.get_named_data_map(), key, method, settings, &delegate->instance);
      e != Error::Ok)
    return e;
  delegate->method = method;
  return describe_arguments(delegate);
}

// ---------------------------------------------------------------- arguments

const struct {
  ScalarType theirs;
  clave_dtype ours;
} kTypes[] = {{ScalarType::Float, CLAVE_F32},
              {ScalarType::Half, CLAVE_F16},
              {ScalarType::BFloat16, CLAVE_BF16},
              {ScalarType::Double, CLAVE_F64},
              {ScalarType::Char, CLAVE_I8},
              {ScalarType::Byte, CLAVE_U8},
              {ScalarType::Short, CLAVE_I16},
              {ScalarType::Int, CLAVE_I32},
              {ScalarType::Long, CLAVE_I64},
              {ScalarType::Bool, CLAVE_BOOL},
              {ScalarType::UInt16, CLAVE_U16},
              {ScalarType::UInt32, CLAVE_U32},
              {ScalarType::UInt64, CLAVE_U64},
              {ScalarType::Float8_e4m3fn, CLAVE_F8_E4M3},
              {ScalarType::Float8_e5m2, CLAVE_F8_E5M2}};

// Describes ExecuTorch's tensor as a clave tensor over the same memory. Returns false if clave
// lacks its dtype or rank.
bool view_tensor(const Tensor &t, clave_tensor *out) {
  if (t.dim() > CLAVE_MAX_RANK) return false;
  for (const auto &type : kTypes) {
    if (type.theirs != t.scalar_type()) continue;
    *out = {};
    out->dtype = type.ours;
    out->rank = static_cast<int>(t.dim());
    for (int k = 0; k < out->rank; k++) {
      out->dims[k] = t.sizes()[static_cast<size_t>(k)];
      out->strides[k] = t.strides()[static_cast<size_t>(k)];
    }
    out->data = t.mutable_data_ptr();
    return true;
  }
  return false;
}

clave_delegate_memory memory_of(void *data, size_t bytes) {
  clave_delegate_memory memory = {};
  memory.size = sizeof memory;
  memory.kind = CLAVE_DELEGATE_HOST;
  memory.memory = data;
  memory.bytes = bytes;
  return memory;
}

Error bind_input(const Delegate &d, uint32_t i, const EValue &value) {
  const clave_delegate_handle instance = d.instance->handle();
  clave_tensor t = {};
  if (value.isTensor()) {
    if (!view_tensor(value.toTensor(), &t))
      return failed(Error::NotSupported, "input " + std::to_string(i) + " has a dtype or a rank " +
                                             "that clave has not");
    const clave_delegate_memory memory = memory_of(t.data, value.toTensor().nbytes());
    const clave_status st = plugin().bind_input(instance, d.method.c_str(), i, &t, &memory);
    return st ? failed(st, "running a delegate") : Error::Ok;
  }
  int64_t whole = 0;
  double real = 0;
  bool flag = false;
  if (value.isInt()) {
    whole = value.toInt();
    t = clave_tensor_make(CLAVE_I64, 0, nullptr, &whole);
  } else if (value.isDouble()) {
    real = value.toDouble();
    t = clave_tensor_make(CLAVE_F64, 0, nullptr, &real);
  } else if (value.isBool()) {
    flag = value.toBool();
    t = clave_tensor_make(CLAVE_BOOL, 0, nullptr, &flag);
  } else {
    return failed(Error::InvalidType, "input " + std::to_string(i) + " is no tensor or number");
  }
  const clave_status st = plugin().set_input(instance, d.method.c_str(), i, &t);
  return st ? failed(st, "running a delegate") : Error::Ok;
}

bool is_contiguous(const clave_tensor &t) {
  int64_t step = 1;
  for (int k = t.rank; k-- > 0;) {
    if (t.dims[k] != 1 && t.strides[k] != step) return false;
    step *= t.dims[k];
  }
  return true;
}

// True if a result can be written in place: its sizes are known and the tensor is contiguous.
bool is_bound(const clave_tensor_info &info, const EValue &value, clave_tensor *tensor) {
  if (info.is_scalar || !value.isTensor() || !view_tensor(value.toTensor(), tensor)) return false;
  if (tensor->dtype != info.dtype || tensor->rank != info.rank || !tensor->data) return false;
  for (int k = 0; k < info.rank; k++)
    if (info.dims[k] != tensor->dims[k]) return false;
  return is_contiguous(*tensor);
}

Error bind_output(const Delegate &d, uint32_t i, const EValue &value) {
  clave_tensor t;
  clave_delegate_memory memory = {};
  const bool bound = is_bound(d.outputs[i], value, &t);
  if (bound) memory = memory_of(t.data, value.toTensor().nbytes());
  const clave_status st =
      plugin().bind_output(d.instance->handle(), d.method.c_str(), i, bound ? &memory : nullptr);
  return st ? failed(st, "running a delegate") : Error::Ok;
}

// Copies `from`, which is contiguous and has the dims of `to`.
void copy_rows(const char *from, const clave_tensor &to, size_t element) {
  int64_t at[CLAVE_MAX_RANK] = {};
  for (;;) {
    int64_t offset = 0;
    for (int k = 0; k < to.rank; k++) offset += at[k] * to.strides[k];
    std::memcpy(static_cast<char *>(to.data) + static_cast<size_t>(offset) * element, from,
                element);
    from += element;
    int k = to.rank - 1;
    while (k >= 0 && ++at[k] == to.dims[k]) at[k--] = 0;
    if (k < 0) return;
  }
}

Error copy_tensor(const clave_tensor &from, Tensor to) {
  std::vector<executorch::aten::SizesType> sizes;
  for (int k = 0; k < from.rank; k++)
    sizes.push_back(static_cast<executorch::aten::SizesType>(from.dims[k]));
  const Error e = executorch::runtime::resize_tensor(
      to, ArrayRef<executorch::aten::SizesType>(sizes.data(), sizes.size()));
  if (e != Error::Ok) return failed(e, "a result does not fit into its output in the .pte");
  clave_tensor t;
  if (!view_tensor(to, &t) || t.dtype != from.dtype)
    return failed(Error::InvalidType, "a result is not of its output's dtype");
  if (to.numel() == 0) return Error::Ok;
  if (!t.data) return failed(Error::InvalidState, "an output of the .pte has no memory");
  if (is_contiguous(t))
    std::memcpy(t.data, from.data, to.nbytes());
  else
    copy_rows(static_cast<const char *>(from.data), t, clave_dtype_size(t.dtype));
  return Error::Ok;
}

Error store_output(const Delegate &d, uint32_t i, EValue *value) {
  clave_tensor t;
  if (is_bound(d.outputs[i], *value, &t)) return Error::Ok;
  if (clave_status st = plugin().result(d.instance->handle(), d.method.c_str(), i, &t))
    return failed(st, "running a delegate");
  if (value->isTensor()) return copy_tensor(t, value->toTensor());
  if (t.rank == 0 && t.dtype == CLAVE_I64)
    *value = EValue(*static_cast<const int64_t *>(t.data));
  else if (t.rank == 0 && t.dtype == CLAVE_F64)
    *value = EValue(*static_cast<const double *>(t.data));
  else if (t.rank == 0 && t.dtype == CLAVE_BOOL)
    *value = EValue(*static_cast<const bool *>(t.data));
  else
    return failed(Error::InvalidType, "output " + std::to_string(i) + " is no tensor or number");
  return Error::Ok;
}

Error run(const Delegate &d, Span<EValue *> args) {
  const size_t n_inputs = d.inputs.size(), n_outputs = d.outputs.size();
  if (args.size() != n_inputs + n_outputs)
    return failed(Error::InvalidProgram, std::to_string(args.size()) +
                                             " arguments, the program's method has " +
                                             std::to_string(n_inputs + n_outputs));
  Error e = Error::Ok;
  for (uint32_t i = 0; i < n_inputs && e == Error::Ok; i++) e = bind_input(d, i, *args[i]);
  for (uint32_t i = 0; i < n_outputs && e == Error::Ok; i++)
    e = bind_output(d, i, *args[n_inputs + i]);
  if (e != Error::Ok) return e;
  if (clave_status st = plugin().execute(d.instance->handle(), d.method.c_str()))
    return failed(st, "running a delegate");
  for (uint32_t i = 0; i < n_outputs && e == Error::Ok; i++)
    e = store_output(d, i, args[n_inputs + i]);
  return e;
}

// ---------------------------------------------------------------- the backend

struct ClaveBackend final : BackendInterface {
  bool is_available() const override { return plugin().execute != nullptr; }

  Result<DelegateHandle *> init(BackendInitContext &context, FreeableBuffer *processed,
                                ArrayRef<CompileSpec> specs) const override {
    auto *d = context.get_runtime_allocator()->allocateInstance<Delegate>();
    if (!d) return Error::MemoryAllocationFailed;
    new (d) Delegate();
    Error e = Error::MemoryAllocationFailed;
    try {
      e = init_delegate(context, *processed, specs, d);
    } catch (const std::bad_alloc &) {
    } catch (const std::exception &) {
      e = Error::Internal;
    }
    processed->Free();
    if (e == Error::Ok) return d;
    d->~Delegate();
    return e;
  }

  Error execute(BackendExecutionContext &context, DelegateHandle *handle,
                Span<EValue *> args) const override {
    const auto &d = *static_cast<const Delegate *>(handle);
    std::lock_guard<std::mutex> lock(d.instance->mutex);
    d.instance->tracer = context.event_tracer();
    Error e = Error::MemoryAllocationFailed;
    try {
      e = run(d, args);
    } catch (const std::bad_alloc &) {
    } catch (const std::exception &) {
      e = Error::Internal;
    }
    d.instance->tracer = nullptr;
    return e;
  }

  void destroy(DelegateHandle *handle) const override {
    static_cast<Delegate *>(handle)->~Delegate();
  }
};

ClaveBackend backend;
const Error registered = executorch::runtime::register_backend({kName, &backend});

}  // namespace
}  // namespace clave

// The version of ExecuTorch that this was compiled against; can be read without loading the file.
#ifndef CLAVE_EXECUTORCH_VERSION
#define CLAVE_EXECUTORCH_VERSION "unknown"
#endif
extern "C" {
extern __attribute__((visibility("default"))) const char clave_executorch_built_for[];
const char clave_executorch_built_for[] = "built for ExecuTorch " CLAVE_EXECUTORCH_VERSION;
}

// Returns 0 if ExecuTorch accepted the backend, else an executorch::runtime::Error.
extern "C" __attribute__((visibility("default"))) int clave_executorch_status(void) {
  return static_cast<int>(clave::registered);
}
