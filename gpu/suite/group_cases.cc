#include "gpu/suite/group_cases.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/collective_request.h"
#include "framework/dtype.h"
#include "framework/reduction_test_data.h"
#include "framework/tensor.h"
#include "gpu/cuda_device.h"
#include "gpu/suite/check.h"
#include "gpu/suite/gpu_image.h"
#include "tests/conformance/expectation.h"

namespace tutti {
namespace {

using conformance::Case;
using conformance::Expectation;
using conformance::ImplementationUnderTest;

// Where tensors begin, in elements: kernels take 16 bytes at a time.
constexpr int64_t kAlignments = 3;

Bytes BytesOf(absl::Span<const std::byte> bytes) {
  Bytes copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

// A tensor that begins `skipped` elements into memory of its own.
Tensor AllocateAt(SuiteGroup& group, int rank, DType dtype, int64_t skipped,
                  int64_t num_elements) {
  const int64_t end = skipped + num_elements;
  const Tensor whole = group.Allocate(rank, dtype, end);
  if (skipped == 0 || !whole.is_set()) return whole;
  return whole.Slice(skipped, end).value_or(whole);
}

// One member's tensors.
struct Buffers {
  Tensor input, output;
};

// As the case wants them, `skipped` elements into their memory; unset where
// there is none.
Buffers MakeBuffers(SuiteGroup& group, const Case& c, int rank,
                    int64_t skipped) {
  const auto allocate = [&](int64_t num_elements) {
    return AllocateAt(group, rank, c.dtype, skipped, num_elements);
  };
  const int64_t input = InputElements(c, rank);
  const int64_t output = OutputElements(c, rank);
  const bool has_input = HasInput(c.type, rank, c.root);
  const bool has_output =
      HasOutput(c.type, rank, c.root) && !c.allocates_output;
  const auto shaped = [&](const Tensor& tensor) {
    return tensor.Reshaped(ShapeOf(c, tensor.num_elements())).value_or(tensor);
  };
  Buffers buffers;
  if (!IsInPlace(c, rank)) {
    if (has_input) buffers.input = allocate(input);
    if (has_output) buffers.output = allocate(output);
  } else {
    const Tensor all = allocate(std::max(input, output));
    const auto part = [&](int64_t num_elements) {
      if (num_elements == all.num_elements()) return all;
      const int64_t begin = OwnBlockBegin(c, rank);
      return all.Slice(begin, begin + num_elements).value_or(all);
    };
    buffers.input = part(input);
    buffers.output = part(output);
  }
  if (buffers.input.is_set()) buffers.input = shaped(buffers.input);
  if (buffers.output.is_set()) buffers.output = shaped(buffers.output);
  return buffers;
}

// What the members found, compared piece by piece.
absl::Status Compare(SuiteGroup& group, const Case& c,
                     const Expectation& expected,
                     const std::vector<Buffers>& buffers) {
  std::vector<const uint8_t*> found(buffers.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!HasOutput(c.type, rank, c.root)) continue;
    found[rank] = group.Read(rank, buffers[rank].output);
  }
  absl::Status status = group.Finish();
  for (int rank = 0; status.ok() && rank < group.size(); ++rank) {
    if (!HasOutput(c.type, rank, c.root)) continue;
    Bytes wanted;
    for (const auto piece : expected.output(rank)) {
      const Bytes bytes = BytesOf(piece);
      wanted.insert(wanted.end(), bytes.begin(), bytes.end());
    }
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
                     int64_t key) {
  const auto inputs = conformance::MakeInputs(under_test, c, /*seed=*/key);
  const auto expected = Expectation::Create(under_test, c, inputs);
  if (!expected.ok()) return expected.status();
  const auto requests = RequestsOf(c, under_test.name, key);
  std::vector<Buffers> buffers(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    buffers[rank] = MakeBuffers(group, c, rank, key % kAlignments);
    if (buffers[rank].input.is_set()) {
      group.Write(rank, buffers[rank].input, BytesOf((*inputs)[rank]));
    }
    CollectiveRequest request = *requests[rank];
    request.device_type = CudaDevice::kType;
    group.Call(
        rank, request, buffers[rank].input,
        HasOutput(c.type, rank, c.root) ? &buffers[rank].output : nullptr);
  }
  // Compute streams need not wait for the end.
  const absl::Status status = group.Finish();
  if (!status.ok()) return status;
  return Compare(group, c, **expected, buffers);
}

}  // namespace

absl::Status RunCases(SuiteGroup& group,
                      const ImplementationUnderTest& under_test,
                      const std::vector<Case>& cases) {
  int64_t key = 0;
  for (const Case& c : cases) {
    absl::Status status =
        During(ToString(c), RunCase(group, under_test, c, ++key));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tutti
