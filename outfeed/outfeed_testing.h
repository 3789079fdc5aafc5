#ifndef TUTTI_OUTFEED_OUTFEED_TESTING_H_
#define TUTTI_OUTFEED_OUTFEED_TESTING_H_

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "outfeed/memory_channel.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

inline Tensor Number(int32_t value) {
  Tensor tensor = *Tensor::Allocate(DType::kInt32, TensorShape());
  std::memcpy(tensor.mutable_data(), &value, sizeof(value));
  return tensor;
}

inline int32_t NumberIn(const Tensor& tensor) {
  int32_t value = 0;
  std::memcpy(&value, tensor.data(), sizeof(value));
  return value;
}

inline Tensor Bytes(int64_t num_bytes) {
  return *Tensor::Allocate(DType::kUint8, TensorShape::Vector(num_bytes));
}

// Records the call of a `done`.
struct Outcome {
  int num_calls = 0;
  absl::Status status;

  StatusCallback Done() {
    return [this](absl::Status result) {
      ++num_calls;
      status = std::move(result);
    };
  }
};

// Devices, a receiver, and the numbers that its callback received of each
// device, in order. Items of consumer kNumberId hold one int32.
//
// The callbacks of one device run on one thread at a time. Tests may read
// `numbers` of a device when its callbacks have ended.
class OutfeedJob {
 public:
  static constexpr uint32_t kNumberId = 1;

  // `on_gpu`: the devices, and the numbers that they send, are on a double of a
  // GPU.
  OutfeedJob(int num_devices, const Environment& environment,
             MemoryChannel::Options channel = {}, bool on_gpu = false)
      : environment_(environment), numbers(num_devices) {
    if (on_gpu) {
      gpus = std::make_unique<FakeGpuRuntime>(
          FakeGpuRuntime::Options{.environment = environment});
      auto gpu_devices = *CreateCudaDevices({.runtime = gpus.get(),
                                             .environment = environment,
                                             .devices_per_gpu = num_devices});
      for (auto& device : gpu_devices) {
        devices.push_back(std::move(device));
      }
    }
    for (int i = 0; i < num_devices && !on_gpu; ++i) {
      devices.push_back(std::make_unique<CpuDevice>(
          DeviceAttributes{.name = {"localhost", 0, 0, "CPU", i}}));
    }
    for (const auto& device : devices) {
      channel.device = on_gpu ? device.get() : nullptr;
      device->GiveOutfeedChannel(
          std::make_shared<MemoryChannel>(device->full_name(), channel));
    }
  }
  ~OutfeedJob() {
    if (gpus != nullptr) {
      EXPECT_THAT(gpus->Mistakes(), testing::IsEmpty());
    }
  }

  // Makes a receiver, ready to start. REQUIRES: the last one has ended, or has
  // other devices.
  void Create(int64_t max_queued_bytes) {
    OutfeedReceiver::Options options{.max_queued_bytes = max_queued_bytes,
                                     .environment = environment_};
    for (const auto& device : devices) options.devices.push_back(device.get());
    options.callback = [this](Device& device, uint32_t id,
                              absl::Span<Tensor> arrays) {
      const int index = device.attributes().name.index;
      if (id == kNumberId) numbers[index].push_back(NumberIn(arrays[0]));
      const auto call = on_item;  // Copied: the call may set another function.
      return call ? call(index, id, arrays) : absl::OkStatus();
    };
    receiver = *OutfeedReceiver::Create(std::move(options));
    registry = receiver->registry();
    registry->Register(kNumberId, {{DType::kInt32, TensorShape()}})
        .IgnoreError();
  }

  OutfeedSender sender(int device) {
    return *OutfeedSender::Create(*devices[device], registry);
  }

  void SendNumber(int device, int32_t value, StatusCallback done = nullptr) {
    sender(device).Send(kNumberId, {NumberOn(device, value)}, std::move(done));
  }

  // Number in the device's memory, which its compute stream will write.
  Tensor NumberOn(int device, int32_t value) {
    if (gpus == nullptr) return Number(value);
    Tensor tensor = *devices[device]->Allocate(DType::kInt32, TensorShape());
    EXPECT_THAT(
        gpus->CopyAsync(
            tensor.mutable_data(), &sources_.emplace_back(value), sizeof(value),
            static_cast<CudaDevice&>(*devices[device]).compute_stream()),
        IsOk());
    return tensor;
  }

  // Writes arrays that are no item, or part of an item.
  void SendRaw(int device, std::vector<Tensor> arrays,
               StatusCallback done = nullptr) {
    devices[device]->outfeed_channel()->TransferToOutfeed(
        absl::MakeSpan(arrays), std::move(done));
  }

 private:
  const Environment environment_;
  std::deque<int32_t> sources_;  // Read by the streams of `gpus`.

 public:
  std::unique_ptr<FakeGpuRuntime> gpus;  // Null on CPUs.
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::vector<int32_t>> numbers;  // Indexed by device.

  // Called after the number was recorded. May be null.
  std::function<absl::Status(int device, uint32_t id, absl::Span<Tensor>)>
      on_item;
  std::unique_ptr<OutfeedReceiver> receiver;
  std::shared_ptr<OutfeedRegistry> registry;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_OUTFEED_TESTING_H_
