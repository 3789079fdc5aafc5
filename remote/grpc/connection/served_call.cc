#include "remote/grpc/connection/served_call.h"

#include <utility>

#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  static Refusal* Begin(const absl::Status& status) {
    auto refusal = std::make_shared<Refusal>();
    Refusal* const reactor = refusal.get();
    reactor->self_ = std::move(refusal);
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  void OnDone() override { std::exchange(self_, nullptr).reset(); }

 private:
  std::shared_ptr<Refusal> self_;
};

}  // namespace

grpc::ServerGenericBidiReactor* Refuse(const absl::Status& status,
                                       grpc::CallbackServerContext* context) {
  MarkAnswered(*context);
  return Refusal::Begin(status);
}

}  // namespace tutti
