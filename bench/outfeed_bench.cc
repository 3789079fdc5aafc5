// Cost of the outfeed: items per second, the share of memcpy's bandwidth for
// large items, and an item's latency to its callback.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr uint32_t kConsumerId = 1;

// A device that sends uint8[num_bytes] to a callback.
class Outfeed {
 public:
  Outfeed(const Environment& environment, int64_t num_bytes,
          std::function<void()> received)
      : num_bytes_(num_bytes) {
    auto receiver = OutfeedReceiver::Create(
        {.devices = {&device_},
         .callback =
             [received = std::move(received)](Device&, uint32_t,
                                              absl::Span<Tensor> arrays) {
               arrays[0] = Tensor();
               received();
               return absl::OkStatus();
             },
         .environment = environment});
    receiver_ = *std::move(receiver);
    const ArraySpec array{DType::kUint8, TensorShape::Vector(num_bytes)};
    ok_ = receiver_->registry()->Register(kConsumerId, {array}).ok() &&
          receiver_->Start().ok();
  }

  // Returns false if something failed.
  bool ShutDown() {
    BlockingCounter ended(1);
    receiver_->Shutdown([&](const absl::Status& status) {
      ok_ &= status.ok();
      ended.DecrementCount();
    });
    ended.Wait();
    return ok_;
  }

  OutfeedSender sender() {
    return *OutfeedSender::Create(device_, receiver_->registry());
  }
  Tensor Wrapped(void* data, Tensor::Deleter deleter = nullptr) const {
    return *Tensor::Wrap(DType::kUint8, TensorShape::Vector(num_bytes_), data,
                         std::move(deleter));
  }

 private:
  const int64_t num_bytes_;
  CpuDevice device_{{.name = {"localhost", 0, 0, "CPU", 0}}};
  std::unique_ptr<OutfeedReceiver> receiver_;
  bool ok_ = false;
};

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

