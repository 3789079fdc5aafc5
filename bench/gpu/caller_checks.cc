// Services around collectives: arrays copied to the host, outfeeds, ops and
// streams of the caller, and a controller of all devices of GPU 0.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_group.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/pending_calls.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"
#include "tutti/outfeed.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int64_t kLength = 4099;
constexpr int kNumDevices = 3;

Bytes RandomBytes(uint64_t seed) {
  return RandomElements(DType::kUint8, kLength, seed);
}

const uint8_t* Begin(const Tensor& tensor) {
  return reinterpret_cast<const uint8_t*>(tensor.data());
}

class CallerChecks : public GpuCheck {
 protected:
  Tensor Written(int rank, uint64_t seed) {
    Tensor tensor = group_.Allocate(rank, DType::kUint8, kLength);
    group_.Write(rank, tensor, RandomBytes(seed));
    return tensor;
  }

  absl::StatusOr<std::vector<Tensor>> OnHost(std::vector<Tensor> arrays) {
    absl::StatusOr<std::vector<Tensor>> copies;
    PendingCalls calls;
    group_.device(0).CopyToHost(
        std::move(arrays),
        [&copies, done = calls.Add("CopyToHost")](auto copied) mutable {
          copies = std::move(copied);
          std::move(done)(copies.status());
        });
    Ok(machine().waiter.Wait(calls));
    return copies;
  }

  GpuGroup group_{machine(), {.devices_per_gpu = kNumDevices}};
};

TEST_F(CallerChecks, ThePlaceOfMemoryIsKnown) {
  CudaDevice& device = group_.device(0);
  const auto pinned = device.staging()->Take(kLength).value();
  const auto wrap = [](std::byte* bytes) {
    return *Tensor::Wrap(DType::kUint8, TensorShape::Vector(kLength), bytes);
  };
  const Tensor on_host =
      *Tensor::Allocate(DType::kUint8, TensorShape::Vector(kLength));
  EXPECT_EQ(device.PlaceOf(Written(0, 1)).value(), TensorPlace::kDevice);
  EXPECT_EQ(device.PlaceOf(on_host).value(), TensorPlace::kHost);
  EXPECT_EQ(device.PlaceOf(wrap(pinned.data())).value(), TensorPlace::kHost);
  if (device.landing() != nullptr) {
    const auto landing = device.landing()->Take(kLength).value();
    EXPECT_EQ(device.PlaceOf(wrap(landing.data())).value(),
              TensorPlace::kDevice);
  }
  if (machine().num_gpus() == 1) return;
  GpuGroup all(machine(), {.gpus_per_task = machine().num_gpus()});
  EXPECT_EQ(device.PlaceOf(all.Allocate(1, DType::kUint8, kLength)).value(),
            TensorPlace::kElsewhere);
}

TEST_F(CallerChecks, ArraysReachTheHostAsTheComputeStreamLeavesThem) {
  for (int round = 0; round < scale().rounds && !HasFailure(); ++round) {
    const auto seed = static_cast<uint64_t>(round);
    const auto copies =
        OnHost({Written(0, seed), Written(0, seed + 1)}).value();
    for (size_t i : {0, 1}) {
      EXPECT_THAT(CompareBytes(absl::StrCat("array ", i), RandomBytes(seed + i),
                               Begin(copies[i])),
                  IsOk());
    }
    group_.Finish();
  }
}

TEST_F(CallerChecks, AnOutfeedDeliversItemsInOrder) {
  std::vector<Bytes> items;
  const auto receiver =
      OutfeedReceiver::Create(
          {.devices = {&group_.device(0)},
           .callback =
               [&items](Device&, uint32_t, absl::Span<Tensor> arrays) {
                 items.emplace_back(Begin(arrays[0]),
                                    Begin(arrays[0]) + kLength);
                 return absl::OkStatus();
               },
           .max_queued_bytes = 4 * kLength,
           .environment = machine().environment})
          .value();
  Ok(receiver->registry()->Register(
      1, {{DType::kUint8, TensorShape::Vector(kLength)}}));
  Ok(receiver->Start());
  const auto sender =
      OutfeedSender::Create(group_.device(0), receiver->registry()).value();
  const auto num_items = static_cast<uint64_t>(scale().rounds);
  for (uint64_t i = 0; i < num_items; ++i)
    sender.Send(1, {Written(0, i)}, nullptr);
  PendingCalls calls;
  receiver->Shutdown(calls.Add("Shutdown"));
  Ok(machine().waiter.Wait(calls));
  group_.Finish();
  ASSERT_EQ(items.size(), num_items);
  for (uint64_t i = 0; i < num_items && !HasFailure(); ++i) {
    EXPECT_EQ(items[i], RandomBytes(i)) << "item " << i;
  }
}

