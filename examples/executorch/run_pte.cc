// Runs a method of a .pte file from C++, without Python: ExecuTorch's Module, linked with clave's
// backend.
//
//   run_pte model.pte [--method NAME] [--device SPEC] [--runs N]
//
// Inputs have their largest sizes. Their elements are 0, 1/8, 2/8 ... 7/8, 0 ..., or 0, 1, 0 ...
// for integers. Prints the first elements of each output, and on stderr the time of the fastest
// run.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/backend_options_map.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::Error;
using executorch::runtime::EValue;

namespace {

struct Arguments {
  const char *path = nullptr;
  std::string method = "forward";
  const char *device = nullptr;  // NULL: the .pte's, else CLAVE_DEVICE, else the best
  int runs = 1;
};

bool parse(int argc, char **argv, Arguments *out) {
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    if (name.compare(0, 2, "--") != 0 && !out->path) {
      out->path = argv[i];
      continue;
    }
    if (i + 1 >= argc) return false;
    const char *value = argv[++i];
    if (name == "--method")
      out->method = value;
    else if (name == "--device")
      out->device = value;
    else if (name == "--runs")
      out->runs = std::atoi(value);
    else
      return false;
  }
  return out->path && out->runs > 0;
}

void fill(Tensor &t) {
  for (ssize_t i = 0; i < t.numel(); i++) {
    if (t.scalar_type() == ScalarType::Float)
      t.mutable_data_ptr<float>()[i] = static_cast<float>(i % 8) / 8;
    else if (t.scalar_type() == ScalarType::Long)
      t.mutable_data_ptr<int64_t>()[i] = i % 2;
  }
}

// Makes tensors for the method's inputs.
Error make_inputs(Module &module, const std::string &method, std::vector<TensorPtr> *out) {
  auto meta = module.method_meta(method);
  if (!meta.ok()) return meta.error();
  for (size_t i = 0; i < meta->num_inputs(); i++) {
    auto info = meta->input_tensor_meta(i);
    if (!info.ok()) return info.error();
    std::vector<executorch::aten::SizesType> sizes(info->sizes().begin(), info->sizes().end());
    std::vector<uint8_t> bytes(info->nbytes());
    out->push_back(
        executorch::extension::make_tensor_ptr(sizes, std::move(bytes), info->scalar_type()));
    fill(*out->back());
  }
  return Error::Ok;
}

void print(const EValue &value) {
  if (!value.isTensor()) return;
  const Tensor t = value.toTensor();
  std::printf("(");
  for (ssize_t k = 0; k < t.dim(); k++) std::printf(k ? ", %d" : "%d", int(t.size(k)));
  std::printf(")");
  for (ssize_t i = 0; i < t.numel() && i < 10 && t.scalar_type() == ScalarType::Float; i++)
    std::printf(" %.6g", double(t.const_data_ptr<float>()[i]));
  std::printf("\n");
}

Error run(const Arguments &args) {
  Module module(args.path);
  executorch::runtime::BackendOptions<1> options;
  executorch::runtime::LoadBackendOptionsMap of_backends;
  if (args.device) {
    Error e = options.set_option("device", args.device);
    if (e == Error::Ok) e = of_backends.set_options("ClaveBackend", options.view());
    if (e == Error::Ok) e = module.load(of_backends);
    if (e != Error::Ok) return e;
  }
  std::vector<TensorPtr> inputs;
  if (Error e = make_inputs(module, args.method, &inputs); e != Error::Ok) return e;
  const std::vector<EValue> values(inputs.begin(), inputs.end());
  double best = 1e9;
  for (int i = 0; i < args.runs; i++) {
    const auto start = std::chrono::steady_clock::now();
    auto outputs = module.execute(args.method, values);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (!outputs.ok()) return outputs.error();
    best = took.count() < best ? took.count() : best;
    for (const EValue &value : *outputs)
      if (i == args.runs - 1) print(value);
  }
  std::fprintf(stderr, "%.3f ms\n", best);
  return Error::Ok;
}

}  // namespace

int main(int argc, char **argv) {
  Arguments args;
  if (!parse(argc, argv, &args)) {
    std::fprintf(stderr, "usage: run_pte model.pte [--method NAME] [--device SPEC] [--runs N]\n");
    return 2;
  }
  const Error e = run(args);
  if (e != Error::Ok) std::fprintf(stderr, "%s: ExecuTorch's error %#x\n", args.path, int(e));
  return e == Error::Ok ? 0 : 1;
}
