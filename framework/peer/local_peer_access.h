#ifndef TUTTI_FRAMEWORK_PEER_LOCAL_PEER_ACCESS_H_
#define TUTTI_FRAMEWORK_PEER_LOCAL_PEER_ACCESS_H_

#include <string>
#include <utility>

#include "framework/peer/buf_rendezvous.h"
#include "tutti/peer_access.h"

namespace tutti {

// Transfers among members of this process: the receiver reads the sender's
// buffer directly.
class LocalPeerAccess : public PeerAccessInterface {
 public:
  void PostToPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                  const Offer& offer) override {
    rendezvous_.Provide(key, offer);
  }
  void RecvFromPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                    const RecvRequest& recv) override {
    rendezvous_.Consume(key, recv);
  }
  void CancelExecution(const CollGroupParams& /*group*/, const ExecKey& exec,
                       absl::Status reason) override {
    rendezvous_.CancelExecution(exec, std::move(reason));
  }
  absl::Status StatusOf(const ExecKey& exec) const override {
    return rendezvous_.StatusOf(exec);
  }
  void ForgetExecution(const ExecKey& exec) override {
    rendezvous_.ForgetExecution(exec);
  }
  void StartAbort(absl::Status reason) override {
    rendezvous_.StartAbort(std::move(reason));
  }
  std::string DescribeWaiting(const CollGroupParams& /*group*/,
                              const ExecKey& exec) override {
    return rendezvous_.DescribeWaiting(exec);
  }

 private:
  BufRendezvous rendezvous_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PEER_LOCAL_PEER_ACCESS_H_
