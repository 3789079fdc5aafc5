// Kernels of GpuRuntime::LaunchReduce() and LaunchCopy() on each GPU, and that
// they write nothing else: every dtype and reduction, 1 to 8 inputs and
// outputs, odd lengths, buffers that lie alike and not, averages, outputs that
// are inputs. The results are those of
// framework/reduce/reduction_reference_testing.h, bit by bit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/gpu_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/testing/gpu_reference.h"
#include "gtest/gtest.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int kMost = kMaxGpuBuffers;
constexpr int64_t kOddLength = 4099;

// Alignment of buffers to multiples of 16 bytes.
enum class Lie { kAligned, kAlike, kEachElse };

size_t Misalignment(Lie lie, int buffer, int seed) {
  switch (lie) {
    case Lie::kAligned:
      return 0;
    case Lie::kAlike:
      return 1 + static_cast<size_t>(seed) % 15;
    case Lie::kEachElse:
      return static_cast<size_t>(seed + 3 * buffer) % 16;
  }
  return 0;
}

struct ReduceCase {
  ReductionPair pair;
  int num_inputs = 1;
  int num_outputs = 1;
  int64_t num_elements = 0;
  bool is_average = false;
  bool in_place = false;  // The last input is the first output.
  Lie lie = Lie::kAligned;
  int seed = 0;
};

std::string Describe(const ReduceCase& test) {
  return absl::StrCat(
      Describe(test.pair), ", ", test.num_inputs, " inputs and ",
      test.num_outputs, " outputs of ", test.num_elements, " elements",
      test.is_average ? ", average" : "", test.in_place ? ", in place" : "",
      ", alignment ", static_cast<int>(test.lie), ", seed ", test.seed);
}

// All numbers of inputs with each length. All else follows from the seed.
std::vector<ReduceCase> CasesOf(const ReductionPair& pair,
                                absl::Span<const int> numbers,
                                const std::vector<int64_t>& lengths) {
  std::vector<ReduceCase> cases;
  for (const int num_inputs : numbers) {
    for (const int64_t length : lengths) {
      const int seed = static_cast<int>(cases.size());
      cases.push_back({.pair = pair,
                       .num_inputs = num_inputs,
                       .num_outputs = 1 + (seed * 3 + num_inputs) % kMost,
                       .num_elements = length,
                       .is_average = seed % 2 == 1,
                       .in_place = seed % 3 == 1,
                       .lie = static_cast<Lie>(seed % 3),
                       .seed = seed});
    }
  }
  return cases;
}

constexpr int kAllNumbers[] = {1, 2, 3, 4, 5, 6, 7, 8};

// Puts on a stream what `launch` puts there.
using Launcher =
    std::function<void(GpuStream, absl::FunctionRef<absl::Status()> launch)>;

void LaunchAtOnce(GpuStream /*stream*/,
                  absl::FunctionRef<absl::Status()> launch) {
  Ok(launch());
}

