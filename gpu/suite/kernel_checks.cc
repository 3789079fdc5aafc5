#include "gpu/suite/kernel_checks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/dtype.h"
#include "framework/reduction_test_data.h"
#include "gpu/gpu_local_reference.h"
#include "gpu/gpu_reduction.h"
#include "gpu/gpu_runtime.h"
#include "gpu/suite/gpu_image.h"
#include "gpu/suite/suite_machine.h"

namespace tutti {
namespace {

constexpr int kMost = kMaxGpuBuffers;
constexpr int64_t kLengths[] = {0, 1, 3, 127, 4099};

// How buffers lie to multiples of 16 bytes.
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
  return absl::StrCat(test.num_inputs, " inputs and ", test.num_outputs,
                      " outputs of ", test.num_elements, " elements",
                      test.is_average ? ", average" : "",
                      test.in_place ? ", in place" : "", ", alignment ",
                      static_cast<int>(test.lie), ", seed ", test.seed);
}

absl::Status RunReduce(SuiteMachine& machine, int gpu, const ReduceCase& test) {
  const DType dtype = test.pair.dtype;
  const auto length = static_cast<size_t>(test.num_elements);
  GpuImage image;
  std::vector<Bytes> inputs;
  std::vector<int> input_regions, output_regions;
  for (int i = 0; i < test.num_inputs; ++i) {
    inputs.push_back(RandomElements(dtype, length, 100 * test.seed + i));
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
  return image.Run(machine, gpu, [&](void* memory, GpuStream stream) {
    GpuReduction reduction = {.kind = test.pair.kind,
                              .dtype = dtype,
                              .num_elements = length,
                              .divisor = divisor};
    for (const int region : input_regions) {
      reduction.inputs.push_back(image.Place(region, memory));
    }
    for (const int region : output_regions) {
      reduction.outputs.push_back(image.Place(region, memory));
    }
    return machine.runtime().LaunchReduce(reduction, stream);
  });
}

// All numbers of inputs and short lengths, and some long buffers.
std::vector<ReduceCase> ReduceCases(const ReductionPair& pair,
                                    const CheckScale& scale) {
  std::vector<ReduceCase> cases;
  const auto add = [&](int num_inputs, int64_t num_elements) {
    const int seed = static_cast<int>(cases.size());
    cases.push_back({.pair = pair,
                     .num_inputs = num_inputs,
                     .num_outputs = 1 + (seed * 3 + num_inputs) % kMost,
                     .num_elements = num_elements,
                     .is_average = seed % 2 == 1,
                     .in_place = seed % 3 == 1,
                     .lie = static_cast<Lie>(seed % 3),
                     .seed = seed});
  };
  for (int num_inputs = 1; num_inputs <= kMost; ++num_inputs) {
    for (const int64_t length : kLengths) {
      add(num_inputs, std::min(length, scale.large_elements));
    }
  }
  for (const int num_inputs : {2, 3, 8}) add(num_inputs, scale.large_elements);
  return cases;
}

absl::Status CheckReduce(SuiteMachine& machine, int gpu,
                         const std::vector<ReduceCase>& cases) {
  for (const ReduceCase& test : cases) {
    absl::Status status = During(Describe(test), RunReduce(machine, gpu, test));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunCopy(SuiteMachine& machine, int gpu, int num_outputs,
                     size_t num_bytes, Lie lie) {
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
  return image.Run(machine, gpu, [&](void* memory, GpuStream stream) {
    GpuCopy copy = {.input = image.Place(input, memory),
                    .num_bytes = num_bytes};
    for (const int output : outputs) {
      copy.outputs.push_back(image.Place(output, memory));
    }
    return machine.runtime().LaunchCopy(copy, stream);
  });
}

absl::Status CheckCopy(SuiteMachine& machine, int gpu,
                       const CheckScale& scale) {
  for (int num_outputs = 1; num_outputs <= kMost; ++num_outputs) {
    for (const int64_t length :
         {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{127}, int64_t{4099},
          scale.large_elements}) {
      for (const Lie lie : {Lie::kAligned, Lie::kAlike, Lie::kEachElse}) {
        absl::Status status =
            During(absl::StrCat(num_outputs, " outputs of ", length,
                                " bytes, alignment ", static_cast<int>(lie)),
                   RunCopy(machine, gpu, num_outputs,
                           static_cast<size_t>(length), lie));
        if (!status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Check> KernelChecks(int gpu, const CheckScale& scale) {
  std::vector<Check> checks;
  const auto add = [&](const std::string& what, auto run) {
    checks.push_back({.name = absl::StrCat("kernels of GPU ", gpu, ": ", what),
                      .run = std::move(run)});
  };
  for (const ReductionPair& pair : SupportedPairs()) {
    add(Describe(pair), [gpu, pair, scale](SuiteMachine& machine) {
      return CheckReduce(machine, gpu, ReduceCases(pair, scale));
    });
  }
  add("copy", [gpu, scale](SuiteMachine& machine) {
    return CheckCopy(machine, gpu, scale);
  });
  return checks;
}

}  // namespace tutti
