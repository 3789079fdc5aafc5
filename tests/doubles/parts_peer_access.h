#ifndef TUTTI_TESTS_DOUBLES_PARTS_PEER_ACCESS_H_
#define TUTTI_TESTS_DOUBLES_PARTS_PEER_ACCESS_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "tests/doubles/forwarding_peer_access.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {

// Forwards transfers, and delivers the bytes to the receiver in parts, as a
// transport between processes does: one element, then half of the rest, then
// the others. The half goes to its destination directly if the receiver names
// it.
class PartsPeerAccess : public ForwardingPeerAccess {
 public:
  explicit PartsPeerAccess(std::unique_ptr<PeerAccessInterface> target)
      : ForwardingPeerAccess(std::move(target)) {}

  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    RecvRequest in_parts = recv;
    in_parts.receiver =
        new InParts(recv);  // Deletes itself after the delivery.
    target().RecvFromPeer(peer, key, in_parts);
  }

 private:
  class InParts : public Receiver {
   public:
    explicit InParts(const RecvRequest& recv) : recv_(recv) {}

    void OnDelivery(int32_t /*id*/, absl::Status status,
                    Delivery delivery) override {
      const std::unique_ptr<InParts> self(this);
      if (status.ok()) {
        status = HandOn(delivery.bytes);
        delivery.Release(status);
      }
      recv_.receiver->OnDelivery(recv_.id, std::move(status), {});
    }

   private:
    absl::Status HandOn(absl::Span<const std::byte> bytes) const {
      const size_t element = SizeOf(recv_.dtype);
      const size_t half = bytes.size() / element / 2 * element;
      absl::Status status;
      for (size_t begin = 0; begin < bytes.size() && status.ok();) {
        const size_t wanted_end = begin == 0 ? element : half;
        const size_t end = wanted_end > begin
                               ? std::min(wanted_end, bytes.size())
                               : bytes.size();
        absl::Span<const std::byte> part = bytes.subspan(begin, end - begin);
        if (end == half && !recv_.into.empty()) {
          const auto place = recv_.into.subspan(begin, part.size());
          absl::c_copy(part, place.begin());
          part = place;
        }
        status = recv_.receiver->OnPart(recv_.id, begin, part);
        begin = end;
      }
      return status;
    }

    const RecvRequest recv_;
  };
};

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_PARTS_PEER_ACCESS_H_
