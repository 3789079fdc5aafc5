#ifndef TUTTI_TESTS_LOCAL_REPEATED_TESTING_H_
#define TUTTI_TESTS_LOCAL_REPEATED_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {

// Three devices that take part in one all-reduce again and again, by calls or
// by starts of what they prepared.
class RepeatedFixture : public testing::Test {
 protected:
  static constexpr int kNumDevices = 3;
  static constexpr int64_t kNumElements = 5;

  explicit RepeatedFixture(std::string implementation)
      : implementation_(std::move(implementation)) {
    for (int device = 0; device < kNumDevices; ++device) {
      inputs_.push_back(*Tensor::Allocate(DType::kFloat32,
                                          TensorShape::Vector(kNumElements)));
    }
    SetInputs(1);
  }

  static float* FloatsOf(Tensor& tensor) {
    return reinterpret_cast<float*>(tensor.mutable_data());
  }

  // Sets the inputs of device d to (d + 1) * factor.
  void SetInputs(float factor) {
    for (int device = 0; device < kNumDevices; ++device) {
      for (int64_t i = 0; i < kNumElements; ++i) {
        FloatsOf(inputs_[device])[i] = static_cast<float>(device + 1) * factor;
      }
    }
  }

  std::vector<float> Result(int device) {
    const float* const begin = FloatsOf(outputs_[device]);
    return std::vector<float>(begin, begin + kNumElements);
  }

  std::shared_ptr<const CollectiveRequest> Request(
      InstanceKey instance = 1) const {
    CollectiveRequest request =
        job_.AllReduceRequest(kNumElements, implementation_);
    request.instance_key = instance;
    return std::make_shared<const CollectiveRequest>(std::move(request));
  }

  CollectiveArgs Args(
      int device, std::shared_ptr<const CollectiveRequest> request = nullptr) {
    return {.device = job_.devices()[static_cast<size_t>(device)],
            .request = request == nullptr ? request_ : std::move(request),
            .input = inputs_[static_cast<size_t>(device)],
            .output = &outputs_[device]};
  }

  // Returns a callback that adds to the device's ends.
  StatusCallback AddEnd(int device) {
    return [this, device](absl::Status status) {
      ends_[device].push_back(std::move(status));
    };
  }

  void Call(CollectiveArgs args, int device) {
    job_.executor().ExecuteAsync(std::move(args), AddEnd(device));
    job_.environment().RunAll();
  }

  void Prepare(CollectiveArgs args) {
    job_.executor().Prepare(std::move(args), [this](auto prepared) {
      errors_.push_back(prepared.status());
      if (prepared.ok()) prepared_.push_back(*std::move(prepared));
    });
  }

  // Prepares all devices, in order.
  void PrepareAll(std::shared_ptr<const CollectiveRequest> request = nullptr) {
    prepared_.clear();
    for (int i = 0; i < kNumDevices; ++i) Prepare(Args(i, request));
    job_.environment().RunAll();
    ASSERT_THAT(prepared_, testing::SizeIs(kNumDevices));
  }

  void Start(int device) {
    prepared_[static_cast<size_t>(device)]->Start(AddEnd(device));
    job_.environment().RunAll();
  }
  void Start(int device, PreparedCollective::Limits limits) {
    prepared_[static_cast<size_t>(device)]->Start(std::move(limits),
                                                  AddEnd(device));
    job_.environment().RunAll();
  }

  void ClearEnds() {
    for (auto& ends : ends_) ends.clear();
  }
  void ExpectAllEnded(const testing::Matcher<absl::Status>& matcher) {
    for (const auto& ends : ends_) {
      EXPECT_THAT(ends, testing::ElementsAre(matcher));
    }
  }

  const std::string implementation_;
  LocalJob job_{{.devices_per_task = kNumDevices}};
  const std::shared_ptr<const CollectiveRequest> request_ = Request();
  std::vector<Tensor> inputs_;
  Tensor outputs_[kNumDevices];
  std::vector<absl::Status> errors_;  // Errors of Prepare(), in order.
  std::vector<std::shared_ptr<PreparedCollective>> prepared_;
  std::vector<absl::Status> ends_[kNumDevices];
};

}  // namespace tutti

#endif  // TUTTI_TESTS_LOCAL_REPEATED_TESTING_H_
