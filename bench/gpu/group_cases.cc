#include "bench/gpu/group_cases.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/gpu/gpu_image.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/gpu_cases.h"
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

// Where tensors begin, in elements: kernels take 16 bytes at a time.
constexpr int64_t kAlignments = 3;

// A tensor that begins `skipped` elements into memory of its own.
Tensor AllocateAt(SuiteGroup& group, int rank, DType dtype, int64_t skipped,
                  int64_t num_elements) {
  const int64_t end = skipped + num_elements;
  const Tensor whole = group.Allocate(rank, dtype, end);
  if (skipped == 0 || !whole.is_set()) return whole;
  return whole.Slice(skipped, end).value_or(whole);
}

// What the members found, compared piece by piece.
absl::Status Compare(SuiteGroup& group, const Case& c,
                     const Expectation& expected,
                     const std::vector<CaseBuffers>& buffers) {
  std::vector<const uint8_t*> found(buffers.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!HasOutput(c.type, rank, c.root)) continue;
    found[rank] = group.Read(DeviceIndex(c, rank), buffers[rank].output);
  }
  absl::Status status = group.Finish();
  for (int rank = 0; status.ok() && rank < group.size(); ++rank) {
    if (!HasOutput(c.type, rank, c.root)) continue;
    const Bytes wanted = Joined(expected.output(rank));
    if (wanted.size() != buffers[rank].output.size_bytes()) {
      return absl::InternalError(absl::StrCat("rank ", rank, " has ",
                                              buffers[rank].output.size_bytes(),
                                              " bytes, not ", wanted.size()));
    }
    status = CompareBytes(absl::StrCat("rank ", rank), wanted, found[rank]);
  }
  return status;
}

absl::Status RunCase(SuiteGroup& group,
                     const ImplementationUnderTest& under_test, const Case& c,
                     int64_t key, ReadBack read_back) {
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/key);
  const auto expected = Expectation::Create(under_test, c, inputs);
  if (!expected.ok()) return expected.status();
  const auto requests = RequestsOf(c, under_test.name, key);
  std::vector<CaseBuffers> buffers(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    const int device = DeviceIndex(c, rank);
    buffers[rank] = MakeCaseBuffers(c, rank, [&](int64_t num_elements) {
      return AllocateAt(group, device, c.dtype, key % kAlignments,
                        num_elements);
    });
    if (buffers[rank].input.is_set()) {
      group.Write(device, buffers[rank].input, Joined({(*inputs)[rank]}));
    }
    CollectiveRequest request = *requests[rank];
    request.device_type = CudaDevice::kType;
    group.Call(
        device, request, buffers[rank].input,
        HasOutput(c.type, rank, c.root) ? &buffers[rank].output : nullptr);
  }
  // Who has no output yet gets it with the end.
  if (read_back == ReadBack::kWhenDone || c.allocates_output) {
    const absl::Status status = group.Finish();
    if (!status.ok()) return status;
  }
  return Compare(group, c, **expected, buffers);
}

}  // namespace

absl::StatusOr<ImplementationUnderTest> FindUnderTest(const std::string& name) {
  auto factory = CollectiveRegistry::Global().Find(name);
  if (!factory.ok()) return factory.status();
  ImplementationUnderTest under_test;
  under_test.name = name;
  under_test.factory = *std::move(factory);
  under_test.tier = conformance::Tier::kDeep;
  return under_test;
}

conformance::Grid GridOf(const SuiteGroup& group) {
  return {.tasks = group.num_tasks(), .devices = group.devices_per_task()};
}

std::vector<Case> CasesOf(const ImplementationUnderTest& under_test,
                          const conformance::Grid& grid,
                          const CheckScale& scale) {
  constexpr int64_t kOddLength = 7;
  ImplementationUnderTest quick = under_test;
  quick.tier = conformance::Tier::kQuick;
  ImplementationUnderTest deep = under_test;
  deep.tier = conformance::Tier::kDeep;
  std::vector<Case> cases;
  for (const CollectiveType type : under_test.traits().collectives) {
    for (const auto& part :
         {LengthCases(quick, type, grid), SpecialCases(quick, type, grid),
          Reduces(type) ? ReductionCases(quick, type, grid)
                        : std::vector<Case>(),
          MatrixCases(deep, type, grid, kOddLength)}) {
      std::copy_if(part.begin(), part.end(), std::back_inserter(cases),
                   [&](const Case& c) {
                     return RunsAlike(c) && c.length <= scale.large_elements;
                   });
    }
  }
  return cases;
}

absl::Status RunCases(SuiteGroup& group,
                      const ImplementationUnderTest& under_test,
                      const std::vector<Case>& cases, ReadBack read_back) {
  int64_t key = 0;
  for (const Case& c : cases) {
    absl::Status status =
        During(ToString(c), RunCase(group, under_test, c, ++key, read_back));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tutti
