#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "outfeed/outfeed_testing.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace gpu_outfeed_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Tests outfeeds of devices on GPUs, over a double of CUDA.

class GpuOutfeedTest : public testing::Test {
 protected:
  GpuOutfeedTest() {
    job_.Create(/*max_queued_bytes=*/1000);
    EXPECT_THAT(job_.receiver->Start(), IsOk());
  }

  void RunAll() {
    environment_.RunAll();
    environment_.Advance(GpuPassEnd::kLookEvery);
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  OutfeedJob job_{/*num_devices=*/1, environment_.get(), {}, /*on_gpu=*/true};
};

TEST_F(GpuOutfeedTest, AGpuThatFailsEndsTheStreamAfterTheItemsBefore) {
  job_.SendNumber(0, 1);
  environment_.RunAll();
  job_.gpus->FailStream(
      static_cast<CudaDevice&>(*job_.devices[0]).compute_stream(),
      absl::InternalError("illegal address"));
  Outcome lost, late, end;
  job_.SendNumber(0, 2, lost.Done());
  RunAll();
  const auto is_lost = IsInternal("outfeed of /job:localhost", "device:GPU:0",
                                  "illegal address");
  EXPECT_EQ(lost.num_calls, 1);
  EXPECT_THAT(lost.status, is_lost);
  EXPECT_THAT(job_.receiver->statistics(0).status, is_lost);
  job_.sender(0).Send(OutfeedJob::kNumberId, {Number(3)}, late.Done());
  EXPECT_THAT(late.status, is_lost);
  job_.receiver->Shutdown(end.Done());
  RunAll();
  EXPECT_THAT(end.status, is_lost);
  EXPECT_THAT(job_.numbers[0], ElementsAre(1));
}

TEST_F(GpuOutfeedTest, AnItemFailsAloneForLackOfPinnedMemory) {
  job_.gpus->FailCall(GpuCall::kAllocatePinned, 0,
                      absl::ResourceExhaustedError("no pages"), /*num_bad=*/2);
  Outcome first, second;
  job_.SendNumber(0, 1, first.Done());
  job_.SendNumber(0, 2, second.Done());
  EXPECT_THAT(first.status, IsResourceExhausted("no pages"));
  RunAll();
  EXPECT_THAT(second.status, IsOk());
  EXPECT_THAT(job_.numbers[0], ElementsAre(2));
}

// Tests results of all-reduces of two devices on a GPU.

struct Item {
  int64_t step = 0;
  std::vector<float> values;

  friend bool operator==(const Item&, const Item&) = default;
};

class GpuObserverTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr int kNumDevices = 2;
  static constexpr int64_t kNumElements = 3;

  GpuObserverTest() {
    std::vector<std::unique_ptr<Device>> made;
    auto gpu_devices = *CreateCudaDevices({.runtime = &gpus_,
                                           .environment = environment_.get(),
                                           .devices_per_gpu = kNumDevices});
    for (auto& device : gpu_devices) {
      made.push_back(std::move(device));
    }
    devices_ = *DeviceManager::Create(std::move(made));
    executors_ = *CreateLocalExecutorMgr(environment_.get(), devices_.get());
    receiver_ = *OutfeedReceiver::Create(
        {.devices = devices_->devices(),
         .callback =
             [this](Device& device, uint32_t, absl::Span<Tensor> arrays) {
               Item item;
               std::memcpy(&item.step, arrays[0].data(), sizeof(item.step));
               item.values.resize(arrays[1].num_elements());
               std::memcpy(item.values.data(), arrays[1].data(),
                           arrays[1].size_bytes());
               items_[device.attributes().name.index].push_back(item);
               return absl::OkStatus();
             },
         .environment = environment_.get()});
    EXPECT_THAT(receiver_->Start(), IsOk());
    observer_ = *AllReduceObserver::Create(
        {.devices = devices_->devices(),
         .registry = receiver_->registry(),
         .selections = {{/*group_key=*/1, /*instance_key=*/1,
                         /*consumer_id=*/5}}});
    executors_->SetObserver(observer_);
  }

  CudaDevice& device(int i) const {
    return static_cast<CudaDevice&>(*devices_->devices()[i]);
  }

  // Copies the values to a tensor on a stream.
  void Write(Tensor& tensor, const std::vector<float>& values,
             GpuStream stream) {
    sources_.push_back(std::make_unique<std::vector<float>>(values));
    EXPECT_THAT(gpus_.CopyAsync(tensor.mutable_data(), sources_.back()->data(),
                                tensor.size_bytes(), stream),
                IsOk());
  }

