// Compares the reduction kernels with memcpy, which writes as many bytes but
// reads one buffer instead of two. Unless stated otherwise, bytes_per_second
// counts the bytes written.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Sizes that fit the first-level cache, the second-level cache, and no cache.
constexpr int64_t kSizesBytes[] = {4 << 10, 256 << 10, 16 << 20};

// Filled with zeros: the kernels' speed does not depend on the values.
using Buffer = std::vector<uint8_t>;

void SetBytesWritten(benchmark::State& state, size_t size_bytes) {
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * size_bytes));
}

void Memcpy(benchmark::State& state) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  const Buffer from(size_bytes);
  Buffer to(size_bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size_bytes);
    benchmark::ClobberMemory();
  }
  SetBytesWritten(state, size_bytes);
}

void ReduceInto(benchmark::State& state, ReductionKind kind, DType dtype) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  const Buffer left(size_bytes), right(size_bytes);
  Buffer into(size_bytes);
  for (auto _ : state) {
    Reduce(kind, dtype, left.data(), right.data(), into.data(),
           size_bytes / SizeOf(dtype));
    benchmark::ClobberMemory();
  }
  SetBytesWritten(state, size_bytes);
}

void ReduceInPlace(benchmark::State& state, ReductionKind kind, DType dtype) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  const Buffer left(size_bytes);
  Buffer right(size_bytes);
  for (auto _ : state) {
    Reduce(kind, dtype, left.data(), right.data(), right.data(),
           size_bytes / SizeOf(dtype));
    benchmark::ClobberMemory();
  }
  SetBytesWritten(state, size_bytes);
}

void Divide(benchmark::State& state, DType dtype) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  Buffer values(size_bytes);
  for (auto _ : state) {
    DivideBy(dtype, values.data(), size_bytes / SizeOf(dtype), 3);
    benchmark::ClobberMemory();
  }
  SetBytesWritten(state, size_bytes);
}

void FewElements(benchmark::State& state, DType dtype) {
  const auto num_elements = static_cast<size_t>(state.range(0));
  const Buffer left(num_elements * SizeOf(dtype)), right(left.size());
  Buffer into(left.size());
  for (auto _ : state) {
    Reduce(ReductionKind::kSum, dtype, left.data(), right.data(), into.data(),
           num_elements);
    benchmark::ClobberMemory();
  }
}

// Reduces `num_buffers` inputs, as for members of one process, into as many
// separate outputs or in place. bytes_per_second counts the bytes read and
// written.
void Fold(benchmark::State& state, DType dtype, bool in_place) {
  const auto num_buffers = static_cast<size_t>(state.range(0));
  const size_t size_bytes = static_cast<size_t>(state.range(1)) / num_buffers;
  std::vector<Tensor> tensors;
  std::vector<const uint8_t*> inputs;
  std::vector<uint8_t*> outputs;
  for (size_t i = 0; i < (in_place ? 1 : 2) * num_buffers; ++i) {
    Tensor& tensor = tensors.emplace_back(*Tensor::Allocate(
        dtype,
        TensorShape::Vector(static_cast<int64_t>(size_bytes / SizeOf(dtype)))));
    std::memset(tensor.mutable_data(), 0, size_bytes);
    auto* const data = reinterpret_cast<uint8_t*>(tensor.mutable_data());
    if (i < num_buffers) inputs.push_back(data);
    if (in_place || i >= num_buffers) outputs.push_back(data);
  }
  for (auto _ : state) {
    ReduceMany({.dtype = dtype,
                .inputs = inputs,
                .outputs = outputs,
                .num_elements = size_bytes / SizeOf(dtype)});
    benchmark::ClobberMemory();
  }
  SetBytesWritten(state, 2 * num_buffers * size_bytes);
}

void AddOne(const float* left, const float* right, float* into) {
  *into = *left + *right;
}

// Floor under FewElements: one call through a pointer.
void FunctionPointer(benchmark::State& state) {
  auto* add_one = AddOne;
  benchmark::DoNotOptimize(add_one);
  const Buffer left(sizeof(float)), right(sizeof(float));
  Buffer into(sizeof(float));
  for (auto _ : state) {
    add_one(reinterpret_cast<const float*>(left.data()),
            reinterpret_cast<const float*>(right.data()),
            reinterpret_cast<float*>(into.data()));
    benchmark::ClobberMemory();
  }
}

void OfEverySize(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("bytes");
  for (int64_t size_bytes : kSizesBytes) benchmark->Arg(size_bytes);
}

// Keeps the sum of all inputs' bytes equal for every number of inputs.
void RegisterFold(DType dtype, bool in_place) {
  benchmark::RegisterBenchmark(
      absl::StrCat(in_place ? "FoldInPlace/" : "Fold/", Name(dtype)).c_str(),
      Fold, dtype, in_place)
      ->ArgNames({"buffers", "bytes"})
      ->ArgsProduct({{2, 8, 9, 16, 32, 64}, {128 << 10, 1 << 20, 32 << 20}});
}

void RegisterReduce(ReductionKind kind, DType dtype) {
  const std::string suffix = absl::StrCat(Name(kind), "/", Name(dtype));
  OfEverySize(benchmark::RegisterBenchmark(
      absl::StrCat("Reduce/", suffix).c_str(), ReduceInto, kind, dtype));
  OfEverySize(benchmark::RegisterBenchmark(
      absl::StrCat("ReduceInPlace/", suffix).c_str(), ReduceInPlace, kind,
      dtype));
}

void RegisterAll() {
  OfEverySize(benchmark::RegisterBenchmark("Memcpy", Memcpy));
  for (ReductionKind kind : kAllReductionKinds) {
    for (DType dtype : kAllDTypes) {
      const bool is_of_interest = kind == ReductionKind::kSum ||
                                  dtype == DType::kFloat32 ||
                                  kind == ReductionKind::kBand;
      if (is_of_interest && CheckSupported(kind, dtype).ok()) {
        RegisterReduce(kind, dtype);
      }
    }
  }
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    RegisterFold(dtype, /*in_place=*/false);
    RegisterFold(dtype, /*in_place=*/true);
  }
  benchmark::RegisterBenchmark("FunctionPointer", FunctionPointer);
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    OfEverySize(benchmark::RegisterBenchmark(
        absl::StrCat("DivideBy/", Name(dtype)).c_str(), Divide, dtype));
    benchmark::RegisterBenchmark(
        absl::StrCat("FewElements/", Name(dtype)).c_str(), FewElements, dtype)
        ->ArgName("elements")
        ->Arg(1)
        ->Arg(7)
        ->Arg(15)
        ->Arg(63);
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tutti::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
