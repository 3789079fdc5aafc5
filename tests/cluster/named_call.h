#ifndef TUTTI_TESTS_CLUSTER_NAMED_CALL_H_
#define TUTTI_TESTS_CLUSTER_NAMED_CALL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// A test's request for a named tensor, and its result.
struct NamedCall {
  Tensor output;
  std::vector<int64_t> received_rows;
  int num_answers = 0;
  absl::Status status = absl::UnknownError("not answered");

  bool answered() const { return num_answers > 0; }
  friend absl::Status EndOf(const NamedCall& call) { return call.status; }
  StatusCallback Set();
  std::vector<float> Values() const;

  // Waits for the answer: for tests whose answers come from other threads.
  void Wait() { ended->Wait(); }
  std::shared_ptr<BlockingCounter> ended = std::make_shared<BlockingCounter>(1);
};
using NamedCallPtr = std::shared_ptr<NamedCall>;

// A tensor of this shape. All elements are `value` for float32, and 0 for other
// dtypes.
Tensor Filled(DType dtype, const TensorShape& shape, float value);

// Calls a method of Coordinator. The call has the output, which starts as
// `output`.
using NamedMethod = void (Coordinator::*)(NamedTensor, StatusCallback);
NamedCallPtr CallNamed(Coordinator& at, NamedMethod method, NamedTensor tensor,
                       Tensor output = Tensor());

NamedCallPtr CallAllReduce(Coordinator& at, const std::string& name,
                           const Tensor& input, MergeOp merge_op = MergeOp());
NamedCallPtr CallAllGather(Coordinator& at, const std::string& name,
                           const Tensor& input);

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_NAMED_CALL_H_
