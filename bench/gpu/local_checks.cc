#include "bench/gpu/local_checks.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/group_cases.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/suite_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/passes/gpu_local_reference.h"
#include "schedule/proof/verifier.h"
#include "tests/conformance/case.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;

std::vector<Bytes> RandomInputs(DType dtype, int num_ranks, int64_t length,
                                int64_t seed) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < num_ranks; ++rank) {
    inputs.push_back(RandomElements(dtype, static_cast<size_t>(length),
                                    static_cast<uint64_t>(100 * seed + rank)));
  }
  return inputs;
}

// What the members bring and get in one call.
struct Part {
  CollectiveRequest request;
  Tensor input, output;
  bool has_output = true;
  const uint8_t* found = nullptr;
};

// All members call, read their outputs and must find `wanted`.
absl::Status CallAndCompare(SuiteGroup& group, std::vector<Part> parts,
                            const Bytes& wanted) {
  for (int rank = 0; rank < group.size(); ++rank) {
    Part& part = parts[rank];
    group.Call(rank, part.request, part.input,
               part.has_output ? &part.output : nullptr);
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    Part& part = parts[rank];
    if (part.has_output) part.found = group.Read(rank, part.output);
  }
  absl::Status status = group.Finish();
  for (int rank = 0; status.ok() && rank < group.size(); ++rank) {
    const Part& part = parts[rank];
    if (!part.has_output) continue;
    const size_t size = part.output.size_bytes();
    if (size != wanted.size()) {
      return absl::InternalError(absl::StrCat("rank ", rank, " has ", size,
                                              " bytes, not ", wanted.size()));
    }
    status = CompareBytes(absl::StrCat("rank ", rank), wanted, part.found);
  }
  return status;
}

struct ReduceCase {
  ReductionPair pair = {ReductionKind::kSum, DType::kFloat32};
  int64_t num_elements = 0;
  bool is_average = false;
  bool in_place = false;
  int root = -1;        // None: all_reduce.
  int64_t skipped = 0;  // Elements before the tensors, in their memory.
  int64_t seed = 0;
};

std::string Describe(const ReduceCase& test) {
  return absl::StrCat(Describe(test.pair), ", ", test.num_elements, " elements",
                      test.is_average ? ", average" : "",
                      test.in_place ? ", in place" : "", ", root ", test.root,
                      ", begins at element ", test.skipped);
}

// A tensor that begins `skipped` elements into memory of its own.
Tensor AllocateSlice(SuiteGroup& group, int rank, const ReduceCase& test) {
  const int64_t end = test.skipped + test.num_elements;
  const Tensor whole = group.Allocate(rank, test.pair.dtype, end);
  if (!whole.is_set()) return whole;
  return whole.Slice(test.skipped, end).value_or(whole);
}

absl::Status RunReduce(SuiteGroup& group, const ReduceCase& test) {
  const std::vector<Bytes> inputs =
      RandomInputs(test.pair.dtype, group.size(), test.num_elements, test.seed);
  CollectiveRequest request =
      group.Request(AllReduce{}, test.pair.dtype, test.num_elements);
  if (test.root >= 0) request.op = ReduceToRoot{.root = test.root};
  request.impl_details.implementation = "GpuLocalReduce";
  request.merge_op = test.pair.kind;
  if (test.is_average) request.final_op = FinalOp::DivideByGroupSize();
  std::vector<Part> parts(inputs.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    Part& part = parts[rank];
    part.request = request;
    part.has_output = test.root < 0 || rank == test.root;
    part.input = AllocateSlice(group, rank, test);
    part.output = test.in_place ? part.input : AllocateSlice(group, rank, test);
    group.Write(rank, part.input, inputs[rank]);
  }
  return CallAndCompare(
      group, std::move(parts),
      ReferenceGpuLocalReduce(test.pair, inputs, test.is_average));
}

