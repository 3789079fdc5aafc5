// Cost of a transfer in the rendezvous alone: a post, a receive, a delivery and
// a release.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "framework/peer/buf_rendezvous.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

class Ends : public Sender, public Receiver {
 public:
  void OnReleased(int32_t, absl::Status status) override {
    num_ok_ += status.ok();
  }
  void OnDelivery(int32_t, absl::Status status, Delivery delivery) override {
    delivery.Release(std::move(status));
  }
  int64_t num_ok() const { return num_ok_; }

 private:
  int64_t num_ok_ = 0;
};

// Keeps `waiting` other transfers with one side in the table.
void BM_Transfer(benchmark::State& state) {
  const std::byte bytes[4] = {};
  Ends ends;
  BufRendezvous rendezvous;  // Destroyed first: it calls `ends`.
  BufKey key;
  key.exec = {.generation = 1, .step = 1, .group = 1, .instance = 1};
  const Offer offer{.bytes = bytes, .sender = &ends};
  const RecvRequest recv{.num_bytes = sizeof(bytes), .receiver = &ends};
  for (int32_t i = 0; i < state.range(0); ++i) {
    rendezvous.Provide({key.exec, /*tag=*/1 + i, 1, 0}, offer);
  }
  for (auto _ : state) {
    ++key.exec.execution;
    rendezvous.Provide(key, offer);
    rendezvous.Consume(key, recv);
  }
  if (ends.num_ok() != static_cast<int64_t>(state.iterations())) {
    state.SkipWithError("a transfer failed");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Transfer)->ArgName("waiting")->Arg(0)->Arg(1000)->Arg(100000);

}  // namespace
}  // namespace tutti