double Median(std::vector<double>& values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr int kItems = 10'000;

// Cost of an item if this thread does everything, including the callbacks.
void BM_SmallItemsOnOneThread(benchmark::State& state) {
  SimulatedEnvironment environment(/*seed=*/1);
  int64_t num_received = 0;
  Outfeed outfeed(environment.get(), /*num_bytes=*/4,
                  [&num_received] { ++num_received; });
  const OutfeedSender sender = outfeed.sender();
  for (auto _ : state) {
    for (int i = 0; i < kItems; ++i) {
      const auto item = Tensor::Allocate(DType::kUint8, TensorShape::Vector(4));
      sender.Send(kConsumerId, {*item}, nullptr);
    }
    environment.RunAll();
  }
  if (num_received != state.iterations() * kItems) {
    state.SkipWithError("an item was lost");
  }
  state.SetItemsProcessed(num_received);
}
BENCHMARK(BM_SmallItemsOnOneThread)->UseRealTime();

// Sends on one thread and runs callbacks on another. Items are sent `batch` at
// a time.
void BM_SmallItems(benchmark::State& state) {
  const int64_t batch_size = state.range(0);
  const DefaultEnvironment environment(/*num_workers=*/1);
  std::unique_ptr<BlockingCounter> left;
  Outfeed outfeed(environment.get(), /*num_bytes=*/4,
                  [&left] { left->DecrementCount(); });
  const OutfeedSender sender = outfeed.sender();
  int data = 0;
  const Tensor item = outfeed.Wrapped(&data);
  std::vector<Tensor> batch;
  bool ok = true;
  for (auto _ : state) {
    left = std::make_unique<BlockingCounter>(kItems);
    for (int i = 0; i < kItems; ++i) {
      ok &= sender.AddItem(kConsumerId, {item}, batch).ok();
      if (static_cast<int64_t>(batch.size()) < 2 * batch_size) continue;
      sender.channel().TransferToOutfeed(absl::MakeSpan(batch), nullptr);
      batch.clear();
    }
    left->Wait();
  }
  if (!ok || !outfeed.ShutDown()) state.SkipWithError("the outfeed failed");
  state.SetItemsProcessed(state.iterations() * kItems);
}
BENCHMARK(BM_SmallItems)->ArgName("batch")->Arg(1)->Arg(100)->UseRealTime();

// A device computes items of 4 MiB by one memcpy, into a few buffers that the
// callback releases. Compared with the memcpy alone.
void BM_LargeItems(benchmark::State& state) {
  constexpr int64_t kNumBytes = int64_t{4} << 20;
  constexpr int kNumBuffers = 4;
  constexpr int kNumRounds = 8;
  const DefaultEnvironment environment(/*num_workers=*/1);
  Outfeed outfeed(environment.get(), kNumBytes, [] {});
  const OutfeedSender sender = outfeed.sender();
  const std::vector<char> source(kNumBytes, 1);
  std::vector<std::vector<char>> buffers(kNumBuffers,
                                         std::vector<char>(kNumBytes));
  std::vector<std::unique_ptr<BlockingCounter>> uses(kNumBuffers);
  const auto await = [&uses](int i) {
    if (uses[i] != nullptr) uses[i]->Wait();
  };
  const auto compute = [&](int i) {
    std::memcpy(buffers[i].data(), source.data(), kNumBytes);
    benchmark::ClobberMemory();
  };
  std::vector<double> alone, streamed;
  for (auto _ : state) {
    alone.push_back(Seconds([&] {
      for (int i = 0; i < kNumRounds * kNumBuffers; ++i) {
        compute(i % kNumBuffers);
      }
    }));
    streamed.push_back(Seconds([&] {
      for (int n = 0; n < kNumRounds * kNumBuffers; ++n) {
        const int i = n % kNumBuffers;
        await(i);
        compute(i);
        uses[i] = std::make_unique<BlockingCounter>(1);
        sender.Send(
            kConsumerId,
            {outfeed.Wrapped(buffers[i].data(),
                             [use = uses[i].get()] { use->DecrementCount(); })},
            nullptr);
      }
      for (int i = 0; i < kNumBuffers; ++i) await(i);
    }));
    state.SetIterationTime(streamed.back());
  }
  if (!outfeed.ShutDown()) state.SkipWithError("the outfeed failed");
  state.SetBytesProcessed(state.iterations() * kNumRounds * kNumBuffers *
                          kNumBytes);
  state.counters["of_memcpy"] = Median(alone) / Median(streamed);
}
BENCHMARK(BM_LargeItems)->UseManualTime();

// Latency from Send() to the callback on an idle machine. Compared with the
// time to wake the work queue's thread.
void BM_Latency(benchmark::State& state) {
  const DefaultEnvironment environment(/*num_workers=*/1);
  std::unique_ptr<BlockingCounter> left;
  std::chrono::steady_clock::time_point received;
  const auto receive = [&] {
    received = std::chrono::steady_clock::now();
    left->DecrementCount();
  };
  Outfeed outfeed(environment.get(), /*num_bytes=*/4, receive);
  const OutfeedSender sender = outfeed.sender();
  int data = 0;
  const Tensor item = outfeed.Wrapped(&data);
  const auto micros = [&](const std::function<void()>& cause) {
    left = std::make_unique<BlockingCounter>(1);
    const auto begin = std::chrono::steady_clock::now();
    cause();
    left->Wait();
    return std::chrono::duration<double, std::micro>(received - begin).count();
  };
  std::vector<double> items, wakes;
  for (auto _ : state) {
    wakes.push_back(
        micros([&] { environment.get().queue->Schedule(receive); }));
    items.push_back(micros([&] { sender.Send(kConsumerId, {item}, nullptr); }));
    state.SetIterationTime(items.back() * 1e-6);
  }
  if (!outfeed.ShutDown()) state.SkipWithError("the outfeed failed");
  state.counters["p50_us"] = Median(items);
  state.counters["wake_p50_us"] = Median(wakes);
}
BENCHMARK(BM_Latency)->UseManualTime();

}  // namespace
}  // namespace tutti