class KernelCheck : public GpuCheck {
 protected:
  // Length of the longest buffers. GPUs are alike, and only GPU 0 gets all.
  int64_t LargeElements(int gpu) const {
    return gpu == 0 ? scale().large_elements
                    : std::min<int64_t>(10'007, scale().large_elements);
  }

  void CheckReduce(int gpu, const std::vector<ReduceCase>& cases,
                   const Launcher& launcher) {
    for (const ReduceCase& test : cases) {
      if (!Passes(Describe(test), [&] { Reduce(gpu, test, launcher); })) return;
    }
  }

  void CheckCopy(int gpu, const std::vector<int64_t>& lengths,
                 const Launcher& launcher) {
    for (const int64_t length : lengths) {
      for (int num_outputs = 1; num_outputs <= kMost; ++num_outputs) {
        for (const Lie lie : {Lie::kAligned, Lie::kAlike, Lie::kEachElse}) {
          const std::string name =
              absl::StrCat(num_outputs, " outputs of ", length,
                           " bytes, alignment ", static_cast<int>(lie));
          const auto run = [&] {
            Copy(gpu, num_outputs, length, lie, launcher);
          };
          if (!Passes(name, run)) return;
        }
      }
    }
  }

 private:
  void Reduce(int gpu, const ReduceCase& test, const Launcher& launcher);
  void Copy(int gpu, int num_outputs, int64_t length, Lie lie,
            const Launcher& launcher);
};

void KernelCheck::Reduce(int gpu, const ReduceCase& test,
                         const Launcher& launcher) {
  const auto length = static_cast<size_t>(test.num_elements);
  GpuImage image;
  std::vector<Bytes> inputs;
  std::vector<int> input_regions, output_regions;
  for (int i = 0; i < test.num_inputs; ++i) {
    inputs.push_back(
        RandomElements(test.pair.dtype, length, 100 * test.seed + i));
    input_regions.push_back(image.Add(absl::StrCat("input ", i), inputs[i],
                                      Misalignment(test.lie, i, test.seed)));
  }
  const int64_t divisor = test.is_average ? test.num_inputs : 1;
  const Bytes wanted =
      ReferenceReduceInPasses(test.pair, inputs, kMost, divisor);
  if (test.in_place) output_regions.push_back(input_regions.back());
  for (int i = test.in_place ? 1 : 0; i < test.num_outputs; ++i) {
    output_regions.push_back(
        image.Add(absl::StrCat("output ", i), Bytes(wanted.size(), 0x5A),
                  Misalignment(test.lie, kMost + i, test.seed)));
  }
  for (const int region : output_regions) image.Expect(region, wanted);
  image.Run(machine(), gpu, [&](void* memory, GpuStream stream) {
    GpuReduction reduction = {.kind = test.pair.kind,
                              .dtype = test.pair.dtype,
                              .num_elements = length,
                              .divisor = divisor};
    for (const int region : input_regions) {
      reduction.inputs.push_back(image.Place(region, memory));
    }
    for (const int region : output_regions) {
      reduction.outputs.push_back(image.Place(region, memory));
    }
    launcher(stream, [&] { return runtime().LaunchReduce(reduction, stream); });
  });
}

void KernelCheck::Copy(int gpu, int num_outputs, int64_t length, Lie lie,
                       const Launcher& launcher) {
  const auto num_bytes = static_cast<size_t>(length);
  const int seed = num_outputs + static_cast<int>(num_bytes % 15);
  GpuImage image;
  const Bytes bytes = RandomElements(DType::kUint8, num_bytes, seed);
  const int input = image.Add("input", bytes, Misalignment(lie, 0, seed));
  std::vector<int> outputs;
  for (int i = 0; i < num_outputs; ++i) {
    outputs.push_back(image.Add(absl::StrCat("output ", i),
                                Bytes(num_bytes, 0x5A),
                                Misalignment(lie, i + 1, seed)));
    image.Expect(outputs.back(), bytes);
  }
  image.Run(machine(), gpu, [&](void* memory, GpuStream stream) {
    GpuCopy copy = {.input = image.Place(input, memory),
                    .num_bytes = num_bytes};
    for (const int output : outputs) {
      copy.outputs.push_back(image.Place(output, memory));
    }
    launcher(stream, [&] { return runtime().LaunchCopy(copy, stream); });
  });
}

class ReduceKernels
    : public KernelCheck,
      public ::testing::WithParamInterface<std::tuple<int, ReductionPair>> {};

TEST_P(ReduceKernels, WriteTheReferenceAndNothingElse) {
  const auto& [gpu, pair] = GetParam();
  const int64_t most = LargeElements(gpu);
  CheckReduce(gpu,
              CasesOf(pair, kAllNumbers,
                      {0, 1, 3, std::min<int64_t>(127, most),
                       std::min(kOddLength, most)}),
              LaunchAtOnce);
  CheckReduce(gpu, CasesOf(pair, {2, 3, 8}, {most}), LaunchAtOnce);
}

INSTANTIATE_TEST_SUITE_P(
    Gpu, ReduceKernels,
    ::testing::Combine(::testing::Range(0, NumGpus()),
                       ::testing::ValuesIn(SupportedPairs())),
    [](const auto& info) {
      return CheckName(absl::StrCat(std::get<0>(info.param), "_",
                                    Describe(std::get<1>(info.param))));
    });

class CopyKernels : public KernelCheck,
                    public ::testing::WithParamInterface<int> {};

TEST_P(CopyKernels, WriteTheInputAndNothingElse) {
  const int gpu = GetParam();
  CheckCopy(gpu, {0, 1, 3, 127, kOddLength, LargeElements(gpu)}, LaunchAtOnce);
}

INSTANTIATE_TEST_SUITE_P(Gpu, CopyKernels, ::testing::Range(0, NumGpus()));

// Kernels as graphs that are replayed once, on GPU 0.
class GraphKernels : public KernelCheck {
 protected:
  // Keeps each graph until its stream is past it.
  Launcher Replay() {
    return [this](GpuStream stream, absl::FunctionRef<absl::Status()> launch) {
      graph_ = machine().timing.Capture(stream, launch).value();
      Ok(graph_->Launch(stream));
    };
  }

  int64_t length() const {
    return std::min(kOddLength, scale().large_elements);
  }

 private:
  std::unique_ptr<GpuGraph> graph_;
};

TEST_F(GraphKernels, Reduce) {
  for (const ReductionPair& pair : SupportedPairs()) {
    CheckReduce(/*gpu=*/0, CasesOf(pair, kAllNumbers, {length()}), Replay());
    if (HasFailure()) return;
  }
}

TEST_F(GraphKernels, Copy) { CheckCopy(/*gpu=*/0, {length()}, Replay()); }

}  // namespace
}  // namespace tutti
