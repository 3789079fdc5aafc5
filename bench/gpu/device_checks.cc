// Calls of GpuRuntime, and the streams, memory and staging of CudaDevice, on
// GPU 0; copies between all GPUs; and a GPU that fails.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/gpu_group.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/pending_calls.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/runtime/pinned_pool.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr size_t kSomeBytes = 4099;

Bytes SomeBytes(uint64_t seed, size_t num_bytes = kSomeBytes) {
  return RandomElements(DType::kUint8, num_bytes, seed);
}

class DeviceChecks : public GpuCheck {
 protected:
  absl::Status WaitFor(const OwnedGpuStream& stream) {
    return machine().waiter.WaitFor(stream.get());
  }

  static Tensor NewBytes(GpuGroup& group, int rank, size_t num_bytes) {
    return group.Allocate(rank, DType::kUint8, static_cast<int64_t>(num_bytes));
  }

  // Copies all of `from` to `into` by a kernel.
  void Copy(const Tensor& from, Tensor into, GpuStream stream) {
    Ok(runtime().LaunchCopy({.input = from.data(),
                             .outputs = {into.mutable_data()},
                             .num_bytes = from.size_bytes()},
                            stream));
  }
};

TEST_F(DeviceChecks, AnEventIsDoneOnceItsStreamIsPastIt) {
  const OwnedGpuEvent event = NewEvent(runtime(), 0).value();
  const OwnedGpuStream stream = NewStream(runtime(), 0).value();
  Ok(runtime().RecordEvent(event.get(), stream.get()));
  Ok(WaitFor(stream));
  EXPECT_TRUE(runtime().IsDone(event.get()).value());
}

// The event has gone, and may have come back as another one.
TEST_F(DeviceChecks, AStreamWaitsForTheRecordOfAnEventThatHasGone) {
  if (scale().is_watched) GTEST_SKIP() << "a tool watches the kernels";
  const OwnedGpuStream held = NewStream(runtime(), 0).value();
  const OwnedGpuStream waits = NewStream(runtime(), 0).value();
  const OwnedGpuStream idle = NewStream(runtime(), 0).value();
  OwnedGpuEvent gone = NewEvent(runtime(), 0).value();
  const OwnedGpuEvent past = NewEvent(runtime(), 0).value();
  const auto hold =
      machine().waiter.Hold(held.get(), absl::Seconds(10)).value();
  Ok(runtime().RecordEvent(gone.get(), held.get()));
  Ok(runtime().WaitForEvent(waits.get(), gone.get()));
  Ok(runtime().RecordEvent(past.get(), waits.get()));
  gone = OwnedGpuEvent();
  const OwnedGpuEvent next = NewEvent(runtime(), 0).value();
  Ok(runtime().RecordEvent(next.get(), idle.get()));
  EXPECT_FALSE(runtime().IsDone(past.get()).value());
  hold->Release();
  Ok(WaitFor(waits));
  EXPECT_TRUE(runtime().IsDone(past.get()).value());
}

TEST_F(DeviceChecks, EachGpuHasANameAPlaceASizeAndAUuid) {
  std::set<std::string> uuids;
  for (int gpu = 0; gpu < machine().num_gpus(); ++gpu) {
    SCOPED_TRACE(absl::StrCat("GPU ", gpu));
    const GpuProperties properties = runtime().Properties(gpu).value();
    EXPECT_NE(properties.name, "");
    EXPECT_NE(properties.bus_id, "");
    EXPECT_GT(properties.num_multiprocessors, 0);
    EXPECT_GT(properties.memory_bytes, 0);
    EXPECT_NE(properties.uuid, "");
    EXPECT_TRUE(uuids.insert(properties.uuid).second);
    EXPECT_THAT(runtime().LinkBetween(gpu, gpu), IsOk());
    EXPECT_THAT(runtime().EnablePeerAccess(gpu, gpu), IsOk());
  }
}

TEST_F(DeviceChecks, RefusalsDoNotSpoilTheGpu) {
  const OwnedGpuStream stream = NewStream(runtime(), 0).value();
  EXPECT_THAT(runtime().LaunchReduce({}, stream.get()), IsInvalidArgument());
  EXPECT_THAT(runtime().AllocateAsync(size_t{1} << 44, stream.get()),
              IsResourceExhausted());
  EXPECT_THAT(WaitFor(stream), IsOk());
}

