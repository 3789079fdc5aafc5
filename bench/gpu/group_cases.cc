#include "bench/gpu/group_cases.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_image.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/gpu_cases.h"
#include "gtest/gtest.h"
#include "tests/conformance/case_lists.h"
#include "tests/conformance/expectation.h"
#include "tutti/collective.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::Expectation;
using conformance::ImplementationUnderTest;

// First elements of tensors in their memory, in turn.
constexpr int64_t kAlignments = 3;

void RunCase(GpuGroup& group, const ImplementationUnderTest& under_test,
             const Case& c, int64_t key, ReadBack read_back) {
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/key);
  const auto expected = Expectation::Create(under_test, c, inputs).value();
  const auto requests = RequestsOf(c, under_test.name, key);
  const auto has_output = [&](int rank) {
    return HasOutput(c.type, rank, c.root);
  };
  std::vector<CaseBuffers> buffers(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    const int device = DeviceIndex(c, rank);
    buffers[rank] = MakeCaseBuffers(c, rank, [&](int64_t num_elements) {
      return group.Allocate(device, c.dtype, num_elements, key % kAlignments);
    });
    if (buffers[rank].input.is_set()) {
      group.Write(device, buffers[rank].input, Joined({(*inputs)[rank]}));
    }
    CollectiveRequest request = *requests[rank];
    request.device_type = CudaDevice::kType;
    group.Call(device, request, buffers[rank].input,
               has_output(rank) ? &buffers[rank].output : nullptr);
  }
  // An output that the library allocates comes with the end.
  if (read_back == ReadBack::kWhenDone || c.allocates_output) group.Finish();
  std::vector<const uint8_t*> found(buffers.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!has_output(rank)) continue;
    found[rank] = group.Read(DeviceIndex(c, rank), buffers[rank].output);
  }
  group.Finish();
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!has_output(rank)) continue;
    const Bytes wanted = Joined(expected->output(rank));
    ASSERT_EQ(wanted.size(), buffers[rank].output.size_bytes());
    Ok(CompareBytes(absl::StrCat("rank ", rank), wanted, found[rank]));
  }
}

}  // namespace

ImplementationUnderTest FindUnderTest(const std::string& name) {
  ImplementationUnderTest under_test;
  under_test.name = name;
  under_test.tier = conformance::Tier::kDeep;
  under_test.factory = CollectiveRegistry::Global().Find(name).value();
  return under_test;
}

conformance::Grid GridOf(const GpuGroup& group) {
  return {.tasks = group.num_tasks(), .devices = group.devices_per_task()};
}

std::vector<Case> CasesOf(const ImplementationUnderTest& under_test,
                          const conformance::Grid& grid,
                          const CheckScale& scale) {
  constexpr int64_t kOddLength = 7;
  std::vector<Case> cases;
  for (const CollectiveType type : under_test.traits().collectives) {
    for (const auto& part :
         {LengthCases(under_test, type, grid),
          SpecialCases(under_test, type, grid),
          Reduces(type) ? ReductionCases(under_test, type, grid)
                        : std::vector<Case>(),
          MatrixCases(under_test, type, grid, kOddLength)}) {
      std::copy_if(part.begin(), part.end(), std::back_inserter(cases),
                   [&](const Case& c) {
                     return RunsAlike(c) && !HasCustomOp(c) &&
                            c.length <= scale.large_elements;
                   });
    }
  }
  return cases;
}

void AddLargeCases(const ImplementationUnderTest& under_test,
                   const conformance::Grid& grid, const CheckScale& scale,
                   std::vector<Case>* cases) {
  for (const CollectiveType type : under_test.traits().collectives) {
    Case large = LengthCases(under_test, type, grid).front();
    large.dtype = DType::kFloat64;
    large.length = scale.large_elements;
    if (conformance::HasBlocks(type)) large.length /= grid.size();
    cases->push_back(std::move(large));
  }
}

void RunCases(GpuGroup& group, const ImplementationUnderTest& under_test,
              const std::vector<Case>& cases, ReadBack read_back) {
  int64_t key = 0;
  for (const Case& c : cases) {
    if (!Passes(ToString(c),
                [&] { RunCase(group, under_test, c, ++key, read_back); })) {
      return;
    }
  }
}

}  // namespace tutti
