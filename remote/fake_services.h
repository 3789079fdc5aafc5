#ifndef TUTTI_REMOTE_FAKE_SERVICES_H_
#define TUTTI_REMOTE_FAKE_SERVICES_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "remote/transfer_channel.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti {

// Control service made from a function.
class FunctionService final : public ControlService {
 public:
  using Function = std::function<void(
      const ControlCaller&, const proto::ControlRequest&,
      std::shared_ptr<Cancellation> withdrawn, ControlDone done)>;

  explicit FunctionService(Function function)
      : function_(std::move(function)) {}

  void Handle(const ControlCaller& caller, const proto::ControlRequest& request,
              std::shared_ptr<Cancellation> withdrawn,
              ControlDone done) override {
    function_(caller, request, std::move(withdrawn), std::move(done));
  }

 private:
  const Function function_;
};

// Transfer service made of a table: offers and requests meet by key.
class TableService final : public TransferService {
 public:
  void Provide(const BufKey& key, const Offer& offer) ABSL_LOCKS_EXCLUDED(mu_);

  void Serve(std::shared_ptr<ServedRequest> request) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void Withdraw(const std::shared_ptr<ServedRequest>& request,
                absl::Status reason) override ABSL_LOCKS_EXCLUDED(mu_);

  // Blocks until so many requests wait.
  void WaitForRequests(size_t num_requests) ABSL_LOCKS_EXCLUDED(mu_);

  size_t num_withdrawn() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  static void Meet(const Offer& offer, ServedRequest& request);

  Mutex mu_;
  CondVar changed_;
  absl::flat_hash_map<BufKey, Offer> offers_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<BufKey, std::shared_ptr<ServedRequest>> requests_
      ABSL_GUARDED_BY(mu_);
  size_t num_withdrawn_ ABSL_GUARDED_BY(mu_) = 0;
};

// Cancels the request under way for `key`.
void CancelRequest(TransferChannel& transfers, const BufKey& key,
                   const absl::Status& reason);

// Waits for the release of one offer.
class WaitingSender final : public Sender {
 public:
  void OnReleased(int32_t id, absl::Status status) override
      ABSL_LOCKS_EXCLUDED(mu_);

  // Blocks until the release.
  absl::Status Wait() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;
  CondVar changed_;
  bool is_released_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// Collects the bytes of one transfer: copies each part, unless the part already
// lies in into().
class WaitingReceiver : public Receiver {
 public:
  // Gets the number of bytes that have come, after each part. An error is that
  // of the part.
  using AfterPart = std::function<absl::Status(size_t num_received)>;

  explicit WaitingReceiver(size_t num_bytes, AfterPart after_part = nullptr)
      : bytes_(num_bytes), after_part_(std::move(after_part)) {}

  absl::Status OnPart(int32_t id, size_t offset,
                      absl::Span<const std::byte> part) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnDelivery(int32_t id, absl::Status status, Delivery delivery) override
      ABSL_LOCKS_EXCLUDED(mu_);

  // Blocks until all bytes have come, or the transfer has failed.
  absl::Status Wait() ABSL_LOCKS_EXCLUDED(mu_);

  // Blocks until a part has come.
  void WaitForPart() ABSL_LOCKS_EXCLUDED(mu_);

  // Returns memory for RecvRequest::into.
  absl::Span<std::byte> into() { return absl::MakeSpan(bytes_); }

  // Call after Wait().
  const std::vector<std::byte>& bytes() const { return bytes_; }
  const std::vector<size_t>& part_sizes() const { return part_sizes_; }
  size_t num_in_place() const { return num_in_place_; }  // Counts parts.

 private:
  std::vector<std::byte> bytes_;
  const AfterPart after_part_;
  std::vector<size_t> part_sizes_;
  size_t num_in_place_ = 0;

  Mutex mu_;
  CondVar changed_;
  size_t num_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_reported_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// Stays in OnPart() once `pause_at` bytes have come, until GoOn().
class PausingReceiver final : public WaitingReceiver {
 public:
  explicit PausingReceiver(size_t num_bytes, size_t pause_at = 1)
      : WaitingReceiver(num_bytes, [this, pause_at](size_t num_received) {
          if (num_received >= pause_at && !std::exchange(has_paused_, true)) {
            paused_.DecrementCount();
            may_go_on_.Wait();
          }
          return absl::OkStatus();
        }) {}

  void WaitForPause() { paused_.Wait(); }
  void GoOn() { may_go_on_.DecrementCount(); }

 private:
  bool has_paused_ = false;  // Owned by the thread of the parts.
  BlockingCounter paused_{1};
  BlockingCounter may_go_on_{1};
};

// Call whose answer the test waits for.
class PendingCall {
 public:
  PendingCall(ControlChannel& channel, int task, proto::ControlRequest request,
              ControlCallOptions options = {}) {
    channel.Call(task, std::move(request), std::move(options),
                 [this](ControlAnswer answer) {
                   answer_ = std::move(answer);
                   answered_.DecrementCount();
                 });
  }

  // Blocks until the answer.
  const ControlAnswer& Wait() {
    answered_.Wait();
    return answer_;
  }

 private:
  ControlAnswer answer_;
  BlockingCounter answered_{1};
};

// Makes a call and blocks until its answer.
ControlAnswer CallAndWait(ControlChannel& channel, int task,
                          proto::ControlRequest request,
                          ControlCallOptions options = {});

}  // namespace tutti

#endif  // TUTTI_REMOTE_FAKE_SERVICES_H_