// Write on the compute stream, copy on each of the others, read again.
TEST_F(DeviceChecks, StreamsRunInTheOrderThatIsAskedFor) {
  GpuGroup group(machine(), {.devices_per_gpu = 2});
  CudaDevice& first = group.device(0);
  CudaDevice& second = group.device(1);
  for (int round = 0; round < scale().rounds && !HasFailure(); ++round) {
    const Bytes bytes = SomeBytes(round);
    const Tensor from = NewBytes(group, 0, kSomeBytes);
    const Tensor between = NewBytes(group, 0, kSomeBytes);
    const Tensor into = NewBytes(group, 1, kSomeBytes);
    group.Write(0, from, bytes);
    const GpuStream collective = first.collective_stream();
    const GpuStream copying = second.copy_stream();
    Ok(first.Order(first.compute_stream(), collective));
    Copy(from, between, collective);
    Ok(first.Order(collective, copying));
    Copy(between, into, copying);
    Ok(second.Order(copying, second.compute_stream()));
    const uint8_t* const found = group.Read(1, into);
    group.Finish();
    EXPECT_THAT(CompareBytes("the copy", bytes, found), IsOk());
  }
}

TEST_F(DeviceChecks, NotifyWhenDoneComesAfterWhatTheStreamHad) {
  GpuGroup group(machine(), {});
  CudaDevice& device = group.device(0);
  for (int round = 0; round < scale().rounds && !HasFailure(); ++round) {
    const Bytes bytes = SomeBytes(round);
    const Tensor tensor = NewBytes(group, 0, kSomeBytes);
    group.Write(0, tensor, bytes);
    const uint8_t* const found = group.Read(0, tensor);
    PendingCalls calls;
    // The callback compares, because the read may have ended later.
    EXPECT_THAT(
        device.NotifyWhenDone(device.compute_stream(),
                              [ended = calls.Add("NotifyWhenDone"), &bytes,
                               found](absl::Status status) mutable {
                                status.Update(CompareBytes("the bytes read",
                                                           bytes, found));
                                std::move(ended)(std::move(status));
                              }),
        IsOk());
    Ok(machine().waiter.Wait(calls));
    group.Finish();
  }
}

// Tensors come and go, more than may be freed ahead. Memory is used again, and
// yet each tensor keeps its bytes until they are read.
TEST_F(DeviceChecks, TensorsKeepTheirBytesWhileMemoryIsUsedAgain) {
  GpuGroup group(machine(), {});
  const auto size = static_cast<size_t>(scale().churn_bytes);
  const GpuStream compute = group.device(0).compute_stream();
  const Bytes bytes[] = {SomeBytes(1, size), SomeBytes(2, size)};
  Tensor sources[2];
  for (int i = 0; i < 2; ++i) {
    sources[i] = NewBytes(group, 0, size);
    group.Write(0, sources[i], bytes[i]);
  }
  std::deque<Tensor> living;
  for (int round = 0; round < scale().rounds && !HasFailure(); ++round) {
    living.push_back(NewBytes(group, 0, size));
    Copy(sources[round % 2], living.back(), compute);
    if (living.size() > 4) living.pop_front();
  }
  std::vector<const uint8_t*> found;
  for (const Tensor& tensor : living) found.push_back(group.Read(0, tensor));
  group.Finish();
  const size_t first = static_cast<size_t>(scale().rounds) - living.size();
  for (size_t i = 0; i < living.size(); ++i) {
    EXPECT_THAT(CompareBytes(absl::StrCat("tensor ", i), bytes[(first + i) % 2],
                             found[i]),
                IsOk());
  }
}

TEST_F(DeviceChecks, PinnedBuffersAreUsedAgainAndCarryBytesToTheGpuAndBack) {
  const auto pool = PinnedPool::Create({.runtime = &runtime()}).value();
  const std::byte* const first = pool->Take(kSomeBytes).value().data();
  const auto from = pool->Take(kSomeBytes).value();
  const auto into = pool->Take(kSomeBytes).value();
  EXPECT_EQ(from.data(), first);
  const Bytes bytes = SomeBytes(7);
  std::memcpy(from.data(), bytes.data(), bytes.size());
  const OwnedGpuStream stream = NewStream(runtime(), 0).value();
  void* const memory =
      runtime().AllocateAsync(kSomeBytes, stream.get()).value();
  absl::Status status =
      runtime().CopyAsync(memory, from.data(), kSomeBytes, stream.get());
  status.Update(
      runtime().CopyAsync(into.data(), memory, kSomeBytes, stream.get()));
  status.Update(runtime().FreeAsync(memory, stream.get()));
  status.Update(WaitFor(stream));
  Ok(status);
  EXPECT_THAT(CompareBytes("the second buffer", bytes, into.data()), IsOk());
}

