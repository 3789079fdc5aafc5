#include "remote/grpc/transfers/loan_watch.h"

#include <memory>
#include <string>
#include <utility>

namespace tutti {
namespace {

void AfterGrace(const SendContext& context, Work work) {
  Clock& clock = *context.options().environment.clock;
  clock.CallAt(clock.Now() + context.options().cancel_grace, std::move(work));
}

void BreakAfterGrace(const std::weak_ptr<Loan>& watched, SendContext* context,
                     std::string peer) {
  // InFlight counts the Loan: the context lives as long as the Loan does.
  const std::shared_ptr<Loan> loan = watched.lock();
  if (loan == nullptr) return;
  AfterGrace(*context, [context, peer = std::move(peer), watched] {
    const std::shared_ptr<Loan> still_held = watched.lock();
    if (still_held != nullptr) context->Break(peer);
  });
}

}  // namespace

void WatchSend(std::shared_ptr<Loan> loan, SendContext* context,
               std::string peer, Work cancel_stream) {
  const std::weak_ptr<Loan> watched = std::exchange(loan, nullptr);
  if (watched.expired()) return;
  AfterGrace(*context, [watched, context, peer = std::move(peer),
                        cancel_stream = std::move(cancel_stream)]() mutable {
    if (watched.expired()) return;
    std::move(cancel_stream)();
    BreakAfterGrace(watched, context, std::move(peer));
  });
}

}  // namespace tutti