// The op launches a kernel of the library. ShuffleReduce merges three operands.
TEST_F(CallerChecks, OpsOfTheCallerHaveTheBitsOfBuiltInOnes) {
  const MergeOp mine = *MergeOp::Custom(
      {.name = "mine",
       .commutative = true,
       .apply = [](auto...) { return absl::InternalError("on the host"); },
       .apply_on_gpu =
           [this](DType dtype, const void* left, const void* right, void* into,
                  int64_t num_elements, void* stream) {
             return runtime().LaunchReduce(
                 {.kind = ReductionKind::kMax,
                  .dtype = dtype,
                  .inputs = {left, right},
                  .outputs = {into},
                  .num_elements = static_cast<size_t>(num_elements)},
                 {0, stream});
           }});
  for (const char* const name : {"RingReduce", "ShuffleReduce"}) {
    SCOPED_TRACE(name);
    std::vector<Tensor> inputs, outputs(2 * kNumDevices);
    for (int rank = 0; rank < kNumDevices; ++rank) {
      inputs.push_back(Written(rank, static_cast<uint64_t>(rank)));
    }
    std::vector<const uint8_t*> found;
    for (const MergeOp& op : {MergeOp(ReductionKind::kMax), mine}) {
      CollectiveRequest request =
          group_.Request(AllReduce{}, DType::kUint8, kLength);
      request.impl_details.implementation = name;
      request.merge_op = op;
      const int first = op.is_custom() ? kNumDevices : 0;
      for (int rank = 0; rank < kNumDevices; ++rank) {
        group_.Call(rank, request, inputs[rank], &outputs[first + rank]);
      }
      group_.Finish();
    }
    for (int i = 0; i < 2 * kNumDevices; ++i) {
      found.push_back(group_.Read(i % kNumDevices, outputs[i]));
    }
    group_.Finish();
    for (int rank = 0; rank < kNumDevices; ++rank) {
      const Bytes wanted(found[rank], found[rank] + kLength);
      Ok(CompareBytes(absl::StrCat("rank ", rank), wanted,
                      found[kNumDevices + rank]));
    }
  }
}

TEST_F(CallerChecks, StreamsOfTheCallerNeedNoWaitOfTheHost) {
  for (int round = 0; round < scale().rounds && !HasFailure(); ++round) {
    CollectiveRequest request =
        group_.Request(AllReduce{}, DType::kUint8, kLength);
    request.impl_details.implementation = "RingReduce";
    request.merge_op = ReductionKind::kMax;
    std::vector<OwnedGpuStream> streams;
    std::vector<Tensor> inputs, outputs, results;
    for (int rank = 0; rank < kNumDevices; ++rank) {
      CudaDevice& device = group_.device(rank);
      streams.push_back(NewStream(runtime(), 0).value());
      const GpuStream mine = streams.back().get();
      const Tensor from = Written(rank, static_cast<uint64_t>(round + rank));
      inputs.push_back(group_.Allocate(rank, DType::kUint8, kLength));
      outputs.push_back(group_.Allocate(rank, DType::kUint8, kLength));
      results.push_back(group_.Allocate(rank, DType::kUint8, kLength));
      Ok(device.Order(device.compute_stream(), mine));
      Ok(runtime().LaunchCopy({.input = from.data(),
                               .outputs = {inputs[rank].mutable_data()},
                               .num_bytes = kLength},
                              mine));
      Ok(device.Order(mine, device.compute_stream()));
    }
    for (int rank = 0; rank < kNumDevices; ++rank) {
      group_.Call(rank, request, inputs[rank], &outputs[rank]);
    }
    std::vector<const uint8_t*> found;
    for (int rank = 0; rank < kNumDevices; ++rank) {
      CudaDevice& device = group_.device(rank);
      const GpuStream mine = streams[rank].get();
      Ok(device.Order(device.collective_stream(), mine));
      Ok(runtime().LaunchCopy({.input = outputs[rank].data(),
                               .outputs = {results[rank].mutable_data()},
                               .num_bytes = kLength},
                              mine));
      Ok(device.Order(mine, device.compute_stream()));
      found.push_back(group_.Read(rank, results[rank]));
    }
    group_.Finish();
    Bytes wanted = RandomBytes(static_cast<uint64_t>(round));
    for (int rank = 1; rank < kNumDevices; ++rank) {
      const Bytes other = RandomBytes(static_cast<uint64_t>(round + rank));
      Reduce(ReductionKind::kMax, DType::kUint8, wanted.data(), other.data(),
             wanted.data(), wanted.size());
    }
    for (int rank = 0; rank < kNumDevices; ++rank) {
      EXPECT_THAT(
          CompareBytes(absl::StrCat("rank ", rank), wanted, found[rank]),
          IsOk());
    }
  }
}

TEST_F(CallerChecks, AControllerReducesTensorsOfGpus) {
  std::vector<std::unique_ptr<Device>> made;
  auto gpu_devices = CreateCudaDevices({.runtime = &runtime(),
                                        .environment = machine().environment,
                                        .devices_per_gpu = kNumDevices})
                         .value();
  for (auto& device : gpu_devices) {
    made.push_back(std::move(device));
  }
  const auto devices = DeviceManager::Create(std::move(made)).value();
  SingleController controller(machine().environment, devices.get());
  std::vector<Tensor> tensors;
  for (int i = 0; i < kNumDevices; ++i) {
    tensors.push_back(Written(i, static_cast<uint64_t>(i)));
  }
  group_.Finish();  // The devices of the controller know no stream of these.
  // The controller blocks its thread, and this one runs the work of doubles.
  absl::StatusOr<std::vector<Tensor>> reduced;
  absl::Notification is_over;
  std::thread thread([&] {
    reduced =
        controller.AllReduce(tensors, {.reduction = ReductionKind::kBxor});
    is_over.Notify();
  });
  while (!is_over.HasBeenNotified()) {
    PendingCalls none;
    Ok(machine().waiter.Wait(none));
  }
  thread.join();
  Ok(reduced.status());
  Bytes wanted(kLength);
  for (int i = 0; i < kNumDevices; ++i) {
    const Bytes bytes = RandomBytes(static_cast<uint64_t>(i));
    Reduce(ReductionKind::kBxor, DType::kUint8, wanted.data(), bytes.data(),
           wanted.data(), wanted.size());
  }
  const auto copies = OnHost(*reduced).value();
  for (int i = 0; i < kNumDevices; ++i) {
    EXPECT_THAT(
        CompareBytes(absl::StrCat("tensor ", i), wanted, Begin(copies[i])),
        IsOk());
  }
}

}  // namespace
}  // namespace tutti