// The buffer on the GPU lies past the pools of its streams.
TEST_F(DeviceChecks, KernelsReadAndWritePinnedBuffers) {
  const auto pool = PinnedPool::Create({.runtime = &runtime()}).value();
  const auto on_gpu =
      PinnedPool::Create({.runtime = &runtime(), .is_on_gpu = true}).value();
  const auto from = pool->Take(kSomeBytes).value();
  const auto into = pool->Take(kSomeBytes).value();
  const auto landing = on_gpu->Take(kSomeBytes).value();
  const Bytes bytes = SomeBytes(8);
  std::memcpy(from.data(), bytes.data(), bytes.size());
  const OwnedGpuStream stream = NewStream(runtime(), 0).value();
  absl::Status status = runtime().CopyAsync(landing.data(), from.data(),
                                            kSomeBytes, stream.get());
  status.Update(runtime().LaunchCopy({.input = landing.data(),
                                      .outputs = {into.data()},
                                      .num_bytes = kSomeBytes},
                                     stream.get()));
  status.Update(WaitFor(stream));
  Ok(status);
  EXPECT_THAT(CompareBytes("the kernel's copy", bytes, into.data()), IsOk());
}

// From each GPU to each other, whether or not there is a link.
TEST_F(DeviceChecks, CopiesBetweenGpusArrive) {
  const int num_gpus = machine().num_gpus();
  if (num_gpus < 2) GTEST_SKIP() << "there is one GPU";
  GpuGroup group(machine(), {.gpus_per_task = num_gpus});
  for (int from = 0; from < num_gpus; ++from) {
    for (int to = 0; to < num_gpus; ++to) {
      SCOPED_TRACE(absl::StrCat("from GPU ", from, " to GPU ", to));
      const Bytes bytes = SomeBytes(100 * from + to);
      const Tensor source = NewBytes(group, from, kSomeBytes);
      Tensor target = NewBytes(group, to, kSomeBytes);
      group.Write(from, source, bytes);
      const GpuStream stream = group.device(to).compute_stream();
      CudaDevice& first = group.device(from);
      Ok(first.Order(first.compute_stream(), stream));
      Ok(runtime().CopyAsync(target.mutable_data(), source.data(), kSomeBytes,
                             stream));
      const uint8_t* const found = group.Read(to, target);
      group.Finish();
      Ok(CompareBytes("the copy", bytes, found));
    }
  }
}

// A kernel reads memory that is not there. Then come a collective, and a wait
// for the stream.
class FaultCheck : public GpuCheck {
 protected:
  void TestBody() override {
    GpuGroup group(machine(), {.devices_per_gpu = 2});
    CudaDevice& device = group.device(0);
    const CollectiveRequest request =
        group.Request(AllReduce{}, DType::kFloat32, 5);
    std::array<Tensor, 2> tensors;
    for (int rank = 0; rank < 2; ++rank) {
      tensors[rank] = group.Allocate(rank, DType::kFloat32, 5);
    }
    const auto* const nowhere =
        reinterpret_cast<const void*>(uintptr_t{4096});  // NOLINT: unmapped.
    Ok(runtime().LaunchCopy({.input = nowhere,
                             .outputs = {tensors[0].mutable_data()},
                             .num_bytes = 4},
                            device.compute_stream()));
    for (int rank = 0; rank < 2; ++rank) {
      group.Call(rank, request, tensors[rank], &tensors[rank]);
    }
    PendingCalls notified;
    device
        .NotifyWhenDone(device.compute_stream(), notified.Add("NotifyWhenDone"))
        .IgnoreError();  // The callback has the error.
    for (const absl::Status& status :
         {machine().waiter.Wait(notified), group.TryToFinish()}) {
      EXPECT_FALSE(status.ok());
      EXPECT_FALSE(absl::IsDeadlineExceeded(status)) << status;
    }
  }
};

}  // namespace

void RegisterFaultCheck() {
  ::testing::RegisterTest("FaultCheck", "AGpuThatFailsIsNoticed", nullptr,
                          nullptr, __FILE__, __LINE__,
                          []() -> GpuCheck* { return new FaultCheck(); });
}

}  // namespace tutti
