// Makes the programs, devices and instances of loaded .pte files, which share them.
#include "delegate/executorch/instances.h"

#include <executorch/runtime/executor/pte_data_map.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

namespace clave {
namespace {

using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::internal::PteDataMap;

// Never destroyed: the last destructors of the process may destroy methods.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Owned>> devices;  // by device name, cache folder and threads
  std::vector<std::weak_ptr<Instance>> instances;
  std::mutex error_mutex;
  std::string error;
};

Registry &registry() {
  static Registry *made = new Registry;
  return *made;
}

// Replaces every character except printable ASCII by "?". The text may hold bytes of a damaged
// file, and Python's logger ends the process at invalid UTF-8.
std::string plain(std::string text) {
  for (char &c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

Error code_of(clave_code code) {
  switch (code) {
    case CLAVE_OK:
      return Error::Ok;
    case CLAVE_INVALID:
      return Error::InvalidArgument;
    case CLAVE_UNSUPPORTED:
      return Error::NotSupported;
    case CLAVE_NO_MEMORY:
      return Error::MemoryAllocationFailed;
    case CLAVE_IO:
      return Error::AccessFailed;
    case CLAVE_DEVICE:
    case CLAVE_CANCELLED:
      break;
  }
  return Error::Internal;
}

// ---------------------------------------------------------------- programs

// The bytes of a program and its constants in the memory of the host's loader, usually mapped.
struct Data {
  const NamedDataMap *map = nullptr;  // valid while the program is loaded
  std::deque<FreeableBuffer> buffers;
  std::deque<std::vector<std::max_align_t>> copies;
};

bool bytes_of(const clave_tensor &t, size_t *out) {
  size_t n = clave_dtype_size(t.dtype);
  for (int k = 0; k < t.rank; k++)
    if (t.dims[k] < 0 || __builtin_mul_overflow(n, static_cast<size_t>(t.dims[k]), &n))
      return false;
  *out = n;
  return true;
}

// Keeps the bytes, or a copy if they are not aligned for any type.
const void *keep(Data &data, FreeableBuffer found) {
  const void *bytes = found.data();
  if (reinterpret_cast<uintptr_t>(bytes) % alignof(std::max_align_t) == 0) {
    data.buffers.push_back(std::move(found));
    return bytes;
  }
  auto &copy = data.copies.emplace_back(found.size() / sizeof(std::max_align_t) + 1);
  std::memcpy(copy.data(), bytes, found.size());
  found.Free();
  return copy.data();
}

bool find_in(Data &data, const char *name, clave_tensor *constant) {
  static std::max_align_t nothing;
  size_t size;
  if (!bytes_of(*constant, &size)) return false;
  constant->data = &nothing;
  if (size == 0) return true;
  auto found = data.map->get_data(name);
  if (!found.ok()) return false;
  if (found->size() != size) {
    ET_LOG(Error, "clave: constant %s: expected %zu bytes, got %zu", plain(name).c_str(), size,
           found->size());
    return false;
  }
  constant->data = const_cast<void *>(keep(data, std::move(*found)));
  return true;
}

// Called by C, through which no exception may pass.
bool find_constant(void *ctx, const char *name, clave_tensor *constant) {
  try {
    return find_in(*static_cast<Data *>(ctx), name, constant);
  } catch (const std::exception &) {
    ET_LOG(Error, "clave: no memory for a constant");
    return false;
  }
}

void release_data(void *ctx) { delete static_cast<Data *>(ctx); }

Error load_program(const NamedDataMap &map, const std::string &key, std::shared_ptr<Owned> *out) {
  auto found = map.get_data(key);
  if (!found.ok()) return failed(found.error(), "the .pte has no program " + key);
  auto data = std::make_unique<Data>();
  data->map = &map;
  const size_t size = found->size();
  clave_delegate_payload payload = {};
  payload.size = sizeof payload;
  payload.format = CLAVE_DELEGATE_PROGRAM;
  payload.data = keep(*data, std::move(*found));
  payload.data_size = size;
  payload.find = find_constant;
  payload.find_ctx = data.get();
  payload.release = release_data;
  payload.release_ctx = data.release();
  clave_delegate_handle program;
  const clave_status st = plugin().load(&payload, &program);
  if (st) return failed(st, "loading the program of a .pte");
  *out = std::make_shared<Owned>(program, plugin().unload);
  return Error::Ok;
}

// ---------------------------------------------------------------- devices

// Called by C, like log_event.
void log_note(void *, const char *line) try {
  ET_LOG(Info, "clave: %s", plain(line).c_str());
} catch (const std::exception &) {  // the line is lost
}

Error open_device(const Settings &s, std::shared_ptr<Owned> *out) {
  const char *named = s.device.empty() ? std::getenv("CLAVE_DEVICE") : s.device.c_str();
  const std::string key =
      std::string(named ? named : "") + "\n" + s.cache_dir + "\n" + std::to_string(s.n_threads);
  auto &devices = registry().devices;
  if (const auto kept = devices.find(key); kept != devices.end())
    if ((*out = kept->second.lock())) return Error::Ok;
  clave_delegate_device_options options = {};
  options.size = sizeof options;
  options.device = s.device.empty() ? nullptr : s.device.c_str();
  options.n_threads = s.n_threads;
  options.cache_dir = s.cache_dir.empty() ? nullptr : s.cache_dir.c_str();
  options.log = log_note;
  clave_delegate_handle device;
  const clave_status st = plugin().open(&options, &device);
  if (st) return failed(st, "opening the device");
  devices[key] = *out = std::make_shared<Owned>(device, plugin().close);
  return Error::Ok;
}

// ---------------------------------------------------------------- instances

// Converts a time to the clock of the host's profiler.
et_timestamp_t ticks_of(int64_t ns) {
  using std::chrono::steady_clock;
  const auto ratio = et_pal_ticks_to_ns_multiplier();
  const int64_t now = std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
  const int64_t ago =
      (now - ns) * static_cast<int64_t>(ratio.denominator) / static_cast<int64_t>(ratio.numerator);
  return et_pal_current_ticks() - static_cast<et_timestamp_t>(ago);
}

// Reports nodes by their names, which are those of the lowered graph, and copies by their op.
void log_event(void *ctx, const clave_delegate_event *event) try {
  const Instance &instance = *static_cast<const Instance *>(ctx);
  if (!instance.tracer) return;
  const bool is_named = event->kind == CLAVE_DELEGATE_EVENT_NODE && event->name && *event->name;
  const std::string metadata = std::string(event->op) + " on " + event->device;
  instance.tracer->log_profiling_delegate(
      is_named ? event->name : event->op, executorch::runtime::kUnsetDelegateDebugIntId,
      ticks_of(event->start_ns), ticks_of(event->end_ns), metadata.data(), metadata.size());
} catch (const std::exception &) {  // the event is lost
}

Error create_instance(const Settings &s, std::shared_ptr<Instance> &made) {
  clave_delegate_instance_options options = {};
  options.size = sizeof options;
  options.memory_budget = s.memory_budget;
  options.fast = s.fast;
  options.event = s.node_events ? log_event : nullptr;
  options.event_ctx = made.get();
  options.node_events = s.node_events;
  clave_delegate_handle instance;
  const clave_status st =
      plugin().create(made->program->handle, made->device->handle, &options, &instance);
  if (st) return failed(st, "making an instance of a .pte's program");
  made->owned = std::make_shared<Owned>(instance, plugin().destroy);
  return Error::Ok;
}

// Returns the identity of a loaded .pte: the address of its map of named data. If the host has
// merged this map with its own, each method has a map, and the identity is the address of the
// program's key in the .pte's memory. Returns NULL if there is no such key.
const void *identity_of(const NamedDataMap &map, const std::string &key) {
  const bool is_own = dynamic_cast<const PteDataMap *>(&map) != nullptr;
  auto count = map.get_num_keys();
  for (uint32_t i = 0; count.ok() && i < *count; i++) {
    auto found = map.get_key(i);
    if (found.ok() && key == *found) return is_own ? static_cast<const void *>(&map) : *found;
  }
  return nullptr;
}

std::vector<std::shared_ptr<Instance>> instances_of(const void *identity, const std::string &key) {
  std::vector<std::shared_ptr<Instance>> found;
  auto &all = registry().instances;
  for (size_t i = all.size(); i-- > 0;) {
    auto instance = all[i].lock();
    if (!instance)
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    else if (instance->identity == identity && instance->key == key)
      found.insert(found.begin(), instance);
  }
  return found;
}

}  // namespace

const clave_delegate &plugin() {
  static const clave_delegate table = [] {
    clave_delegate made = {};
    made.size = sizeof made;
    (void)clave_delegate_register(CLAVE_DELEGATE_VERSION, &made);
    return made;
  }();
  return table;
}

Error failed(Error code, const std::string &text) {
  const std::string message = plain(text);
  ET_LOG(Error, "clave: %s", message.c_str());
  std::lock_guard<std::mutex> lock(registry().error_mutex);
  registry().error = message;
  return code;
}

Error failed(clave_status status, const char *what) {
  const Error code = code_of(plugin().status_code(status));
  const std::string message = std::string(what) + ": " + plugin().status_message(status);
  plugin().status_free(status);
  return failed(code, message);
}

Owned::~Owned() {
  if (clave_status st = close_(handle)) (void)failed(st, "closing");
}

bool Settings::operator==(const Settings &o) const {
  return device == o.device && cache_dir == o.cache_dir && n_threads == o.n_threads &&
         memory_budget == o.memory_budget && fast == o.fast && node_events == o.node_events &&
         shares_state == o.shares_state;
}

// Adds `method` to the users of the instance. Returns false if it needs another instance: a method
// starts with its initial state each time it is loaded, so it must not find state that it left. If
// methods share state, all state stays while one of them is loaded.
static bool accepts(Instance &instance, const std::string &method) {
  if (!instance.settings.shares_state && instance.left.count(method)) return false;
  return instance.methods.insert(method).second;
}

Error find_instance(const NamedDataMap &map, const std::string &key, const std::string &method,
                    const Settings &settings, std::shared_ptr<Instance> *out) {
  const void *identity = identity_of(map, key);
  if (!identity) return failed(Error::NotFound, "the .pte has no program " + key);
  std::lock_guard<std::mutex> lock(registry().mutex);
  const auto others = instances_of(identity, key);
  for (const auto &other : others)
    if (other->settings == settings && accepts(*other, method)) {
      *out = other;
      return Error::Ok;
    }
  auto made = std::make_shared<Instance>();
  made->identity = identity;
  made->key = key;
  made->settings = settings;
  made->methods = {method};
  if (!others.empty()) made->program = others[0]->program;
  Error e = made->program ? Error::Ok : load_program(map, key, &made->program);
  if (e == Error::Ok) e = open_device(settings, &made->device);
  if (e == Error::Ok) e = create_instance(settings, made);
  if (e != Error::Ok) return e;
  registry().instances.push_back(made);
  *out = std::move(made);
  return Error::Ok;
}

void leave_instance(Instance &instance, const std::string &method) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  instance.left.insert(instance.methods.extract(method));  // allocates nothing: called by a
                                                           // destructor
}

}  // namespace clave

extern "C" __attribute__((visibility("default"))) size_t clave_executorch_error(char *text,
                                                                                size_t size) {
  auto &r = clave::registry();
  std::lock_guard<std::mutex> lock(r.error_mutex);
  if (size) {
    const size_t n = std::min(size - 1, r.error.size());
    std::memcpy(text, r.error.data(), n);
    text[n] = 0;
  }
  return r.error.size();
}
