#ifndef TUTTI_GPU_TESTING_FAKE_GPU_SUMS_H_
#define TUTTI_GPU_TESTING_FAKE_GPU_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/testing/fake_gpu_group.h"
#include "tutti/collective.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {

inline Bytes Floats(int64_t num_elements, float value) {
  const std::vector<float> values(static_cast<size_t>(num_elements), value);
  const auto* begin = reinterpret_cast<const Bytes::value_type*>(values.data());
  return {begin, begin + values.size() * sizeof(float)};
}

// Sums of float32, without random bits, that a test runs repeatedly.
class Sums {
 public:
  explicit Sums(FakeGpuGroup::Options options, int64_t num_elements = 5)
      : group_(std::move(options)),
        num_elements_(num_elements),
        outputs_(group_.size()) {
    request_ = group_.Request(AllReduce{}, DType::kFloat32, num_elements_);
    for (int rank = 0; rank < group_.size(); ++rank) {
      inputs_.push_back(group_.Allocate(rank, DType::kFloat32, num_elements_));
      outputs_[rank] = group_.Allocate(rank, DType::kFloat32, num_elements_);
    }
  }

  FakeGpuGroup& group() { return group_; }
  int64_t num_elements() const { return num_elements_; }
  CollectiveRequest& request() { return request_; }
  const Tensor& output(int rank) const { return outputs_[rank]; }

  CollectiveArgs Args(int rank) {
    return {.device = &group_.device(rank),
            .request = std::make_shared<const CollectiveRequest>(request_),
            .input = inputs_[rank],
            .output = &outputs_[rank]};
  }

  // Sets all elements of the rank's input to `value`, on the compute stream.
  void Fill(int rank, float value) {
    group_.Write(rank, inputs_[rank], Elements(value));
  }
  void FillAll() {
    for (int rank = 0; rank < group_.size(); ++rank) Fill(rank, Value(rank));
  }
  void Call(int rank) { group_.Call(rank, Args(rank)); }
  void CallAll() {
    for (int rank = 0; rank < group_.size(); ++rank) Call(rank);
  }

  Bytes Elements(float value) const { return Floats(num_elements_, value); }
  static float Value(int rank) { return static_cast<float>(rank + 1); }
  Bytes Sum() const {
    const auto n = static_cast<float>(outputs_.size());
    return Elements(n * (n + 1) / 2);
  }

  // Same as FakeGpuGroup::Remains().
  std::vector<std::string> Remains() {
    inputs_.clear();
    outputs_.clear();
    return group_.Remains();
  }

 private:
  FakeGpuGroup group_;
  const int64_t num_elements_;
  CollectiveRequest request_;
  std::vector<Tensor> inputs_, outputs_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_SUMS_H_
