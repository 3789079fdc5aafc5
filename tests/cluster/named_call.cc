#include "tests/cluster/named_call.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tutti {

StatusCallback NamedCall::Set() {
  return [this](absl::Status answer) {
    ++num_answers;
    status = std::move(answer);
    ended->DecrementCount();
  };
}

std::vector<float> NamedCall::Values() const {
  std::vector<float> values(static_cast<size_t>(output.num_elements()));
  if (!values.empty()) {
    std::memcpy(values.data(), output.data(), output.size_bytes());
  }
  return values;
}

Tensor Filled(DType dtype, const TensorShape& shape, float value) {
  Tensor tensor = *Tensor::Allocate(dtype, shape);
  if (dtype == DType::kFloat32) {
    std::fill_n(reinterpret_cast<float*>(tensor.mutable_data()),
                tensor.num_elements(), value);
  } else {
    std::fill_n(tensor.mutable_data(), tensor.size_bytes(), std::byte{0});
  }
  return tensor;
}

NamedCallPtr CallNamed(Coordinator& at, NamedMethod method, NamedTensor tensor,
                       Tensor output) {
  const auto call = std::make_shared<NamedCall>();
  call->output = std::move(output);
  tensor.output = &call->output;
  tensor.received_rows = &call->received_rows;
  (at.*method)(std::move(tensor),
               [call, set = call->Set()](absl::Status status) mutable {
                 std::move(set)(std::move(status));
               });
  return call;
}

NamedCallPtr CallAllReduce(Coordinator& at, const std::string& name,
                           const Tensor& input, MergeOp merge_op) {
  return CallNamed(
      at, &Coordinator::AllReduce,
      {.name = name, .input = input, .merge_op = std::move(merge_op)});
}

NamedCallPtr CallAllGather(Coordinator& at, const std::string& name,
                           const Tensor& input) {
  return CallNamed(at, &Coordinator::AllGather, {.name = name, .input = input});
}

}  // namespace tutti
