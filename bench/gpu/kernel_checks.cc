#include "bench/gpu/kernel_checks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/suite_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/passes/gpu_local_reference.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int kMost = kMaxGpuBuffers;
constexpr int64_t kOddLength = 4099;

// Gets what `launch` puts on a stream to run there.
using Launcher = absl::FunctionRef<absl::Status(
    GpuStream stream, absl::FunctionRef<absl::Status()> launch)>;

absl::Status LaunchAtOnce(GpuStream /*stream*/,
                          absl::FunctionRef<absl::Status()> launch) {
  return launch();
}

// A Launcher that captures it and replays the graph once. The stream is past it
// before this goes or captures more.
class Replay {
 public:
  explicit Replay(GpuTiming& timing) : timing_(timing) {}

  absl::Status operator()(GpuStream stream,
                          absl::FunctionRef<absl::Status()> launch) {
    auto graph = timing_.Capture(stream, launch);
    if (!graph.ok()) return graph.status();
    graph_ = *std::move(graph);
    return graph_->Launch(stream);
  }

 private:
  GpuTiming& timing_;
  std::unique_ptr<GpuGraph> graph_;
};

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

absl::Status RunReduce(SuiteMachine& machine, int gpu, const ReduceCase& test,
                       Launcher launcher) {
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
    return launcher(stream, [&] {
      return machine.runtime().LaunchReduce(reduction, stream);
    });
  });
}

// What the seed says of everything else.
ReduceCase CaseOf(const ReductionPair& pair, int num_inputs,
                  int64_t num_elements, int seed) {
  return {.pair = pair,
          .num_inputs = num_inputs,
          .num_outputs = 1 + (seed * 3 + num_inputs) % kMost,
          .num_elements = num_elements,
          .is_average = seed % 2 == 1,
          .in_place = seed % 3 == 1,
          .lie = static_cast<Lie>(seed % 3),
          .seed = seed};
}

// All numbers of inputs with each length.
std::vector<ReduceCase> CasesOf(const ReductionPair& pair,
                                const std::vector<int64_t>& lengths) {
  std::vector<ReduceCase> cases;
  for (int num_inputs = 1; num_inputs <= kMost; ++num_inputs) {
    for (const int64_t length : lengths) {
      cases.push_back(
          CaseOf(pair, num_inputs, length, static_cast<int>(cases.size())));
    }
  }
  return cases;
}

// Those of short lengths, and some long buffers.
std::vector<ReduceCase> ReduceCases(const ReductionPair& pair,
                                    const CheckScale& scale) {
  const int64_t most = scale.large_elements;
  std::vector<ReduceCase> cases = CasesOf(
      pair,
      {0, 1, 3, std::min<int64_t>(127, most), std::min(kOddLength, most)});
  for (const int num_inputs : {2, 3, 8}) {
    cases.push_back(
        CaseOf(pair, num_inputs, most, static_cast<int>(cases.size())));
  }
  return cases;
}

absl::Status CheckReduce(SuiteMachine& machine, int gpu,
                         const std::vector<ReduceCase>& cases,
                         Launcher launcher) {
  for (const ReduceCase& test : cases) {
    absl::Status status =
        During(Describe(test), RunReduce(machine, gpu, test, launcher));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

struct CopyCase {
  int num_outputs = 1;
  int64_t num_bytes = 0;
  Lie lie = Lie::kAligned;
};

std::string Describe(const CopyCase& test) {
  return absl::StrCat(test.num_outputs, " outputs of ", test.num_bytes,
                      " bytes, alignment ", static_cast<int>(test.lie));
}

absl::Status RunCopy(SuiteMachine& machine, int gpu, const CopyCase& test,
                     Launcher launcher) {
  const auto num_bytes = static_cast<size_t>(test.num_bytes);
  const int seed = test.num_outputs + static_cast<int>(num_bytes % 15);
  GpuImage image;
  const Bytes bytes = RandomElements(DType::kUint8, num_bytes, seed);
  const int input = image.Add("input", bytes, Misalignment(test.lie, 0, seed));
  std::vector<int> outputs;
  for (int i = 0; i < test.num_outputs; ++i) {
    outputs.push_back(image.Add(absl::StrCat("output ", i),
                                Bytes(num_bytes, 0x5A),
                                Misalignment(test.lie, i + 1, seed)));
    image.Expect(outputs.back(), bytes);
  }
  return image.Run(machine, gpu, [&](void* memory, GpuStream stream) {
    GpuCopy copy = {.input = image.Place(input, memory),
                    .num_bytes = num_bytes};
    for (const int output : outputs) {
      copy.outputs.push_back(image.Place(output, memory));
    }
    return launcher(stream,
                    [&] { return machine.runtime().LaunchCopy(copy, stream); });
  });
}

// Of these lengths.
std::vector<CopyCase> CopyCases(const std::vector<int64_t>& lengths) {
  std::vector<CopyCase> cases;
  for (int num_outputs = 1; num_outputs <= kMost; ++num_outputs) {
    for (const int64_t length : lengths) {
      for (const Lie lie : {Lie::kAligned, Lie::kAlike, Lie::kEachElse}) {
        cases.push_back({num_outputs, length, lie});
      }
    }
  }
  return cases;
}

absl::Status CheckCopy(SuiteMachine& machine, int gpu,
                       const std::vector<CopyCase>& cases, Launcher launcher) {
  for (const CopyCase& test : cases) {
    absl::Status status =
        During(Describe(test), RunCopy(machine, gpu, test, launcher));
    if (!status.ok()) return status;
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
      return CheckReduce(machine, gpu, ReduceCases(pair, scale), LaunchAtOnce);
    });
  }
  add("copy", [gpu, scale](SuiteMachine& machine) {
    return CheckCopy(
        machine, gpu,
        CopyCases({0, 1, 3, 127, kOddLength, scale.large_elements}),
        LaunchAtOnce);
  });
  return checks;
}

std::vector<Check> GraphChecks(GpuTiming& timing, const CheckScale& scale) {
  const int64_t length = std::min(kOddLength, scale.large_elements);
  const auto reduce = [&timing, length](SuiteMachine& machine) -> absl::Status {
    Replay replay(timing);
    for (const ReductionPair& pair : SupportedPairs()) {
      absl::Status status =
          During(Describe(pair),
                 CheckReduce(machine, /*gpu=*/0, CasesOf(pair, {length}),
                             std::ref(replay)));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  };
  const auto copy = [&timing, length](SuiteMachine& machine) -> absl::Status {
    Replay replay(timing);
    return CheckCopy(machine, /*gpu=*/0, CopyCases({length}), std::ref(replay));
  };
  return {{.name = "kernels of GPU 0: reductions in graphs", .run = reduce},
          {.name = "kernels of GPU 0: copies in graphs", .run = copy}};
}

}  // namespace tutti