  Tensor Allocate(int i, int64_t num_elements) {
    return *device(i).Allocate(DType::kFloat32,
                               TensorShape::Vector(num_elements));
  }

  // Members overwrite their outputs in `done`, on streams of theirs.
  void AllReduce(int64_t step, bool has_segments) {
    CollectiveRequest request;
    request.group_key = 1;
    request.instance_key = 1;
    request.group_size = kNumDevices;
    request.device_type = CudaDevice::kType;
    request.op = tutti::AllReduce();
    request.dtype = DType::kFloat32;
    request.shape = TensorShape::Vector(kNumElements);
    const auto executor = executors_->FindOrCreate(step);
    std::vector<std::vector<Tensor>> outputs(kNumDevices);
    std::vector<OwnedGpuStream> streams;
    int num_ended = 0;
    for (int i = 0; i < kNumDevices; ++i) {
      const auto first = static_cast<float>(step * (i + 1));
      streams.push_back(*NewStream(gpus_, 0));
      CollectiveArgs args = {
          .device = &device(i),
          .request = std::make_shared<const CollectiveRequest>(request)};
      if (has_segments) {
        Tensor one = Allocate(i, 1), two = Allocate(i, 2);
        Write(one, {first}, device(i).compute_stream());
        Write(two, {first + 1, first + 2}, device(i).compute_stream());
        outputs[i] = {Allocate(i, 1), Allocate(i, 2)};
        args.segments =
            *SegmentList::Create({{one, outputs[i][0]}, {two, outputs[i][1]}});
      } else {
        args.input = Allocate(i, kNumElements);
        Write(args.input, {first, first + 1, first + 2},
              device(i).compute_stream());
        outputs[i] = {Allocate(i, kNumElements)};
        args.output = outputs[i].data();
      }
      executor->ExecuteAsync(std::move(args),
                             [&, i](const absl::Status& status) {
                               EXPECT_THAT(status, IsOk());
                               ++num_ended;
                               for (Tensor& output : outputs[i]) {
                                 Write(output, {-1, -1, -1}, streams[i].get());
                               }
                             });
    }
    environment_.RunAll();
    EXPECT_EQ(num_ended, kNumDevices);
  }

  SimulatedEnvironment environment_{GetParam()};
  std::vector<std::unique_ptr<std::vector<float>>> sources_;
  FakeGpuRuntime gpus_{{.environment = environment_.get()}};
  std::unique_ptr<DeviceManager> devices_;
  std::unique_ptr<CollectiveExecutorMgr> executors_;
  std::unique_ptr<OutfeedReceiver> receiver_;
  std::shared_ptr<AllReduceObserver> observer_;
  std::map<int, std::vector<Item>> items_;  // By index of the device.
};

TEST_P(GpuObserverTest, StreamsResultsBeforeTheyAreOverwritten) {
  for (const bool has_segments : {false, true}) {
    for (const int64_t step : {1, 2, 3}) {
      AllReduce(has_segments ? step + 10 : step, has_segments);
    }
  }
  for (int i = 0; i < kNumDevices; ++i) {
    ASSERT_THAT(items_[i], SizeIs(6));
    for (size_t n = 0; n < 6; ++n) {
      const auto step = static_cast<int64_t>(n < 3 ? n + 1 : n + 8);
      const auto first = static_cast<float>(3 * step);
      EXPECT_EQ(items_[i][n], Item({step, {first, first + 2, first + 4}}));
    }
    EXPECT_EQ(observer_->tallies(device(i)).num_sent, 6U);
  }
  EXPECT_THAT(gpus_.Mistakes(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuObserverTest, testing::Range(0UL, 10UL));

TEST_P(GpuObserverTest, ACopyThatFailsIsCountedAndFailsNoCollective) {
  gpus_.FailCall(GpuCall::kAllocatePinned, 0,
                 absl::ResourceExhaustedError("no pages"), /*num_bad=*/2);
  AllReduce(1, /*has_segments=*/false);
  uint64_t num_failed = 0;
  for (int i = 0; i < kNumDevices; ++i) {
    num_failed += observer_->tallies(device(i)).num_failed;
  }
  EXPECT_EQ(num_failed, 1U);
  EXPECT_EQ(items_.size(), 1U);
}

}  // namespace gpu_outfeed_test
}  // namespace tutti