absl::Status CheckReduce(SuiteGroup& group, const CheckScale& scale) {
  std::vector<ReduceCase> cases;
  const auto add = [&](ReduceCase test) {
    test.seed = static_cast<int64_t>(cases.size());
    cases.push_back(test);
  };
  for (const ReductionPair& pair : SupportedPairs()) {
    for (const int64_t length : {1, 3, 127}) {
      const auto turn = static_cast<int64_t>(cases.size());
      add({.pair = pair,
           .num_elements = length,
           .is_average = turn % 2 == 0,
           .in_place = turn % 3 == 0,
           .skipped = turn % 8});
    }
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool in_place : {false, true}) {
      add({.pair = {ReductionKind::kSum, dtype},
           .num_elements = scale.large_elements,
           .in_place = in_place,
           .skipped = in_place ? 1 : 0});
    }
  }
  for (int root = 0; root < group.size(); ++root) {
    add({.num_elements = 127, .in_place = root % 2 == 0, .root = root});
  }
  add({.num_elements = 0});
  for (const ReduceCase& test : cases) {
    absl::Status status = During(Describe(test), RunReduce(group, test));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Of what only moves bytes: the cases, and one of many bytes for each
// collective.
absl::Status CheckMovement(SuiteGroup& group, const std::string& name,
                           const CheckScale& scale) {
  const auto under_test = FindUnderTest(name);
  if (!under_test.ok()) return under_test.status();
  const conformance::Grid grid = GridOf(group);
  std::vector<Case> cases = CasesOf(*under_test, grid, scale);
  for (const CollectiveType type : under_test->traits().collectives) {
    const int64_t num_blocks = conformance::HasBlocks(type) ? grid.size() : 1;
    cases.push_back({.type = type,
                     .grid = grid,
                     .length = scale.large_elements / num_blocks,
                     .root = grid.size() - 1,
                     .in_place = InPlace::kEvenRanks});
  }
  return RunCases(group, *under_test, cases, ReadBack::kAtOnce);
}

absl::Status CheckBroadcast(SuiteGroup& group, const CheckScale& scale) {
  return CheckMovement(group, "GpuLocalBroadcast", scale);
}

absl::Status CheckGather(SuiteGroup& group, const CheckScale& scale) {
  return CheckMovement(group, "GpuLocalGather", scale);
}

// In place, many under way at once: outputs of one are inputs of the next.
absl::Status CheckInARow(SuiteGroup& group, const CheckScale& scale) {
  constexpr int64_t kElements = 1001;
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kInt32, kElements);
  request.impl_details.implementation = "GpuLocalReduce";
  std::vector<Bytes> inputs =
      RandomInputs(DType::kInt32, group.size(), kElements, /*seed=*/1);
  std::vector<Tensor> tensors;
  for (int rank = 0; rank < group.size(); ++rank) {
    tensors.push_back(group.Allocate(rank, DType::kInt32, kElements));
    group.Write(rank, tensors[rank], inputs[rank]);
  }
  for (int round = 0; round < scale.rounds; ++round) {
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank, request, tensors[rank], &tensors[rank]);
    }
    const Bytes sum = ReferenceGpuLocalReduce(
        {ReductionKind::kSum, DType::kInt32}, inputs, /*is_average=*/false);
    inputs.assign(inputs.size(), sum);
  }
  std::vector<const uint8_t*> found;
  for (int rank = 0; rank < group.size(); ++rank) {
    found.push_back(group.Read(rank, tensors[rank]));
  }
  absl::Status status = group.Finish();
  for (int rank = 0; status.ok() && rank < group.size(); ++rank) {
    status =
        CompareBytes(absl::StrCat("rank ", rank), inputs[rank], found[rank]);
  }
  return status;
}

using GroupCheck = absl::Status (*)(SuiteGroup& group, const CheckScale& scale);

}  // namespace

std::vector<Check> LocalChecks(const GroupShape& shape,
                               const CheckScale& scale) {
  const std::pair<const char*, GroupCheck> kParts[] = {
      {"GpuLocalReduce", &CheckReduce},
      {"GpuLocalReduce, many in a row", &CheckInARow},
      {"GpuLocalBroadcast", &CheckBroadcast},
      {"GpuLocalGather", &CheckGather},
  };
  std::vector<Check> checks;
  for (const auto& [name, check] : kParts) {
    checks.push_back(
        {.name = absl::StrCat(shape.num_gpus, " GPUs of ",
                              shape.devices_per_gpu, " devices: ", name),
         .run = [shape, scale, check = check](SuiteMachine& machine) {
           const auto group = SuiteGroup::Create(machine, shape.num_gpus,
                                                 shape.devices_per_gpu);
           if (!group.ok()) return group.status();
           return check(**group, scale);
         }});
  }
  return checks;
}

}  // namespace tutti
